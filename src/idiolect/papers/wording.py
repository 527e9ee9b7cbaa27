"""Numbers as claims tell them."""

import math
from collections.abc import Sequence

import numpy as np


def number(value: float) -> str:
    """With the digits that matter."""
    if value and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.2e}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.4f}" if 0 < abs(value) < 1e-2 else f"{value:.3f}"


def interval(low: float, high: float) -> str:
    """The ends of a 95 % confidence interval; empty where there is none."""
    return f" [{number(low)}, {number(high)}]" if math.isfinite(low) and math.isfinite(high) else ""


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation over seeds."""
    mean = float(np.mean(values))
    if not math.isfinite(mean):
        return f"{mean}"
    if len(values) < 2:
        return number(mean)
    return f"{number(mean)} ± {number(float(np.std(values, ddof=1)))}"
