"""Few-valued weights as bit planes: plane k holds bit k of every weight's index into its codebook.

Planes waste nothing for codebooks of three bits or five, where packing whole indices into bytes would. A device that
reads a bundle must unpack it without this package, so that half lives in `reader` and is only named here.
"""

import numpy as np

from idiolect.export.reader import bits_for, unpack

__all__ = ["bits_for", "pack", "unpack"]


def pack(indices: np.ndarray, bits: int) -> np.ndarray:
    """The planes of `indices`: (bits, ceil(count / 8)) bytes, the first weight in a byte's lowest bit.

    What the last byte of a plane does not need is zero.
    """
    flat = np.asarray(indices).reshape(-1).astype(np.int64)
    if flat.size and (flat.min() < 0 or flat.max() >> bits):
        raise ValueError(f"indices go from {flat.min()} to {flat.max()}, but {bits} bits hold 0 to {2**bits - 1}")
    planes = (flat[None] >> np.arange(bits)[:, None]) & 1
    return np.packbits(planes.astype(np.uint8), axis=1, bitorder="little")
