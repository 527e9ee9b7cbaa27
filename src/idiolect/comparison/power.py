"""How many pairs a decision takes: the power of Student's paired test, by the noncentral t law.

If the differences are normal with a mean of d standard deviations, the test statistic of n pairs has the noncentral t
law with n - 1 degrees of freedom and noncentrality d sqrt(n) (J. Cohen. Statistical Power Analysis. 1988, Sec. 2.2).
The mean and the spread are those measured so far, so what comes out is a plan and no promise.
"""

import math

from idiolect.comparison.pairing import LEVEL

POWER = 0.8  # how often a difference as large as the measured one is to be told from chance
_MANY = 500  # pairs above which the normal law serves: its error is below half a pair in a hundred there


def power_of(effect: float, pairs: int, level: float = LEVEL) -> float:
    """How often the one-sided test at this level tells an effect, in standard deviations, from zero."""
    from scipy import stats  # which takes a third of a second, and not every command needs it

    if pairs < 2:
        return 0.0
    if pairs > _MANY:
        return float(stats.norm.sf(stats.norm.ppf(1 - level) - effect * math.sqrt(pairs)))
    return float(stats.nct.sf(stats.t.ppf(1 - level, pairs - 1), pairs - 1, effect * math.sqrt(pairs)))


def pairs_for(mean: float, std: float, level: float = LEVEL, power: float = POWER) -> float:
    """The fewest pairs that tell a mean above zero from zero so often; infinitely many for a mean that is not."""
    if not mean > 0:
        return math.inf
    if not std > 0:
        return 2
    effect, pairs = mean / std, 2
    while power_of(effect, pairs, level) < power:  # doubling, then halving: the power grows with the pairs
        pairs *= 2
    fewest = max(pairs // 2, 1)
    while pairs - fewest > 1:
        middle = (fewest + pairs) // 2
        enough = power_of(effect, middle, level) >= power
        fewest, pairs = (fewest, middle) if enough else (middle, pairs)
    return pairs
