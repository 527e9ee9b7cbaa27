"""A client's model as it is stored on its device: packed layers, and whole ones."""

from typing import NamedTuple

import numpy as np

from idiolect.contracts import Compressed
from idiolect.errors import UserMistake
from idiolect.export.packing import bits_for, pack
from idiolect.quantization.sizes import leaves_of


class Packed(NamedTuple):
    """A quantized layer: the bit planes of its weights' indices, and the levels these point to."""

    shape: tuple[int, ...]
    planes: np.ndarray  # uint8, (bits, ceil(weights / 8))
    levels: np.ndarray  # float32, in increasing order


def stored_layers(compressed: Compressed) -> dict[str, Packed | np.ndarray]:
    """Every layer by name, as it is stored: packed where it is quantized, in float32 elsewhere."""
    leaves = leaves_of(compressed)
    levels = {name: np.asarray(values, np.float32) for name, values in compressed.levels.items()}
    whole = {name: np.asarray(leaf, np.float32) for name, leaf in leaves.items()}
    for name, values in [*levels.items(), *whole.items()]:
        if not np.isfinite(values).all():
            what = "a level" if values is levels.get(name) else "a weight"
            raise UserMistake(f"layer {name} has {what} that is not finite, so this model cannot be exported")
        if not values.size:
            raise UserMistake(f"layer {name} has no weights or no levels, so this model cannot be exported")
    return {name: _packed(name, leaf, levels[name]) if name in levels else leaf for name, leaf in whole.items()}


def _packed(name: str, weights: np.ndarray, levels: np.ndarray) -> Packed:
    if levels.ndim != 1:
        raise UserMistake(f"layer {name} has levels of shape {levels.shape}, but they must be a list of numbers")
    levels = np.sort(levels)
    indices = np.minimum(np.searchsorted(levels, weights), len(levels) - 1)
    if not np.array_equal(levels[indices], weights):
        raise UserMistake(f"layer {name} has a weight that is none of its {len(levels)} levels; export rounded weights")
    return Packed(weights.shape, pack(indices, bits_for(len(levels))), levels)
