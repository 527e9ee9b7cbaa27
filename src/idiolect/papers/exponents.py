"""Powers fitted to measurements that are repeated over seeds.

The mean over seeds is taken for C x1^p1 x2^p2 ..., a line in logarithms, fitted by least squares. Leaving out one seed
at a time (the jackknife) says how far to trust the powers: 95 % intervals with Student's t.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Power(NamedTuple):
    """An exponent, and the ends of its 95 % confidence interval."""

    estimate: float
    low: float
    high: float

    def reaches(self, value: float) -> bool:
        """Whether the interval contains it."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.estimate:.2f} [{self.low:.2f}, {self.high:.2f}]"


def powers(measured: Sequence[np.ndarray], variables: Sequence[tuple[float, ...]], count: int) -> list[Power]:
    """The exponents of `count` variables: of each setting, what every seed measured, and the values of the variables.

    Without two seeds there is no interval; without positive means, or with too few settings, there is no exponent.
    """
    unknown = Power(math.nan, -math.inf, math.inf)
    if len(measured) <= count:
        return [unknown] * count
    values, seeds = np.stack(measured, 1), len(measured[0])
    design = np.column_stack([np.ones(len(variables)), np.log(np.array(variables))])
    if np.linalg.matrix_rank(design) <= count:
        return [unknown] * count
    whole = _slopes(values.mean(0), design)
    without = [_slopes(np.delete(values, seed, 0).mean(0), design) for seed in range(seeds)] if seeds > 1 else []
    if not without or not np.isfinite(without).all():
        return [Power(slope, -math.inf, math.inf) for slope in whole.tolist()]
    from scipy import stats  # which takes a third of a second

    half = float(stats.t.ppf(0.975, seeds - 1)) * np.std(without, axis=0) * math.sqrt(seeds - 1)
    return [Power(*ends) for ends in zip(whole.tolist(), (whole - half).tolist(), (whole + half).tolist(), strict=True)]


def _slopes(means: np.ndarray, design: np.ndarray) -> np.ndarray:
    if not (means > 0).all():
        return np.full(design.shape[1] - 1, math.nan)
    return np.asarray(np.linalg.lstsq(design, np.log(means), rcond=None)[0][1:])
