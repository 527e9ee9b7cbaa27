"""Differences of clients that are nested in seeds: a mixed model, for where seeds are few.

The difference of client k of seed i is mu + a_i + e_ik. The a_i are what the clients of a seed have in common: a
start, a partition, a shared model. The e_ik are their own. Both are normal, with variances that are estimated by
restricted maximum likelihood (H. D. Patterson, R. Thompson. Recovery of inter-block information when block sizes are
unequal. Biometrika, 1971). Then mu is the mean of the seeds' means, weighted by how well each is known.

With as many clients in every seed it can be read off the analysis of variance. If means of seeds spread more than
their clients explain, it is Student's paired test over seeds, with as many degrees of freedom as there are seeds but
one: clients are no evidence by themselves. If they do not, the estimated variance of a_i is zero, and every client
counts. Whoever counts clients only then is right about as often as he says: with five seeds or more, tests at 5 %
err in 2.9 to 5.3 of 100 cases whatever the variances are, one-sided and two-sided. With three it would be up to 7.2 of
100 for the interval, so clients count from five seeds on.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from idiolect.comparison.contrasts import Scores
from idiolect.comparison.pairing import LEVEL

ENOUGH = 5  # seeds, for clients to count


class Nested(NamedTuple):
    """A mean difference over seeds and clients; the first six fields are those of `Paired`."""

    mean: float
    std: float  # of one seed's mean, as far as known: the standard error times the root of the number of seeds
    low: float  # the ends of the 95 % confidence interval of the mean
    high: float
    p: float  # one-sided: that the mean is not above zero
    pairs: int  # seeds
    clients: int  # pairs of a seed and a client
    seeds_std: float  # the standard deviation of what the clients of a seed have in common
    clients_std: float  # and of what they have not
    freedom: int  # degrees of freedom


def nested(differences: Sequence[np.ndarray]) -> Nested:
    """The mixed model of the clients' differences, one array for each seed."""
    from scipy import stats  # which takes a third of a second, and not every command needs it

    seeds, counts = len(differences), np.array([len(mine) for mine in differences])
    means, total = np.array([np.mean(mine) for mine in differences]), int(counts.sum())
    inside = float(sum(np.square(mine - np.mean(mine)).sum() for mine in differences))
    if seeds < 2:
        lone = math.sqrt(inside / (total - 1)) if total > 1 else 0.0
        return Nested(float(means[0]), 0.0, -math.inf, math.inf, math.nan, seeds, total, 0.0, lone, 0)
    ratio = _ratio(means, counts, inside) if total > seeds else math.inf
    pooled = ratio == 0 and seeds >= ENOUGH
    if pooled:
        weights, own = counts.astype(float), float(_own_variance(np.zeros(1), means, counts, inside)[0])
        mean, freedom = float(weights @ means / weights.sum()), total - 1
        error, common = math.sqrt(own / total), 0.0
    else:
        weights = 1 / (ratio + 1 / counts) if math.isfinite(ratio) and ratio else np.ones(seeds)
        mean, freedom = float(weights @ means / weights.sum()), seeds - 1
        error = math.sqrt(float(weights @ np.square(means - mean)) / weights.sum() / freedom)
        own = inside / (total - seeds) if total > seeds else 0.0
        common = ratio * own if math.isfinite(ratio) else float(np.var(means, ddof=1))
    half = float(stats.t.ppf(1 - LEVEL / 2, freedom)) * error
    p = float(stats.t.sf(mean / error, freedom)) if error else float(mean <= 0)
    std = error * math.sqrt(seeds)
    ends = (mean - half, mean + half)
    return Nested(mean, std, *ends, p, seeds, total, math.sqrt(common), math.sqrt(own), freedom)


def nested_difference(first: Scores, second: Scores) -> Nested:
    """The first side minus the second, on every pair of a seed and a client that both have; there must be one."""
    seeds = sorted(seed for seed in first.keys() & second.keys() if first[seed].keys() & second[seed].keys())
    return nested(
        [
            np.array([first[seed][c] - second[seed][c] for c in sorted(first[seed].keys() & second[seed].keys())])
            for seed in seeds
        ]
    )


def _ratio(means: np.ndarray, counts: np.ndarray, inside: float) -> float:
    """The variance of what a seed's clients have in common, in units of their own, that is most likely; zero or more.

    One number is sought, on a logarithmic grid that is then refined: the restricted likelihood is cheap.
    """
    if inside <= 0:
        return math.inf if np.ptp(means) > 0 else 0.0
    grid = np.append(0.0, np.geomspace(1e-6, 1e6, 241))
    for _ in range(4):
        best = int(np.argmax(_likelihood(grid, means, counts, inside)))
        if grid[best] == 0:
            return 0.0
        grid = np.linspace(grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)], 101)
    return float(grid[50])


def _own_variance(ratios: np.ndarray, means: np.ndarray, counts: np.ndarray, inside: float) -> np.ndarray:
    """The variance of clients within seeds, if that of seeds is so many times as large; for every such ratio."""
    weights = 1 / (ratios[:, None] + 1 / counts)
    mean = (weights * means).sum(1, keepdims=True) / weights.sum(1, keepdims=True)
    return (inside + (weights * np.square(means - mean)).sum(1)) / (counts.sum() - 1)


def _likelihood(ratios: np.ndarray, means: np.ndarray, counts: np.ndarray, inside: float) -> np.ndarray:
    """The logarithm of the restricted likelihood, up to a constant, with the best variance of clients."""
    weights, freedom = 1 / (ratios[:, None] + 1 / counts), counts.sum() - 1
    spread = np.log(_own_variance(ratios, means, counts, inside))
    return -0.5 * (freedom * spread - np.log(weights).sum(1) + np.log(weights.sum(1)))
