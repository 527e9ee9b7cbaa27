"""Paired contrasts of two sides scored on the same seeds and clients: how far apart, and how sure is that.

Three answers, from the most careful to the least:

- over seeds: one number a seed, the mean over clients, and Student's paired test (`idiolect.comparison.pairing`), both
  ways;
- an interval over seeds and clients, by a bootstrap in two stages: seeds are drawn with replacement, then the clients
  of each drawn seed, so that what the clients of a seed have in common is not taken for evidence. With few seeds it is
  too narrow, since so few can be drawn in so few ways; with one seed it speaks of the clients of that seed only;
- over clients: Wilcoxon's signed-rank test on all pairs of a seed and a client. It takes them for independent, which
  clients of one seed are not: they share a model. Its p is smaller than it should be.

All differences are second - first. Many comparisons in one table are corrected after Holm (1979).
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from idiolect.comparison.pairing import LEVEL, Paired, paired
from idiolect.evaluation.scores import spread

Scores = Mapping[int, Mapping[int, float]]  # seed -> client -> score

_FEW = 50  # differences for which Wilcoxon's test is exact
_DRAWS = 2000  # of the bootstrap
_WORK = 20_000_000  # clients drawn in all, about; where there are many, there are fewer draws
_BLOCK = 4_000_000  # clients drawn at once


class OverClients(NamedTuple):
    """Differences over pairs of a seed and a client."""

    mean: float  # over seeds, of the mean over clients
    low: float  # the ends of the 95 % interval of the bootstrap in two stages
    high: float
    better: float  # the share of the pairs for which the second side is better
    worse: float
    p: float  # Wilcoxon's, two-sided
    pairs: int


class Contrast(NamedTuple):
    """The second side minus the first, on what both have."""

    seeds: list[int]
    first: float  # the mean over seeds and clients
    second: float
    over_seeds: Paired
    p: float  # two-sided, over seeds
    over_clients: OverClients
    worst_decile: Paired  # of the means over the worst tenth of clients, each side's own; over seeds


def contrast(first: Scores, second: Scores, *, higher_is_better: bool) -> Contrast:
    """Compare two sides on every pair of a seed and a client that both have; there must be one."""
    seeds = sorted(seed for seed in set(first) & set(second) if set(first[seed]) & set(second[seed]))
    common = {seed: sorted(set(first[seed]) & set(second[seed])) for seed in seeds}
    sides = [[np.array([side[seed][c] for c in common[seed]], float) for seed in seeds] for side in (first, second)]
    means = [[float(scores.mean()) for scores in side] for side in sides]
    deciles = [[spread(scores.tolist(), higher_is_better).worst_decile for scores in side] for side in sides]
    over_seeds = paired(means[1], means[0])
    return Contrast(
        seeds,
        float(np.mean(means[0])),
        float(np.mean(means[1])),
        over_seeds,
        two_sided(over_seeds.mean, over_seeds.p),
        over_clients([b - a for a, b in zip(*sides, strict=True)], higher_is_better=higher_is_better),
        paired(deciles[1], deciles[0]),
    )


def two_sided(mean: float, p: float) -> float:
    """How often differences with mean zero would be as far from it, on either side; NaN with one pair."""
    return 1.0 if mean == 0 and not math.isnan(p) else 2 * min(p, 1 - p)


def over_clients(differences: Sequence[np.ndarray], *, higher_is_better: bool) -> OverClients:
    """What the differences of clients say, one array for each seed."""
    every = np.concatenate(differences)
    means = _bootstrap_means(differences)
    gains = every if higher_is_better else -every
    return OverClients(
        float(np.mean([mine.mean() for mine in differences])),
        float(np.quantile(means, LEVEL / 2)),
        float(np.quantile(means, 1 - LEVEL / 2)),
        float((gains > 0).mean()),
        float((gains < 0).mean()),
        _wilcoxon(every),
        len(every),
    )


def _wilcoxon(differences: np.ndarray) -> float:
    """The two-sided p of the signed-rank test: exact for a few differences without ties, else by the normal law."""
    from scipy import stats  # which takes a third of a second, and not every command needs it

    if not differences.any():
        return 1.0
    sizes = np.abs(differences)
    exact = len(sizes) <= _FEW and sizes.all() and len(np.unique(sizes)) == len(sizes)
    return float(stats.wilcoxon(differences, method="exact" if exact else "approx").pvalue)


def _bootstrap_means(differences: Sequence[np.ndarray]) -> np.ndarray:
    rng, seeds = np.random.default_rng(0), len(differences)
    draws = int(np.clip(_WORK // sum(map(len, differences)), 200, _DRAWS))
    drawn = rng.integers(seeds, size=(draws, seeds))
    means = np.empty((draws, seeds))
    for seed, mine in enumerate(differences):
        means[drawn == seed] = _drawn_means(mine, int((drawn == seed).sum()), rng)
    return means.mean(1)


def _drawn_means(values: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """So many means of as many values as there are, drawn with replacement."""
    block = max(1, _BLOCK // len(values))
    sizes = [min(block, count - done) for done in range(0, count, block)]
    return np.concatenate([np.empty(0), *(rng.choice(values, (size, len(values))).mean(1) for size in sizes)])


def holm(ps: Sequence[float]) -> list[float]:
    """The p of several tests, so corrected that any falls below 5 % by chance in 5 of 100 tables at most (Holm, 1979).

    The smallest is multiplied by the number of tests, the next by one less, and so on; none may be below a smaller
    one's. A p that is NaN is no test.
    """
    corrected, largest = [math.nan] * len(ps), 0.0
    tests = sorted((place for place, p in enumerate(ps) if not math.isnan(p)), key=lambda place: ps[place])
    for rank, place in enumerate(tests):
        largest = max(largest, min(1.0, (len(tests) - rank) * ps[place]))
        corrected[place] = largest
    return corrected
