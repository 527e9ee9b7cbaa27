"""An ONNX graph in the making: nodes and constants, and quantized layers that the graph itself unpacks from bit planes.

Every value has a name of one or two letters, and none says which layer it is: of a network of few bits, the graph
itself is no small part.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count, product
from string import ascii_letters
from typing import Any

import numpy as np

from idiolect.errors import UserMistake
from idiolect.export.onnx_functions import UNPACK, Node
from idiolect.export.packing import pack, unpack
from idiolect.export.stored_layers import Packed

INPUT, OUTPUT = "images", "logits"


class Graph:
    """Collects a model's nodes in order. Layers are asked for by name, with the shape that the model needs."""

    def __init__(self, layers: Mapping[str, Packed | np.ndarray]) -> None:
        self.layers = layers
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray] = {}
        self._shared: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._used: set[str] = set()
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

    def shape_of(self, name: str) -> tuple[int, ...]:
        """The shape of a layer, or a mistake if the model has no such layer."""
        if name not in self.layers:
            raise UserMistake(f"the parameters have no layer {name}, so they are not those of the given model")
        return tuple(self.layers[name].shape)

    def layer(self, name: str, *shape: int | None, axes: Sequence[int] | None = None) -> str:
        """The float tensor of a layer, which must have this shape; None stands for any extent.

        With `axes` it has its axes in that order. They are put in order here, once, and not by every device.
        """
        layer = self._found(name, shape)
        axes = range(len(shape)) if axes is None else axes
        if not isinstance(layer, Packed):
            return self.constant(np.ascontiguousarray(layer.transpose(axes)))
        bits, total = len(layer.planes), int(np.prod(layer.shape, dtype=np.int64))
        indices = unpack(layer.planes, total).reshape(layer.shape).transpose(axes)
        weigh = self.constant(np.array([[1 << k] for k in range(bits)], np.int32))
        planes, levels = self.constant(pack(indices, bits)), self.constant(layer.levels)
        return self.add(UNPACK, planes, levels, weigh, self.integers(*indices.shape))

    def together(self, names: Sequence[str], extent: int) -> str:
        """Vectors of this extent end to end: a single constant takes less than many."""
        found = [self._found(name, (extent,)) for name in names]
        whole = [vector for vector in found if not isinstance(vector, Packed)]
        if len(whole) < len(found):  # what is quantized stays packed in the file
            return self.add("Concat", *(self.layer(name, extent) for name in names), axis=0)
        return self.constant(np.concatenate(whole))

    def unused(self) -> list[str]:
        """The layers that nobody asked for."""
        return [name for name in self.layers if name not in self._used]

    def _found(self, name: str, shape: Sequence[int | None]) -> Packed | np.ndarray:
        found = self.shape_of(name)
        if len(found) != len(shape) or any(m is not None and n != m for n, m in zip(found, shape, strict=True)):
            wanted = ", ".join("any" if extent is None else str(extent) for extent in shape)
            raise UserMistake(
                f"layer {name} has shape {found}, but the given model, images and classes need ({wanted})"
            )
        self._used.add(name)
        return self.layers[name]


def short_names() -> Iterator[str]:
    """One letter each, as long as there are letters, and then two."""
    return map("".join, chain.from_iterable(product(ascii_letters, repeat=n) for n in count(1)))
