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


def listed(seeds: Sequence[int], to: str = " to ", between: str = ", ") -> str:
    """Seeds in words; of three and more that follow each other, the first and the last.

    Example:
        >>> from idiolect.papers.wording import listed
        >>> listed([20, 21, 22, 23, 25, 27, 28])
        '20 to 23, 25, 27, 28'
        >>> listed([5, 7, 8, 9], to="-", between=",")
        '5,7-9'
    """
    runs: list[list[int]] = []
    for seed in seeds:
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    parts = [[f"{run[0]}{to}{run[-1]}"] if len(run) > 2 else [str(seed) for seed in run] for run in runs]
    return between.join(part for run in parts for part in run)


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation over seeds."""
    mean = float(np.mean(values))
    if not math.isfinite(mean):
        return f"{mean}"
    if len(values) < 2:
        return number(mean)
    return f"{number(mean)} ± {number(float(np.std(values, ddof=1)))}"
