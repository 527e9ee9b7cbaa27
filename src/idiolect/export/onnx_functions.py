"""What an exported graph does again and again, written into its file once: functions in the sense of ONNX.

A network of one bit is so small that operations spelled out for each of its layers would take a third of the file.
"""

from typing import Any, NamedTuple

import numpy as np

DOMAIN, RUNTIME = "idiolect", "com.microsoft"  # ours, and that of onnxruntime's own operators
FOUR_BITS = "MatMulNBits"
UNPACK, CONVOLVE, DIGITS, MEANINGS = "unpack", "convolve", "digits", "meanings"
OF_THE_CALL = object()  # where the call has no such attribute, the operation's default holds
INT32 = 6  # TensorProto.INT32; a graph can be made without onnx, only its file cannot


class Node(NamedTuple):
    """One operation: its name in ONNX, the names of its inputs and outputs, and its attributes."""

    operation: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


class Body(NamedTuple):
    """The inside of a loop: its inputs and outputs, each with its shape, and its nodes."""

    inputs: dict[str, tuple[str | int, ...]]
    output: tuple[str, tuple[str | int, ...]]
    nodes: tuple[Node, ...]
    bytes: frozenset[str]  # the inputs that are of this type; all others are floats


class Function(NamedTuple):
    """A named list of nodes. Where a node's attribute is `OF_THE_CALL`, it is the call's attribute of the same name."""

    name: str
    inputs: tuple[str, ...]
    output: str
    nodes: tuple[Node, ...]


def _digits() -> Function:
    """The indices in every byte, (256, indices in a byte): `powers` are 1, 4, 16, 64 for two bits, and `base` is 4."""
    nodes = (
        constant("none", np.array(0, np.int32)),
        constant("every", np.array(256, np.int32)),
        constant("one", np.array(1, np.int32)),
        constant("inner", np.array([1], np.int64)),
        node("Range", "none", "every", "one", to="row"),
        node("Unsqueeze", "row", "inner", to="column"),
        node("Div", "column", "powers", to="shifted"),
        node("Mod", "shifted", "base", to="digits"),
    )
    return Function(DIGITS, ("powers", "base"), "digits", nodes)


def _meanings() -> Function:
    """The levels that every byte means; there may be fewer than its bits can tell apart."""
    nodes = (
        constant("one", np.array(1, np.int32)),
        node("Size", "levels", to="size"),
        Node("Cast", ("size",), ("count",), {"to": INT32}),
        node("Sub", "count", "one", to="last"),
        node("Min", "digits", "last", to="places"),
        node("Gather", "levels", "places", to="meanings"),
    )
    return Function(MEANINGS, ("levels", "digits"), "meanings", nodes)


def _unpack() -> Function:
    """A layer of the given shape from its bytes; what the last byte has too much is left out."""
    nodes = (
        constant("flat", np.array([-1], np.int64)),
        constant("zero", np.array([0], np.int64)),
        Node("Cast", ("codes",), ("places",), {"to": INT32}),
        node("Gather", "meanings", "places", to="found"),
        node("Reshape", "found", "flat", to="padded"),
        node("ReduceProd", "shape", to="count"),
        node("Slice", "padded", "zero", "count", to="values"),
        node("Reshape", "values", "shape", to="layer"),
    )
    return Function(UNPACK, ("codes", "meanings", "shape"), "layer", nodes)


def _convolve() -> Function:
    """A convolution by kernels of 3 x 3 that keeps the image's size, or halves it with `strides`; and normalization.

    `norm` has the scales above the shifts: (2, filters, 1, 1).
    """
    nodes = (
        Node("Split", ("norm",), ("scale", "shift"), {"axis": 0}),
        Node("Conv", ("x", "kernels"), ("raw",), {"pads": [1, 1, 1, 1], "strides": OF_THE_CALL}),
        node("Mul", "raw", "scale", to="scaled"),
        node("Add", "scaled", "shift", to="y"),
    )
    return Function(CONVOLVE, ("x", "kernels", "norm"), "y", nodes)


def node(operation: str, *inputs: str, to: str, **attributes: Any) -> Node:
    """A node with one output."""
    return Node(operation, inputs, (to,), attributes)


def constant(name: str, values: np.ndarray) -> Node:
    """A constant as a node, as functions have them."""
    return Node("Constant", (), (name,), {"value": values})


FUNCTIONS = {function.name: function for function in (_digits(), _meanings(), _unpack(), _convolve())}
