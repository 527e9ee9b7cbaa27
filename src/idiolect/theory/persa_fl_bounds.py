"""Bounds of PersA-FL's theorems on how fast the gradient vanishes, with the step sizes and run lengths they ask for.

The paper, its line map and our deviations from it are in `idiolect.theory.persa_fl`.
"""

import math
from typing import Literal, NamedTuple

from idiolect.contracts.constants import Constants, Variation
from idiolect.errors import UserMistake
from idiolect.theory.checks import at_least, positive
from idiolect.theory.persa_fl import Lemma6, PersonalCost, maml_cost, moreau_cost, plain_cost

Method = Literal["fedasync", "maml", "moreau"]


class Bound(NamedTuple):
    """A bound on the mean squared gradient norm, by where it comes from."""

    start: float  # how far above the infimum the first model is: 1 / sqrt(T)
    noise: float  # batches and the choice of clients: 1 / sqrt(T)
    staleness: float  # and local steps: (tau^2 + 1) / T
    personalization: float  # a biased gradient: stays, however long it runs

    @property
    def total(self) -> float:
        """The bound itself."""
        return sum(self)


class Run(NamedTuple):
    """What the theorems ask of a run: Q, tau, T and F(w^0) - f*, where f* is the least value of any f_i."""

    local_steps: int
    staleness: int
    steps: int
    gap: float


def client_step_size(cost: PersonalCost, local_steps: int, steps: int) -> float:
    """The client's eta = 1 / (Q sqrt(L T)), with the L of the cost (Theorems 1-3); the server's step is beta = 1.

    Args:
        cost: Its smoothness is the L.
        local_steps: Q.
        steps: T.

    Returns:
        eta.

    Example:
        >>> from idiolect.theory import PersonalCost, client_step_size
        >>> client_step_size(PersonalCost(1.0, 0.0, 1.0, 1.0, 1.0), local_steps=10, steps=100)
        0.01
    """
    positive("smoothness", cost.smoothness)
    at_least("local_steps", local_steps, 1)
    at_least("steps", steps, 1)
    return 1 / (local_steps * math.sqrt(cost.smoothness * steps))


def least_steps(method: Method, cost: PersonalCost, local_steps: int, staleness: int) -> float:
    """The T from which on the theorem of this method holds.

    Args:
        method: Which theorem: of `fedasync`, `maml` or `moreau`.
        cost: Its smoothness is the L.
        local_steps: Q.
        staleness: tau.

    Returns:
        T.

    Example:
        >>> from idiolect.theory import PersonalCost, least_steps
        >>> least_steps("fedasync", PersonalCost(1.0, 0.0, 1.0, 1.0, 1.0), local_steps=3, staleness=1)
        12800.0
    """
    if method == "maml":
        return 64 * cost.smoothness
    factor = 160 if method == "fedasync" else 288
    return factor * cost.smoothness * (local_steps + 7) * (staleness + 1) ** 3


def fedasync_bound(constants: Constants, variation: Variation, run: Run, *, batch_size: int) -> Bound:
    """Theorem 1: FedAsync on f.

    Args:
        constants: L, rho and G.
        variation: How much samples and clients differ.
        run: Q, tau, T and how far above the infimum it starts.
        batch_size: b.

    Returns:
        The bound, by where it comes from.

    Example:
        >>> from idiolect.theory import Constants, Run, Variation, fedasync_bound
        >>> run = Run(local_steps=1, staleness=0, steps=10000, gap=1.0)
        >>> fedasync_bound(Constants(0.0, 1.0), Variation(2.0, 0.0, 1.0, 0.0), run, batch_size=4).start
        0.04
    """
    cost = plain_cost(constants, variation, batch_size=batch_size)
    start, noise = _sublinear("fedasync", cost, run)
    late = 80 * cost.smoothness * (1 + run.local_steps) * (cost.noise**2 + cost.diversity**2)
    return Bound(start, noise, late * (run.staleness**2 + 1) / run.steps, 0.0)


def maml_bound(constants: Constants, variation: Variation, run: Run, *, step_size: float, batch_size: int) -> Bound:
    """Theorem 2: PersA-FL-MAML on F^(b).

    Args:
        constants: L, rho and G, which must be finite.
        variation: How much samples and clients differ.
        run: Q, tau, T and how far above the infimum it starts.
        step_size: alpha.
        batch_size: b.

    Returns:
        The bound, by where it comes from.

    Example:
        >>> from idiolect.theory import Constants, Run, Variation, maml_bound
        >>> run = Run(local_steps=1, staleness=0, steps=10000, gap=1.0)
        >>> constants, variation = Constants(0.0, 1.0, gradient_bound=1.0), Variation(2.0, 0.0, 1.0, 0.0)
        >>> maml_bound(constants, variation, run, step_size=0.0, batch_size=4).personalization
        0.0
    """
    cost = maml_cost(constants, variation, step_size=step_size, batch_size=batch_size)
    start, noise = _sublinear("maml", cost, run)
    late = 20 * run.local_steps * cost.smoothness * (cost.gradient_bound**2 + cost.noise**2)
    biased = 4 * run.local_steps * cost.bias**2
    return Bound(start, noise, late * (run.staleness**2 + 1) / run.steps, biased)


def moreau_bound(
    constants: Constants,
    variation: Variation,
    run: Run,
    *,
    lambda_: float,
    accuracy: float,
    batch_size: int,
    lemma_6: Lemma6 = "repaired",
) -> Bound:
    """Theorem 3: PersA-FL-ME on F^(c), with nu = `accuracy`; with `lemma_6="printed"` its last term has nu only.

    Args:
        constants: L, rho and G.
        variation: How much samples and clients differ.
        run: Q, tau, T and how far above the infimum it starts.
        lambda_: Of the envelope, at least 7 L.
        accuracy: nu.
        batch_size: b.
        lemma_6: With "printed" the last term has nu only.

    Returns:
        The bound, by where it comes from.

    Example:
        >>> from idiolect.theory import Constants, Run, Variation, moreau_bound
        >>> run = Run(local_steps=1, staleness=0, steps=10000, gap=1.0)
        >>> terms = {"lambda_": 10.0, "accuracy": 0.0, "batch_size": 4, "lemma_6": "printed"}
        >>> moreau_bound(Constants(0.0, 1.0), Variation(2.0, 0.0, 1.0, 0.0), run, **terms).personalization
        0.0
    """
    cost = moreau_cost(constants, variation, lambda_=lambda_, accuracy=accuracy, batch_size=batch_size, lemma_6=lemma_6)
    start, noise = _sublinear("moreau", cost, run)
    late = 144 * cost.smoothness * (1 + run.local_steps) * (cost.noise**2 + cost.diversity**2)
    biased = 4 * run.local_steps * cost.bias**2
    return Bound(start, noise, late * (run.staleness**2 + 1) / run.steps, biased)


def _sublinear(method: Method, cost: PersonalCost, run: Run) -> tuple[float, float]:
    """The two terms in 1 / sqrt(T), which the three theorems have alike."""
    at_least("local_steps", run.local_steps, 1)
    at_least("staleness", run.staleness, 0)
    at_least("gap", run.gap, 0)
    least = least_steps(method, cost, run.local_steps, run.staleness)
    if not run.steps >= least:
        raise UserMistake(f"steps is {run.steps}, but the theorem needs at least {math.ceil(least)}")
    root = math.sqrt(cost.smoothness / run.steps)
    return 4 * root * run.gap, 8 * root * (cost.noise**2 + cost.diversity**2)
