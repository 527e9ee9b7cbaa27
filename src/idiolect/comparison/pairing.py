"""The difference between two things that were measured side by side, and what it can be trusted for.

Student's paired test: the differences, one for each seed, are taken for independent draws with a common mean. The
interval covers that mean 95 times in a hundred; `p` is how often differences with mean zero would be as far above it.
With one pair there is a difference, and nothing to say about it.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LEVEL = 0.05  # below which a p speaks


class Paired(NamedTuple):
    """Differences first - second over some pairs."""

    mean: float
    std: float
    low: float  # the ends of the 95 % confidence interval of the mean
    high: float
    p: float  # one-sided: that the mean is not above zero
    pairs: int


def paired(first: Sequence[float], second: Sequence[float]) -> Paired:
    """Student's paired test of first > second."""
    from scipy import stats  # which takes a third of a second, and not every command needs it

    differences = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    mean, count = float(differences.mean()), len(differences)
    if count < 2:
        return Paired(mean, 0.0, -math.inf, math.inf, math.nan, count)
    std = float(differences.std(ddof=1))
    error = std / math.sqrt(count)
    half = float(stats.t.ppf(1 - LEVEL / 2, count - 1)) * error
    p = float(stats.t.sf(mean / error, count - 1)) if error else float(mean <= 0)
    return Paired(mean, std, mean - half, mean + half, p, count)
