"""Theorems of the papers as functions: which step sizes they admit, what becomes of constants, how fast costs fall.

`pars_push` has the constants and step sizes of costs after u personal steps, `persa_fl` those of asynchronous
personalized learning with its rates, `per_fedavg` those of learning in rounds, `memrl` those of policies that adapt,
`qupel` the steps that make a quantized objective fall, `qupel_bounds` how far.
"""

from idiolect.contracts.constants import Constants, Variation
from idiolect.theory.checks import check_personal_step
from idiolect.theory.memrl import (
    PolicyBound,
    PolicyRun,
    envelope_constants,
    policy_bound,
    policy_step_size,
    return_constants,
)
from idiolect.theory.pars_push import (
    admissible_step_size,
    contact_period,
    convex_step_size,
    effective_delay,
    meta_convexity,
    meta_smoothness,
    meta_variance,
    nonconvex_smoothness,
    nonconvex_step_size,
    nonconvex_variance,
)
from idiolect.theory.pars_push_consensus import Consensus, consensus_bound, consensus_constants
from idiolect.theory.per_fedavg import (
    DiversityBound,
    MetaBatches,
    MetaCost,
    hessian_free_noise,
    meta_cost,
    total_variation_diversity,
    wasserstein_diversity,
)
from idiolect.theory.per_fedavg_bounds import (
    Drift,
    MetaBound,
    Rounds,
    drift_bound,
    meta_step_size,
    per_fedavg_bound,
    short_drift_bound,
)
from idiolect.theory.persa_fl import PersonalCost, check_lambda, maml_bias, maml_cost, moreau_cost, plain_cost
from idiolect.theory.persa_fl_bounds import (
    Bound,
    Run,
    client_step_size,
    fedasync_bound,
    least_steps,
    maml_bound,
    moreau_bound,
)
from idiolect.theory.persa_fl_budgets import Budget, maml_budget, moreau_budget
from idiolect.theory.qupel import Staircase, levels_step_size, shared_step_size, staircase, weights_step_size
from idiolect.theory.qupel_bounds import (
    StationaryBound,
    disagreement_bound,
    diversity,
    quantized_drift_bound,
    qupel_bound,
)

__all__ = [
    "Bound",
    "Budget",
    "Consensus",
    "Constants",
    "DiversityBound",
    "Drift",
    "MetaBatches",
    "MetaBound",
    "MetaCost",
    "PersonalCost",
    "PolicyBound",
    "PolicyRun",
    "Rounds",
    "Run",
    "Staircase",
    "StationaryBound",
    "Variation",
    "admissible_step_size",
    "check_lambda",
    "check_personal_step",
    "client_step_size",
    "consensus_bound",
    "consensus_constants",
    "contact_period",
    "convex_step_size",
    "disagreement_bound",
    "diversity",
    "drift_bound",
    "effective_delay",
    "envelope_constants",
    "fedasync_bound",
    "hessian_free_noise",
    "least_steps",
    "levels_step_size",
    "maml_bias",
    "maml_bound",
    "maml_budget",
    "maml_cost",
    "meta_convexity",
    "meta_cost",
    "meta_smoothness",
    "meta_step_size",
    "meta_variance",
    "moreau_bound",
    "moreau_budget",
    "moreau_cost",
    "nonconvex_smoothness",
    "nonconvex_step_size",
    "nonconvex_variance",
    "per_fedavg_bound",
    "plain_cost",
    "policy_bound",
    "policy_step_size",
    "quantized_drift_bound",
    "qupel_bound",
    "return_constants",
    "shared_step_size",
    "short_drift_bound",
    "staircase",
    "total_variation_diversity",
    "wasserstein_diversity",
    "weights_step_size",
]
