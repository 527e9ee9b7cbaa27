"""What an exported graph does again and again, written into its file once: functions in the sense of ONNX.

A network of one bit is so small that operations spelled out for each of its layers would take a third of the file.
Runtimes put functions in place when they load a file, and compute what is constant then.
"""

from typing import Any, NamedTuple

import numpy as np

DOMAIN = "idiolect"
UNPACK, CONVOLVE = "unpack", "convolve"
OF_THE_CALL = object()  # where the call has no such attribute, the operation's default holds
_INT32 = 6  # TensorProto.INT32; a graph can be made without onnx, only its file cannot
_EPSILON = 1e-5  # of batch normalization


class Node(NamedTuple):
    """One operation: its name in ONNX, the names of its inputs and outputs, and its attributes."""

    operation: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


class Function(NamedTuple):
    """A named list of nodes. Where a node's attribute is `OF_THE_CALL`, it is the call's attribute of the same name."""

    name: str
    inputs: tuple[str, ...]
    output: str
    nodes: tuple[Node, ...]


def _unpack() -> Function:
    """A layer of the given shape from its bit planes: `weigh` holds 1, 2, 4, ... in a column, one for each plane.

    ONNX has no type for one, two or three bits, and masks integers only from opset 18 on; division and remainder take a
    byte apart everywhere.
    """
    nodes = (
        _constant("bytes", np.array([1, 2, 4, 8, 16, 32, 64, 128], np.int32)),
        _constant("two", np.array(2, np.int32)),
        _constant("zero", np.array([0], np.int64)),
        _constant("inner", np.array([2], np.int64)),
        _constant("flat", np.array([0, -1], np.int64)),
        _node("Unsqueeze", "planes", "inner", to="columns"),
        Node("Cast", ("columns",), ("whole",), {"to": _INT32}),
        _node("Div", "whole", "bytes", to="shifted"),
        _node("Mod", "shifted", "two", to="every"),
        _node("Reshape", "every", "flat", to="rows"),
        _node("Mul", "rows", "weigh", to="weighed"),
        Node("ReduceSum", ("weighed", "zero"), ("padded",), {"keepdims": 0}),
        _node("ReduceProd", "shape", to="count"),
        _node("Slice", "padded", "zero", "count", to="indices"),
        _node("Gather", "levels", "indices", to="values"),
        _node("Reshape", "values", "shape", to="layer"),
    )
    return Function(UNPACK, ("planes", "levels", "weigh", "shape"), "layer", nodes)


def _convolve() -> Function:
    """A convolution by kernels of 3 x 3 that keeps the image's size, or halves it with `strides`; and normalization.

    `norm` is scale, offset, mean and variance end to end.
    """
    parts = ("scale", "offset", "mean", "variance")
    nodes = (
        Node("Split", ("norm",), parts, {"axis": 0}),
        Node("Conv", ("x", "kernels"), ("raw",), {"pads": [1, 1, 1, 1], "strides": OF_THE_CALL}),
        Node("BatchNormalization", ("raw", *parts), ("y",), {"epsilon": _EPSILON}),
    )
    return Function(CONVOLVE, ("x", "kernels", "norm"), "y", nodes)


def _node(operation: str, *inputs: str, to: str) -> Node:
    return Node(operation, inputs, (to,), {})


def _constant(name: str, values: np.ndarray) -> Node:
    return Node("Constant", (), (name,), {"value": values})


FUNCTIONS = {function.name: function for function in (_unpack(), _convolve())}
