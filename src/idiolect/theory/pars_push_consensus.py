"""How far agents can be apart while they learn: PARS-Push's Lemma 5.

M. T. Toghani, S. Lee, C. A. Uribe. PARS-Push. 2022, Appendix D: with gamma = (1/n)^(n Gamma_s),
delta = 1 / (1 - n gamma^6) and lambda = (1 - n gamma^6)^(1 / (2 n Gamma_s)),

    ||z_i(t) - X(t)'1/n||_1 <= delta lambda^t ||X(0)||_1 + sum over k < t of delta lambda^(t-k) ||Delta(k)||_1.

Deviations: as printed the bound is too small. A step Delta of an agent changes its z by Delta / y_i, and y_i can be
far below 1: of two agents that have just said something and heard nothing, each has y = 1/2. delta, which is 1 but for
rounding, has no room for that. Since y_i >= gamma, `repaired` divides the bound by gamma. The order in theta of
Theorem 1 stays as it is, the constant of its O(1/T) does not.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from idiolect.theory.checks import at_least


class Consensus(NamedTuple):
    """Lemma 5's constants.

    Args:
        log_weight: log gamma: no weight y falls below gamma, which itself is too small for floats.
        factor: delta.
        decay: lambda.

    Example:
        >>> from idiolect.theory import Consensus
        >>> Consensus(0.0, 1.0, 0.5).decay
        0.5
    """

    log_weight: float
    factor: float
    decay: float


def consensus_constants(agents: int, contact_period: int) -> Consensus:
    """Gamma (as its logarithm), delta and lambda of PARS-Push, Lemma 5.

    Args:
        agents: n, at least 2.
        contact_period: Gamma_s, from `contact_period`.

    Returns:
        The constants; beyond a few agents delta and lambda are 1 to rounding.

    Example:
        >>> from idiolect.theory import consensus_constants
        >>> found = consensus_constants(agents=2, contact_period=2)
        >>> round(2**4 * 2.718281828459045**found.log_weight, 6), found.factor > 1 > found.decay
        (1.0, True)
    """
    at_least("agents", agents, 2)
    at_least("contact_period", contact_period, 1)
    log_weight = -agents * contact_period * math.log(agents)
    lost = agents * math.exp(6 * log_weight)  # n gamma^6
    return Consensus(log_weight, 1 / (1 - lost), math.exp(math.log1p(-lost) / (2 * agents * contact_period)))


def consensus_bound(
    constants: Consensus,
    start: float,
    steps: Sequence[float],
    lemma_5: Literal["printed", "repaired"] = "repaired",
) -> float:
    """How far an agent's z can be from the average after as many rounds as there are steps (PARS-Push, Lemma 5).

    Args:
        constants: From `consensus_constants`.
        start: ||X(0)||_1, the sum over agents.
        steps: ||Delta(k)||_1 of each round k = 0 … t - 1.
        lemma_5: As printed, or divided by gamma, without which it does not hold.

    Returns:
        The bound on ||z_i(t) - X(t)'1/n||_1.

    Example:
        >>> from idiolect.theory import consensus_bound, consensus_constants
        >>> round(consensus_bound(consensus_constants(2, 2), start=0.0, steps=[1.0], lemma_5="printed"), 3)
        1.0
    """
    at_least("start", start, 0)
    rounds = len(steps)
    decays = [constants.decay ** (rounds - k) for k in range(rounds)]
    printed = constants.factor * (
        constants.decay**rounds * start + sum(decay * step for decay, step in zip(decays, steps, strict=True))
    )
    return printed if lemma_5 == "printed" or not printed else printed * math.exp(-constants.log_weight)
