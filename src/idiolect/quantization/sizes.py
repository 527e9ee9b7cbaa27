"""What a client's model comes to on its device: packed layers, whole layers, and how many bytes they take."""

from typing import NamedTuple

import numpy as np

from idiolect.contracts import Compressed
from idiolect.errors import UserMistake
from idiolect.export.packing import bits_for, pack
from idiolect.quantization.layers import named_leaves


class Packed(NamedTuple):
    """A quantized layer: the bit planes of its weights' indices, and the levels these point to."""

    shape: tuple[int, ...]
    planes: np.ndarray  # uint8, (bits, ceil(weights / 8))
    levels: np.ndarray  # float32, in increasing order


class Size(NamedTuple):
    """Bytes of a model on its device, without the text that describes it.

    A layer of n weights with m levels takes b planes of n/8 bytes each, rounded up, where b is the logarithm of m to
    base 2, rounded up, and at least one; and four bytes for each level. Every other number takes four. `bits` is the
    mean b over all weights that have levels, and 32 if none has.
    """

    bits: float
    planes: int
    codebooks: int
    full_precision: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.planes + self.codebooks + self.full_precision


def bundle_size(compressed: Compressed) -> Size:
    """What the model's payload takes in a bundle, part by part; nothing is packed to find out."""
    leaves = _named(compressed)
    counts = {name: values.size for name, values in compressed.levels.items()}
    planes = sum(bits_for(m) * -(-leaves[name].size // 8) for name, m in counts.items())
    whole = sum(leaf.size for name, leaf in leaves.items() if name not in counts)
    packed = sum(leaves[name].size for name in counts)
    bits = sum(bits_for(m) * leaves[name].size for name, m in counts.items()) / packed if packed else 32.0
    return Size(bits, planes, 4 * sum(counts.values()), 4 * whole)


def stored_layers(compressed: Compressed) -> dict[str, Packed | np.ndarray]:
    """Every layer by name, as it is stored: packed where it is quantized, in float32 elsewhere."""
    leaves = _named(compressed)
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


def _named(compressed: Compressed) -> dict[str, np.ndarray]:
    leaves = named_leaves(compressed.params)
    for name in compressed.levels:
        if name not in leaves:
            raise UserMistake(f"there are levels for layer {name}, but the model has only {', '.join(leaves)}")
    return leaves
