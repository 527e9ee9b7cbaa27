"""Means and spreads over seeds."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class MeanStd(NamedTuple):
    """A mean over seeds, and the sample standard deviation; 0 with one seed, where there is none to speak of."""

    mean: float
    std: float


def mean_std(values: Sequence[float]) -> MeanStd:
    """Of one number for each seed."""
    return MeanStd(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0)
