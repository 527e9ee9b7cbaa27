"""The catalog's models as ONNX graphs. Each emitter follows its model's `apply`, with dropout off.

Widths and depths are read from the parameters themselves; of the recipe's model table only the name and the activation
are needed.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import numpy as np

from idiolect.contracts import Compressed
from idiolect.errors import UserMistake
from idiolect.export.onnx_file import serialize
from idiolect.export.onnx_functions import CONVOLVE
from idiolect.export.onnx_graph import INPUT, OUTPUT, Graph
from idiolect.export.stored_layers import stored_layers
from idiolect.files import write_atomically
from idiolect.problems.models import networks as models

Emitter = Callable[[Graph, Mapping[str, Any], Sequence[int], int], None]  # (graph, model table, image shape, classes)

_ACTIVATIONS = {"elu": "Elu", "relu": "Relu", "tanh": "Tanh"}
_KERNELS = (0, 3, 1, 2)  # ONNX has filters, channels, height, width
_TO_THE_END = np.iinfo(np.int64).max


def write_onnx(
    path: Path,
    compressed: Compressed,
    model: Mapping[str, Any],
    shape: Sequence[int],
    classes: int,
    about: Mapping[str, str],
) -> None:
    """Write a client's model as an ONNX file, atomically; what is told `about` it becomes the file's metadata.

    `model` is the recipe's table, such as `{"name": "mlp", "activation": "elu"}`, and `shape` that of an image (height,
    width, channels). The file takes `images` (N, height, width, channels) in [0, 1] and gives `logits` (N, classes).
    Quantized layers are stored as bit planes and levels and unpacked in the graph. The file takes what
    `contents.bundle_size` tells, the text of `about`, and the graph: 900 bytes for a network of three layers, 4,000 for
    a residual network of 20.
    """
    name = model.get("name")
    if name not in EMITTERS:
        raise UserMistake(f"model.name is {name!r}, which cannot be written as ONNX; these can: {', '.join(EMITTERS)}")
    graph = Graph(stored_layers(compressed))
    EMITTERS[name](graph, model, shape, classes)
    if unused := graph.unused():
        raise UserMistake(f"model.name is {name!r}, which has no layer {unused[0]}, but the parameters have one")
    write_atomically(path, serialize(graph, shape, classes, about))


def _mlp(graph: Graph, model: Mapping[str, Any], shape: Sequence[int], classes: int) -> None:
    default = inspect.signature(models.mlp).parameters["activation"].default
    activation = model.get("activation", default)
    if activation not in _ACTIVATIONS:
        raise UserMistake(f"model.activation is {activation!r}, but must be one of {', '.join(_ACTIVATIONS)}")
    x = graph.add("Flatten", INPUT, axis=1)
    _dense(graph, x, "", math.prod(shape), classes, _ACTIVATIONS[activation])


def _cnn(graph: Graph, model: Mapping[str, Any], shape: Sequence[int], classes: int) -> None:
    height, width, channels = shape
    x = graph.add("Transpose", INPUT, perm=[0, 3, 1, 2])
    for layer in _listed(graph, "convolutions.", ".weight"):
        kernels = graph.layer(f"{layer}.weight", None, None, None, channels, axes=_KERNELS)
        filters, tall, wide, _ = graph.shape_of(f"{layer}.weight")
        x = graph.add("Conv", x, kernels, graph.layer(f"{layer}.bias", filters))
        x = graph.add("Relu", graph.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]))
        height, width, channels = (height - tall + 1) // 2, (width - wide + 1) // 2, filters
    x = graph.add("Flatten", x, axis=1)  # in the order channels, height, width, as the model does
    _dense(graph, x, "dense.", channels * height * width, classes, "Relu")


def _resnet(graph: Graph, model: Mapping[str, Any], shape: Sequence[int], classes: int) -> None:
    x = graph.add("Transpose", INPUT, perm=[0, 3, 1, 2])
    x, channels = _convolved(graph, x, "0", shape[2], stride=1)
    x = graph.add("Relu", x)
    blocks = _listed(graph, "1.", ".first.weight")
    stage = max(1, len(blocks) // 3)
    for number, block in enumerate(blocks):
        stride = 2 if number and number % stage == 0 else 1
        inner, wider = _convolved(graph, x, f"{block}.first", channels, stride)
        outer, wider = _convolved(graph, graph.add("Relu", inner), f"{block}.second", wider, stride=1)
        x = graph.add("Relu", graph.add("Add", outer, _shortcut(graph, x, stride, wider - channels)))
        channels = wider
    x = graph.add("Flatten", graph.add("GlobalAveragePool", x), axis=1)
    head, bias = graph.layer("2.weight", channels, classes), graph.layer("2.bias", classes)
    graph.add("Gemm", x, head, bias, output=OUTPUT)


def _dense(graph: Graph, x: str, prefix: str, width: int, classes: int, activation: str) -> None:
    """Dense layers, all but the last one with an activation."""
    layers = _listed(graph, prefix, ".weight")
    for layer in layers[:-1]:
        weight = graph.layer(f"{layer}.weight", width, None)
        width = graph.shape_of(f"{layer}.weight")[1]
        x = graph.add(activation, graph.add("Gemm", x, weight, graph.layer(f"{layer}.bias", width)))
    weight, bias = graph.layer(f"{layers[-1]}.weight", width, classes), graph.layer(f"{layers[-1]}.bias", classes)
    graph.add("Gemm", x, weight, bias, output=OUTPUT)


def _convolved(graph: Graph, x: str, layer: str, channels: int, stride: int) -> tuple[str, int]:
    """A convolution that keeps the image's size, or halves it, and its normalization; and how many channels it has."""
    kernels = graph.layer(f"{layer}.weight", None, 3, 3, channels, axes=_KERNELS)
    filters = graph.shape_of(f"{layer}.weight")[0]
    norm = graph.together([f"{layer}.norm.{part}" for part in ("scale", "offset", "mean", "variance")], filters)
    strides: dict[str, Any] = {"strides": [stride, stride]} if stride > 1 else {}
    return graph.add(CONVOLVE, x, kernels, norm, **strides), filters


def _shortcut(graph: Graph, x: str, stride: int, missing: int) -> str:
    """Past a block, without parameters: every other pixel where it halves the image, zeros for channels it adds."""
    if stride > 1:
        ends, steps = graph.integers(_TO_THE_END, _TO_THE_END), graph.integers(stride, stride)
        x = graph.add("Slice", x, graph.integers(0, 0), ends, graph.integers(2, 3), steps)
    if missing:
        before = missing // 2
        x = graph.add("Pad", x, graph.integers(0, before, 0, 0, 0, missing - before, 0, 0))
    return x


def _listed(graph: Graph, prefix: str, suffix: str) -> list[str]:
    """The layers `prefix0`, `prefix1` and so on, as far as the parameters go; there is at least one."""
    found = list(takewhile(lambda n: f"{prefix}{n}{suffix}" in graph.layers, count()))
    return [f"{prefix}{n}" for n in found or [0]]


EMITTERS: dict[str, Emitter] = {"linear": _mlp, "mlp": _mlp, "cnn": _cnn, "resnet": _resnet}
