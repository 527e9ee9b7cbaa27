"""What a run of PersA-FL takes to come as near to a stationary point as one asks: Corollaries 1 and 3, with constants.

M. T. Toghani, S. Lee, C. A. Uribe. PersA-FL: personalized asynchronous federated learning. 2023, Corollaries 1 and 3.

| PersA-FL | code |
| --- | --- |
| Corollary 1: T = O(eps^-2), b = O(eps^-1) for a fixed alpha | `maml_budget` |
| Corollary 3: T = O(eps^-2), nu = O(eps^(1/2)) for a fixed lambda | `moreau_budget` |

The paper leaves open what an eps-stationary solution is. Its orders are those of a *mean square* (1/T) sum_t
E ||grad F(w^t)||^2 <= eps, which is what the theorems bound, and so it is here: half of eps is for the term that stays,
half for those that fall with T.

Deviations: the constants are ours, the corollaries give orders only. Corollary 3 rests on Lemma 6 as printed, which
fails (see `idiolect.theory.persa_fl`); with the lemma repaired, batches have to grow like eps^-1 here too, and nu and
the batch take half of what the root of the last term leaves them.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from idiolect.contracts.constants import Constants, Variation
from idiolect.theory.checks import at_least, positive
from idiolect.theory.persa_fl import Lemma6, maml_cost, moreau_cost
from idiolect.theory.persa_fl_bounds import Bound, Run, least_steps, maml_bound, moreau_bound


class Budget(NamedTuple):
    """What brings the mean squared gradient norm down to what was asked for."""

    steps: int  # T
    batch_size: int  # b
    accuracy: float = 0.0  # nu, of the Moreau envelope


def maml_budget(
    constants: Constants,
    variation: Variation,
    *,
    epsilon: float,
    step_size: float,
    local_steps: int,
    staleness: int,
    gap: float,
) -> Budget:
    """Corollary 1: T and b from which on Theorem 2's bound is at most epsilon.

    Args:
        constants: L, rho and G, which must be finite.
        variation: How much samples and clients differ.
        epsilon: The mean squared gradient norm that is asked for.
        step_size: alpha.
        local_steps: Q.
        staleness: tau.
        gap: F(w^0) - f*.

    Returns:
        T and b.

    Example:
        >>> from idiolect.theory import Constants, Variation, maml_budget
        >>> constants, variation = Constants(0.0, 1.0, gradient_bound=1.0), Variation(2.0, 0.0, 1.0, 0.0)
        >>> run = {"local_steps": 2, "staleness": 1, "gap": 1.0}
        >>> maml_budget(constants, variation, epsilon=0.1, step_size=0.5, **run).batch_size
        360
    """
    positive("epsilon", epsilon)
    alone = maml_cost(constants, variation, step_size=step_size, batch_size=1)
    size = max(math.ceil(4 * local_steps * alone.bias**2 / (epsilon / 2)), 1)  # the bias falls like 1 / sqrt(b)
    cost = maml_cost(constants, variation, step_size=step_size, batch_size=size)
    least = least_steps("maml", cost, local_steps, staleness)

    def bound(steps: int) -> Bound:
        run = Run(local_steps, staleness, steps, gap)
        return maml_bound(constants, variation, run, step_size=step_size, batch_size=size)

    return Budget(_steps(bound, least, epsilon / 2), size)


def moreau_budget(
    constants: Constants,
    variation: Variation,
    *,
    epsilon: float,
    lambda_: float,
    local_steps: int,
    staleness: int,
    gap: float,
    lemma_6: Lemma6 = "repaired",
) -> Budget:
    """Corollary 3: T, nu and b from which on Theorem 3's bound is at most epsilon.

    Args:
        constants: L, rho and G.
        variation: How much samples and clients differ.
        epsilon: The mean squared gradient norm that is asked for.
        lambda_: Of the envelope, at least 7 L.
        local_steps: Q.
        staleness: tau.
        gap: F(w^0) - f*.
        lemma_6: With "printed" batches of one sample do for any epsilon.

    Returns:
        T, b and nu.

    Example:
        >>> from idiolect.theory import Constants, Variation, moreau_budget
        >>> constants, variation = Constants(0.0, 1.0), Variation(2.0, 0.0, 1.0, 0.0)
        >>> run = {"lambda_": 9.0, "local_steps": 2, "staleness": 1, "gap": 1.0}
        >>> moreau_budget(constants, variation, epsilon=0.01, **run, lemma_6="printed").batch_size
        1
    """
    positive("epsilon", epsilon)
    at_least("local_steps", local_steps, 1)
    stretch = moreau_cost(constants, variation, accuracy=1.0, batch_size=1, lambda_=lambda_, lemma_6="printed").bias
    room = math.sqrt(epsilon / 2 / (4 * local_steps)) / stretch  # for nu, and for sigma_g / sqrt(b)
    size, accuracy = 1, room
    if lemma_6 == "repaired":
        size, accuracy = max(math.ceil((2 * variation.gradient_noise / room) ** 2), 1), room / 2
    cost = moreau_cost(constants, variation, lambda_=lambda_, accuracy=accuracy, batch_size=size)
    least = least_steps("moreau", cost, local_steps, staleness)  # which goes by the smoothness alone

    def bound(steps: int) -> Bound:
        run = Run(local_steps, staleness, steps, gap)
        return moreau_bound(
            constants, variation, run, lambda_=lambda_, accuracy=accuracy, batch_size=size, lemma_6=lemma_6
        )

    return Budget(_steps(bound, least, epsilon / 2), size, accuracy)


def _steps(bound: Callable[[int], Bound], least: float, most: float) -> int:
    """The least T from which on the terms that fall with T are at most `most`: a quadratic in 1 / sqrt(T)."""
    first = max(math.ceil(least), 1)
    terms = bound(first)
    slow, fast = (terms.start + terms.noise) * math.sqrt(first), terms.staleness * first
    root = (slow + math.sqrt(slow**2 + 4 * most * fast)) / (2 * most)
    return max(first, math.ceil(root**2))
