"""Theorems of the papers as functions: which step sizes they admit, what becomes of constants, how fast costs fall.

`pars_push` has the constants and step sizes of costs after u personal steps, `persa_fl` those of asynchronous
personalized learning with its rates, `qupel` the steps that make a quantized objective fall.
"""

from idiolect.contracts.constants import Constants, Variation
from idiolect.theory.checks import check_personal_step
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
from idiolect.theory.persa_fl import PersonalCost, check_lambda, maml_bias, maml_cost, moreau_cost, plain_cost
from idiolect.theory.persa_fl_bounds import (
    Bound,
    Run,
    fedasync_bound,
    least_steps,
    maml_bound,
    moreau_bound,
    server_step_size,
)
from idiolect.theory.qupel import Staircase, levels_step_size, shared_step_size, staircase, weights_step_size

__all__ = [
    "Bound",
    "Constants",
    "PersonalCost",
    "Run",
    "Staircase",
    "Variation",
    "admissible_step_size",
    "check_lambda",
    "check_personal_step",
    "contact_period",
    "convex_step_size",
    "effective_delay",
    "fedasync_bound",
    "least_steps",
    "levels_step_size",
    "maml_bias",
    "maml_bound",
    "maml_cost",
    "meta_convexity",
    "meta_smoothness",
    "meta_variance",
    "moreau_bound",
    "moreau_cost",
    "nonconvex_smoothness",
    "nonconvex_step_size",
    "nonconvex_variance",
    "plain_cost",
    "server_step_size",
    "shared_step_size",
    "staircase",
    "weights_step_size",
]
