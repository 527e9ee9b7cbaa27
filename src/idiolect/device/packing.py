"""Packed layers: an index of a few bits for every weight, in an order in which a product is computed.

A layer is a matrix, inputs x outputs. Its indices lie in a stream of bits, the lowest first, and eight of them take as
many bytes as one has bits, so three bits or five waste nothing. The stream goes by groups of inputs: the group's
indices for the first output, those for the second, and so on. A group has as many inputs as fit a byte (two of three
bits; one of more than four), so a reader can look a whole group up in a table of 256 sums. What is left of the inputs
after whole groups lies in the same way at the end.

No more than a block of a layer is ever unpacked at once.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .programs import Layer

_BLOCK = 1 << 16  # weights unpacked at once, if eight groups are not more
_TABLE = 256
_FEW = 8  # samples, up to which sums are looked up instead of multiplied out


class PackedLayer(NamedTuple):
    """A layer as it is stored: its levels and codes, or its weights."""

    layer: Layer
    numbers: np.ndarray  # float32
    codes: np.ndarray  # uint8

    def weights(self) -> np.ndarray:
        """All weights as floats, in the layer's own shape."""
        return self._together(self.blocks(), np.float32)

    def indices(self) -> np.ndarray:
        """Which of its levels every weight is, in the layer's own shape."""
        return self._together(self._index_blocks(), np.uint8)

    def codebooks(self) -> np.ndarray:
        """The levels: a list, or (outputs, levels) where every output has its own."""
        return self.numbers.reshape(-1, self.layer.levels) if self.layer.by_output else self.numbers

    def blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """The matrix as floats, some rows after the other, each block with the number of its first row."""
        columns = self.layer.matrix[1]
        if not self.layer.levels:
            yield 0, self.numbers.reshape(-1, columns)
        elif self.layer.by_output:
            first = np.arange(columns) * self.layer.levels  # where the levels of each output begin
            for start, indices in self._index_blocks():
                yield start, self.numbers.take(indices + first)
        else:
            yield from self._looked_up_blocks(self._meanings(), self.numbers)

    def _index_blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """The same of indices."""
        each = np.arange(2**self.layer.bits, dtype=np.uint8)
        return self._looked_up_blocks(digits_of(self.layer.bits).astype(np.uint8), each)

    def _looked_up_blocks(self, meanings: np.ndarray, each: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Blocks of what a code means, and of what an index does where inputs fill no group."""
        rows, columns = self.layer.matrix
        for start, codes in whole_groups(self.codes, self.layer):
            values = meanings.take(codes, axis=0)  # (groups, columns, inputs of a group)
            yield start, values.transpose(0, 2, 1).reshape(-1, columns)
        if left := rows % group(self.layer.bits):
            yield rows - left, each.take(last_group(self.codes, self.layer))

    def _together(self, blocks: Iterator[tuple[int, np.ndarray]], kind: type) -> np.ndarray:
        """All blocks, in the layer's own shape."""
        matrix: np.ndarray = np.empty(self.layer.matrix, kind)
        for start, block in blocks:
            matrix[start : start + len(block)] = block
        if len(self.layer.shape) == 4:
            matrix = np.ascontiguousarray(matrix.T)
        return matrix.reshape(self.layer.shape)

    def product(self, x: np.ndarray) -> np.ndarray:
        """`x` (samples, inputs) times the matrix, block by block."""
        columns = self.layer.matrix[1]
        total = np.zeros((len(x), columns), np.float32)
        if self.layer.levels and not self.layer.by_output and len(x) <= _FEW and columns >= _TABLE:
            return self._looked_up(x, total)
        for start, block in self.blocks():
            total += x[:, start : start + len(block)] @ block
        return total

    def _looked_up(self, x: np.ndarray, total: np.ndarray) -> np.ndarray:
        """The sums that every code can mean, for each group of inputs; then one look a code."""
        together, meanings = group(self.layer.bits), self._meanings()
        for start, codes in whole_groups(self.codes, self.layer):
            stop = start + len(codes) * together
            inputs = x[:, start:stop].reshape(len(x), len(codes), together)
            places = codes + len(meanings) * np.arange(len(codes))[:, None]
            for sample, sums in enumerate(inputs @ meanings.T):
                total[sample] += sums.ravel().take(places).sum(0)
        if left := self.layer.matrix[0] % together:
            total += x[:, -left:] @ self.numbers.take(last_group(self.codes, self.layer))
        return total

    def _meanings(self) -> np.ndarray:
        """The weights that each code means: (codes, inputs of a group). Codes beyond the levels mean the last one."""
        return self.numbers[np.minimum(digits_of(self.layer.bits), self.layer.levels - 1)]


def group(bits: int) -> int:
    """How many inputs lie together."""
    return {1: 8, 2: 4, 3: 2, 4: 2}.get(bits, 1)


def digits_of(bits: int) -> np.ndarray:
    """The indices that each code holds: (codes, inputs of a group)."""
    shifts = np.arange(0, bits * group(bits), bits)
    return (np.arange(2 ** (bits * group(bits)))[:, None] >> shifts) & (2**bits - 1)


def pack(indices: np.ndarray, bits: int) -> np.ndarray:
    """The codes of a matrix of indices; bits that the last bytes do not need are zero."""
    if indices.size and (indices.min() < 0 or indices.max() >> bits):
        raise ValueError(f"indices go from {indices.min()} to {indices.max()}, but {bits} bits hold 0 to {2**bits - 1}")
    together, (rows, columns) = group(bits), indices.shape
    whole = rows - rows % together
    head = indices[:whole].reshape(-1, together, columns).transpose(0, 2, 1).reshape(-1)
    stream = np.concatenate([head, indices[whole:].T.reshape(-1)]).astype(np.uint8)
    each = np.unpackbits(stream[:, None], axis=1, count=bits, bitorder="little").reshape(-1)
    return np.packbits(np.pad(each, (0, -len(stream) % 8 * bits)), bitorder="little")


def whole_groups(codes: np.ndarray, layer: Layer) -> Iterator[tuple[int, np.ndarray]]:
    """The codes of whole groups, (groups, outputs), some at a time, each time with the number of the first input."""
    (rows, columns), together = layer.matrix, group(layer.bits)
    wide, groups = layer.bits * together, rows // together
    at_once = max(8, _BLOCK // columns // together // 8 * 8)  # eight codes take whole bytes
    for start in range(0, groups, at_once):
        count = min(at_once, groups - start) * columns
        first = start * columns // 8 * wide
        found = _codes(codes[first : first + -(-count // 8) * wide], wide, count)
        yield start * together, found.reshape(-1, columns)


def last_group(codes: np.ndarray, layer: Layer) -> np.ndarray:
    """The indices of the inputs that fill no group, (inputs, outputs)."""
    (rows, columns), bits = layer.matrix, layer.bits
    left = rows % group(bits)
    first = (rows - left) * columns * bits
    found = np.unpackbits(codes[first // 8 :], bitorder="little")[first % 8 :][: left * columns * bits]
    return (found.reshape(columns, left, bits) @ (1 << np.arange(bits))).T


def _codes(stored: np.ndarray, wide: int, count: int) -> np.ndarray:
    """Codes of so many bits, of which eight take whole bytes."""
    if wide == 8:
        return stored[:count]
    stored = np.pad(stored, (0, -len(stored) % wide)).reshape(-1, wide)
    found = np.empty((len(stored), 8), np.uint8)
    for place in range(8):
        byte, offset = divmod(place * wide, 8)
        found[:, place] = stored[:, byte] >> offset
        if offset + wide > 8:
            found[:, place] |= stored[:, byte + 1] << (8 - offset)
    return (found & (2**wide - 1)).reshape(-1)[:count]


def has_unused_bits(codes: np.ndarray, layer: Layer) -> bool:
    """Is anything but zeros behind the last index?"""
    last = int.from_bytes(codes[-layer.bits :].tobytes(), "little")
    return bool(last >> (((layer.size - 1) % 8 + 1) * layer.bits))


def largest_index(codes: np.ndarray, layer: Layer) -> int:
    """The largest index of a layer."""
    largest, bits = 0, layer.bits
    for _, found in whole_groups(codes, layer):
        largest = max(largest, *(int((found >> k & (2**bits - 1)).max()) for k in range(0, bits * group(bits), bits)))
    left = last_group(codes, layer)
    return max(largest, int(left.max())) if left.size else largest
