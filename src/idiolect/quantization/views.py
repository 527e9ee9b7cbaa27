"""A compressed model, looked at: how large it is, and how its weights lie around their levels."""

import math
from typing import NamedTuple

import numpy as np

from idiolect.contracts import Compressed
from idiolect.quantization.layers import named_leaves

_BINS = 48


class Size(NamedTuple):
    """What a model takes on a device: bits a weight, where weights have levels, and bytes in all."""

    bits: float
    bytes: int


class LayerView(NamedTuple):
    """A layer's levels, and how many weights lie in each of equal bins between `low` and `high`."""

    levels: list[float]
    low: float
    high: float
    counts: list[int]


def bits_for(levels: int) -> int:
    """The bits that tell so many levels apart."""
    return max(1, math.ceil(math.log2(levels)))


def size_of(model: Compressed) -> Size:
    """The bits of a weight, averaged over the layers that have levels (32 if none has), and the model's bytes.

    A layer of n weights with m levels takes ceil(log2 m) planes of ceil(n / 8) bytes and m numbers of 4 bytes.
    """
    packed = weights = total = 0
    for name, leaf in named_leaves(model.params).items():
        levels = model.levels[name].size if name in model.levels else 0
        if levels:
            packed += bits_for(levels) * leaf.size
            weights += leaf.size
            total += bits_for(levels) * math.ceil(leaf.size / 8) + 4 * levels
        else:
            total += 4 * leaf.size
    return Size(packed / weights if weights else 32.0, total)


def view_layers(model: Compressed) -> dict[str, LayerView]:
    """Every layer with levels, as pictures show it."""
    leaves = named_leaves(model.weights)
    views = {}
    for name, levels in model.levels.items():
        counts, edges = np.histogram(np.asarray(leaves[name]), _BINS)
        views[name] = LayerView(np.asarray(levels).tolist(), float(edges[0]), float(edges[-1]), counts.tolist())
    return views
