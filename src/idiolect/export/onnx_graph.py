"""An ONNX graph in the making: nodes and constants, and quantized layers that stay packed while the graph runs.

Every value has a name of one or two letters, and none says which layer it is: of a network of few bits, the graph
itself is no small part. Indices take one, two, four or eight bits, so those of three take four: ONNX has no type for
less than four bits, and taking whole bytes apart is what a runtime does fast.

Runtimes compute what is constant when they load a file, and would hold every layer as floats from then on. So levels
get a zero added that depends on the input's shape. Small layers are unpacked when they are needed, and then forgotten.
Large dense ones are never unpacked: a loop over groups of inputs makes a table of what every byte adds to an output.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, count, product
from string import ascii_letters
from typing import Any, Literal, TypeAlias

import numpy as np

from idiolect.device.packing import PackedLayer
from idiolect.export.four_bit_grids import four_bits
from idiolect.export.onnx_functions import DIGITS, FOUR_BITS, INT32, MEANINGS, UNPACK, Body, Node, node

Form: TypeAlias = Literal["packed", "float", "int4"]

INPUT, OUTPUT = "images", "logits"
_LARGE = 1 << 16  # weights, from which on a dense layer is not unpacked
_WIDE = 256  # outputs, from which on a table of 256 sums is worth it
_GROUPS = 32  # of inputs, for which tables are held at once
_FLOAT = 1  # TensorProto.FLOAT


class Graph:
    """Collects a model's nodes in order, in one of the forms that a graph can have."""

    def __init__(self, layers: Mapping[str, PackedLayer], form: Form = "packed") -> None:
        self.layers, self.form = layers, form
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray] = {}
        self._shared: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._once: dict[str, str] = {}
        self._names = short_names()

    def add(self, operation: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Append a node, or the call of a function, and return the name of what it computes."""
        name = output or next(self._names)
        self.nodes.append(Node(operation, inputs, (name,), attributes))
        return name

    def constant(self, values: np.ndarray) -> str:
        """The name of a constant; equal ones are stored once."""
        key = (values.dtype.name, values.shape, values.tobytes())
        if key not in self._shared:
            self._shared[key] = next(self._names)
            self.constants[self._shared[key]] = values
        return self._shared[key]

    def integers(self, *values: int) -> str:
        """A constant list of int64, as ONNX wants shapes, axes and places."""
        return self.constant(np.array(values, np.int64))

    def layer(self, name: str) -> str:
        """The float tensor of a layer; kernels as ONNX has them: filters, channels, height, width."""
        layer = self.layers[name]
        if self.form == "float" or not layer.layer.levels:
            return self.constant(_channels_first(layer.weights()))
        indices = _channels_first(layer.indices())
        if layer.layer.by_output:
            return self._by_output(layer, indices)
        bits = bits_in_a_byte(layer.layer.bits)
        codes = self.constant(_bytes(indices.reshape(1, -1), bits)[0])
        return self.add(UNPACK, codes, self._meanings(layer, bits), self.integers(*indices.shape))

    def product(self, x: str, name: str, bias: str | None) -> str:
        """`x` (samples, inputs) times a dense layer, plus its bias."""
        layer = self.layers[name]
        columns = layer.layer.matrix[1]
        large = layer.layer.size >= _LARGE and columns >= _WIDE and not layer.layer.by_output
        if self.form == "float" or not layer.layer.levels or (self.form == "packed" and not large):
            return self.add("Gemm", x, self.layer(name), *([] if bias is None else [self.layer(bias)]))
        y = self._looked_up(x, layer) if self.form == "packed" else self._in_four_bits(x, layer)
        return y if bias is None else self.add("Add", y, self.layer(bias))

    def together(self, *vectors: np.ndarray) -> str:
        """Vectors of one length above each other, for channels: a single constant takes less than many."""
        return self.constant(np.stack(vectors).astype(np.float32).reshape(len(vectors), -1, 1, 1))

    def _in_four_bits(self, x: str, layer: PackedLayer) -> str:
        found = four_bits(layer)
        y = self.add(FOUR_BITS, x, self.constant(found.packed), self.constant(found.scales), **found.attributes)
        inputs = self.add("ReduceSum", x, self.integers(1), keepdims=1)
        return self.add("Add", y, self.add("Mul", inputs, self.constant(found.shift)))

    def _by_output(self, layer: PackedLayer, indices: np.ndarray) -> str:
        """A layer whose outputs have levels of their own: the indices of each are unpacked, and looked up there."""
        bits, filters = bits_in_a_byte(layer.layer.bits), indices.ndim == 4
        rows = indices.reshape(len(indices), -1) if filters else indices.T  # (outputs, weights of an output)
        digits = self.add("Add", self._digits(bits), self._first("whole zero", lambda: self._zero(INT32, np.int32)))
        codes = self.constant(_bytes(rows.reshape(1, -1), bits)[0])
        places = self.add(UNPACK, codes, digits, self.integers(*rows.shape))
        found = self.add("GatherElements", self.constant(layer.codebooks()), places, axis=1)
        if filters:
            return self.add("Reshape", found, self.integers(*indices.shape))
        return self.add("Transpose", found, perm=[1, 0])

    def _looked_up(self, x: str, layer: PackedLayer) -> str:
        """A loop over blocks of inputs; see `device.packing` for what it does."""
        bits, (rows, columns) = bits_in_a_byte(layer.layer.bits), layer.layer.matrix
        group = 8 // bits
        blocks = -(-rows // group // _GROUPS)
        groups = -(-rows // group // blocks)  # both rounded up
        indices = layer.indices().T
        missing = blocks * groups * group - rows
        codes = _bytes(np.pad(indices, ((0, 0), (0, missing))), bits).reshape(columns, blocks, groups)
        stored = self.constant(np.ascontiguousarray(codes.transpose(1, 2, 0)))
        if missing:
            x = self.add("Pad", x, self.integers(0, 0, 0, missing))
        split = self.add("Reshape", x, self.integers(0, blocks, groups, group))
        inputs = self.add("Transpose", split, perm=[1, 2, 0, 3])
        sums = self.add("MatMul", inputs, self.add("Transpose", self._meanings(layer, bits), perm=[1, 0]))
        samples = self._first("samples", lambda: self.add("Shape", INPUT, end=1))
        zeros = self.add("ConstantOfShape", self.add("Concat", samples, self.integers(columns), axis=0))
        names = dict.fromkeys(("total", "sums", "codes", "places", "column", "every", "found", "more", "next"))
        short = {name: next(self._names) for name in names}
        shape = self.add("Concat", self.integers(groups), samples, self.integers(columns), axis=0)
        body = Body(
            {short["total"]: ("N", columns), short["sums"]: (groups, "N", _WIDE), short["codes"]: (groups, columns)},
            (short["next"], ("N", columns)),
            (
                Node("Cast", (short["codes"],), (short["places"],), {"to": INT32}),
                node("Unsqueeze", short["places"], self.integers(1), to=short["column"]),
                node("Expand", short["column"], shape, to=short["every"]),
                node("GatherElements", short["sums"], short["every"], to=short["found"], axis=2),
                node("ReduceSum", short["found"], self.integers(0), to=short["more"], keepdims=0),
                node("Add", short["total"], short["more"], to=short["next"]),
            ),
            frozenset({short["codes"]}),
        )
        return self.add("Scan", zeros, sums, stored, body=body, num_scan_inputs=2)

    def _meanings(self, layer: PackedLayer, bits: int) -> str:
        """The weights that every byte means: (256, indices in a byte). A runtime cannot know them without an image."""
        zero = self._first("zero", lambda: self._zero(_FLOAT, np.float32))
        return self.add(MEANINGS, self.add("Add", self.constant(layer.numbers), zero), self._digits(bits))

    def _zero(self, kind: int, numpy_kind: type) -> str:
        """Nothing, as a number that no runtime knows before it sees an image."""
        extents = self.add("Cast", self.add("Shape", INPUT, end=1), to=kind)
        return self.add("Mul", extents, self.constant(np.zeros(1, numpy_kind)))

    def _digits(self, bits: int) -> str:
        """The indices in every byte."""

        def digits() -> str:
            powers = self.constant(np.array([1 << k for k in range(0, 8, bits)], np.int32))
            return self.add(DIGITS, powers, self.constant(np.array(1 << bits, np.int32)))

        return self._first(f"digits of {bits}", digits)

    def _first(self, key: str, make: Callable[[], str]) -> str:
        """What is made once, and used again and again."""
        if key not in self._once:
            self._once[key] = make()
        return self._once[key]


def bits_in_a_byte(bits: int) -> int:
    """How many bits an index takes in a graph: 1, 2, 4 or 8."""
    return 1 << (bits - 1).bit_length()


def _channels_first(values: np.ndarray) -> np.ndarray:
    """Kernels as ONNX has them; everything else as it is."""
    return np.ascontiguousarray(values.transpose(0, 3, 1, 2)) if values.ndim == 4 else values


def _bytes(indices: np.ndarray, bits: int) -> np.ndarray:
    """Rows of indices, as many in a byte as it holds, the first one in its lowest bits."""
    group = 8 // bits
    padded = np.pad(indices, ((0, 0), (0, -indices.shape[1] % group))).reshape(len(indices), -1, group)
    return (padded << np.arange(0, 8, bits)).sum(2).astype(np.uint8)


def short_names() -> Iterator[str]:
    """One letter each, as long as there are letters, and then two."""
    return map("".join, chain.from_iterable(product(ascii_letters, repeat=n) for n in count(1)))
