"""An ONNX graph in the making: nodes and constants, and quantized layers that the graph itself unpacks from bit planes.

ONNX has no type for one, two or three bits, so planes are stored as bytes and taken apart by ordinary integer
arithmetic, which every runtime has; most do it once, when they load the file.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from idiolect.errors import UserMistake
from idiolect.export.contents import Packed

INPUT, OUTPUT = "images", "logits"
_OPSET, _IR_VERSION = 15, 8  # old enough for onnxruntime 1.17 and for what devices run
_INT32 = 6  # TensorProto.INT32; a graph can be made without onnx, only its file cannot
_BYTE = np.array([1, 2, 4, 8, 16, 32, 64, 128], np.int32)


class Node(NamedTuple):
    """One operation: its name in ONNX, the names of its inputs and of its only output, and its attributes."""

    operation: str
    inputs: tuple[str, ...]
    output: str
    attributes: dict[str, Any]


class Graph:
    """Collects a model's nodes in order. Layers are asked for by name, with the shape that the model needs."""

    def __init__(self, layers: Mapping[str, Packed | np.ndarray]) -> None:
        self.layers = layers
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray] = {}
        self._shared: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._used: set[str] = set()

    def add(self, operation: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Append a node and return the name of what it computes."""
        name = output or f"t{len(self.nodes)}"  # short names: for a model of few bits they are not for free
        self.nodes.append(Node(operation, inputs, name, attributes))
        return name

    def constant(self, values: np.ndarray) -> str:
        """The name of a small constant; equal ones are stored once."""
        key = (values.dtype.name, values.shape, values.tobytes())
        if key not in self._shared:
            self._shared[key] = f"c{len(self._shared)}"
            self.constants[self._shared[key]] = values
        return self._shared[key]

    def integers(self, *values: int) -> str:
        """A constant list of int64, as ONNX wants shapes, axes and places."""
        return self.constant(np.array(values, np.int64))

    def shape_of(self, name: str) -> tuple[int, ...]:
        """The shape of a layer, or a mistake if the model has no such layer."""
        if name not in self.layers:
            raise UserMistake(f"the parameters have no layer {name}, so they are not those of the given model")
        return tuple(self.layers[name].shape)

    def layer(self, name: str, *shape: int | None) -> str:
        """The float tensor of a layer, which must have this shape; None stands for any extent."""
        found = self.shape_of(name)
        if len(found) != len(shape) or any(m is not None and n != m for n, m in zip(found, shape, strict=True)):
            wanted = ", ".join("any" if extent is None else str(extent) for extent in shape)
            raise UserMistake(
                f"layer {name} has shape {found}, but the given model, images and classes need ({wanted})"
            )
        self._used.add(name)
        layer = self.layers[name]
        if isinstance(layer, Packed):
            return self._unpacked(name, layer)
        self.constants[name] = layer
        return name

    def unused(self) -> list[str]:
        """The layers that nobody asked for."""
        return [name for name in self.layers if name not in self._used]

    def _unpacked(self, name: str, layer: Packed) -> str:
        planes, levels = f"{name}.planes", f"{name}.levels"
        self.constants |= {planes: layer.planes, levels: layer.levels}
        bits, width = layer.planes.shape
        # ONNX masks integers only from opset 18 on; division and remainder take a byte apart everywhere.
        whole = self.add("Cast", self.add("Unsqueeze", planes, self.integers(2)), to=_INT32)
        every = self.add("Mod", self.add("Div", whole, self.constant(_BYTE)), self.constant(np.array(2, np.int32)))
        rows = self.add("Reshape", every, self.integers(bits, 8 * width))
        weighed = self.add("Mul", rows, self.constant(np.array([[1 << k] for k in range(bits)], np.int32)))
        padded = self.add("ReduceSum", weighed, self.integers(0), keepdims=0)
        count = int(np.prod(layer.shape, dtype=np.int64))
        indices = self.add("Slice", padded, self.integers(0), self.integers(count))
        return self.add("Reshape", self.add("Gather", levels, indices), self.integers(*layer.shape))


def serialize(graph: Graph, shape: Sequence[int], classes: int, about: Mapping[str, str]) -> bytes:
    """The graph as an ONNX file that takes `images` (N, *shape) and gives `logits` (N, classes), and is valid."""
    try:
        import onnx
    except ImportError:
        raise UserMistake("onnx is not installed; install it by: pip install 'idiolect[onnx]'") from None
    make, floats = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [make.make_node(node.operation, node.inputs, [node.output], **node.attributes) for node in graph.nodes]
    model = make.make_model(
        make.make_graph(
            nodes,
            "idiolect",
            [make.make_tensor_value_info(INPUT, floats, ["N", *shape])],
            [make.make_tensor_value_info(OUTPUT, floats, ["N", classes])],
            [onnx.numpy_helper.from_array(values, name) for name, values in graph.constants.items()],
        ),
        producer_name="idiolect",
        opset_imports=[make.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
    )
    make.set_model_props(model, dict(about))
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()
