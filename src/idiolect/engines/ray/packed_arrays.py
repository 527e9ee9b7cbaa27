"""Packing of many small arrays into one, for a journey: what Ray must look at costs it more than what it copies.

A turn has a dozen arrays, most of them tiny. Pickled one by one, they cost more than a small client's whole turn does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import jax
import numpy as np

from idiolect.contracts import PyTree

Leaves: TypeAlias = list[np.ndarray]
Kind: TypeAlias = tuple[tuple[np.dtype, tuple[int, ...]], ...]  # types and shapes of some leaves, in order

ALIGNED = 64  # bytes, at multiples of which every array begins, as XLA likes it


@dataclass(frozen=True, eq=False)
class Packed:
    """The leaves of some trees, one behind the other in one array of bytes, and what they are."""

    kinds: tuple[Kind, ...]
    bytes: np.ndarray


def leaves_of(tree: PyTree) -> Leaves:
    """What of a tree travels."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def packed(trees: Sequence[Leaves]) -> Packed:
    """The leaves of these trees as one array.

    Example:
        >>> import numpy as np
        >>> from idiolect.engines.ray.packed_arrays import packed, unpacked
        >>> sent = packed([[np.arange(3), np.float32(0.5)], []])
        >>> unpacked(sent)
        [[array([0, 1, 2]), array(0.5, dtype=float32)], []]
    """
    flat = [np.ascontiguousarray(leaf).reshape(-1).view(np.uint8) for leaves in trees for leaf in leaves]
    ends = np.cumsum([0, *(_aligned(leaf.size) for leaf in flat)]).tolist()
    store = np.empty(ends[-1], np.uint8)
    for begin, leaf in zip(ends, flat, strict=False):
        store[begin : begin + leaf.size] = leaf
    known: dict[Kind, Kind] = {}  # pickle writes the same thing once, if it is the very same
    kinds = [tuple((leaf.dtype, leaf.shape) for leaf in leaves) for leaves in trees]
    return Packed(tuple(known.setdefault(kind, kind) for kind in kinds), store)


def unpacked(sent: Packed) -> list[Leaves]:
    """The leaves of every tree, which share the memory of the one array."""
    begin, trees = 0, []
    for kind in sent.kinds:
        leaves = []
        for dtype, shape in kind:
            leaf = np.ndarray(shape, dtype, sent.bytes, begin)
            begin += _aligned(leaf.nbytes)
            leaves.append(leaf)
        trees.append(leaves)
    return trees


def _aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED
