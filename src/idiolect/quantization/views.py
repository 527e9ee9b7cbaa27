"""Views of a compressed model: how its weights lie around their levels."""

from typing import NamedTuple

import numpy as np

from idiolect.contracts import Compressed
from idiolect.quantization.channels import by_output
from idiolect.quantization.layers import named_leaves

_BINS = 48


class LayerView(NamedTuple):
    """A layer's levels, and how many weights lie in each of equal bins between `low` and `high`."""

    levels: list[float]
    low: float
    high: float
    counts: list[int]


def view_layers(model: Compressed) -> dict[str, LayerView]:
    """Every layer with levels, as pictures show it; its first output, where each has a codebook of its own."""
    leaves = named_leaves(model.weights)
    views = {}
    for name, levels in model.levels.items():
        weights = np.asarray(leaves[name])
        if levels.ndim == 2:
            weights, levels = np.asarray(by_output(weights)[0]), levels[0]
        margin = np.ptp(weights) / (_BINS - 3) or 1.0  # wider than a bin: an empty one on either side shows peaks whole
        counts, edges = np.histogram(weights, _BINS, (weights.min() - margin, weights.max() + margin))
        views[name] = LayerView(np.asarray(levels).tolist(), float(edges[0]), float(edges[-1]), counts.tolist())
    return views
