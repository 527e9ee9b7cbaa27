"""How many bytes a client's model takes on its device."""

from typing import NamedTuple

import numpy as np

from idiolect.contracts import Compressed
from idiolect.errors import UserMistake
from idiolect.quantization.layers import named_leaves


class Size(NamedTuple):
    """Bytes of a model on its device, without the text that describes it.

    A layer of n weights with m levels takes b planes of n/8 bytes each, rounded up, where b is the logarithm of m to
    base 2, rounded up, and at least one; and four bytes for each level of each of its codebooks. Every other number
    takes four. `bits` is the mean b over all weights that have levels, and 32 if none has.
    """

    bits: float
    planes: int
    codebooks: int
    full_precision: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.planes + self.codebooks + self.full_precision


def bits_for(levels: int) -> int:
    """How many bits tell so many levels apart; at least one."""
    return max(1, (levels - 1).bit_length())


def bundle_size(compressed: Compressed) -> Size:
    """What the model's payload takes in a bundle, part by part; nothing is packed to find out."""
    leaves = leaves_of(compressed)
    counts = {name: values.shape[-1] for name, values in compressed.levels.items()}
    numbers = sum(values.size for values in compressed.levels.values())
    planes = sum(bits_for(m) * -(-leaves[name].size // 8) for name, m in counts.items())
    whole = sum(leaf.size for name, leaf in leaves.items() if name not in counts)
    packed = sum(leaves[name].size for name in counts)
    bits = sum(bits_for(m) * leaves[name].size for name, m in counts.items()) / packed if packed else 32.0
    return Size(bits, planes, 4 * numbers, 4 * whole)


def leaves_of(compressed: Compressed) -> dict[str, np.ndarray]:
    """The model's layers by name; levels of layers that it does not have are refused."""
    leaves = named_leaves(compressed.params)
    for name in compressed.levels:
        if name not in leaves:
            raise UserMistake(f"there are levels for layer {name}, but the model has only {', '.join(leaves)}")
    return leaves
