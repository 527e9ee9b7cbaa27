"""A model's plan as an ONNX graph."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from idiolect.contracts import Compressed
from idiolect.export.onnx_file import serialize
from idiolect.export.onnx_functions import CONVOLVE
from idiolect.export.onnx_graph import INPUT, OUTPUT, Form, Graph
from idiolect.export.plans import SCALE, SHIFT, Plan, Step
from idiolect.export.stored_layers import stored_layers, whole_layer
from idiolect.files import write_atomically

_BENT = ("", "Elu", "Relu", "Tanh")  # in the order of `programs.ACTIVATIONS`
_TO_THE_END = np.iinfo(np.int64).max


def write_onnx(path: Path, compressed: Compressed, plan: Plan, about: Mapping[str, Any]) -> None:
    """Write a client's model as an ONNX file, atomically; what is told `about` it becomes the file's metadata.

    The file takes `images` (N, height, width, channels) between 0 and 1, and gives `logits` (N, classes). Quantized
    layers are stored as packed indices and levels, and stay packed where the graph runs. The file takes what
    `bundle_size` tells (but four bits where that says three, and eight from five on), the text of `about`, and the
    graph: 1,500 bytes for a network of three layers, 5,000 for a residual network of 20.
    """
    write_atomically(path, onnx_bytes(compressed, plan, about))


def onnx_bytes(compressed: Compressed, plan: Plan, about: Mapping[str, Any], *, form: Form = "packed") -> bytes:
    """An ONNX file's content: exact and packed, with plain floats, or with dense layers in four bits."""
    layers = stored_layers(compressed) | {name: whole_layer(values) for name, values in plan.folded.items()}
    graph = Graph(layers, form)
    draw(graph, plan)
    return serialize(graph, plan.image, plan.classes, texts_of(about, plan))


def texts_of(about: Mapping[str, Any], plan: Plan) -> dict[str, str]:
    """What a bundle would say of a model beside its operations, as ONNX has it: by texts alone."""
    told = {**about, "image": list(plan.image), "bytes_divided_by": plan.divisor, "classes": plan.classes}
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in told.items()}


def draw(graph: Graph, plan: Plan) -> None:
    """The nodes of all steps. Images lie with their channels first, as ONNX has them, from the first convolution on."""
    x, channels, kept, steps = INPUT, plan.image[2], (INPUT, 0), list(plan.steps)
    if steps[0].layers[:1] == (SCALE,):
        factors = np.einsum("khwk->k", plan.folded[SCALE])
        x = graph.add("Mul", x, graph.constant(factors))
        x = graph.add("Add", x, graph.constant(plan.folded[SHIFT]))
        steps = steps[1:]
    if any(step.operation == "convolve" for step in steps):
        x = graph.add("Transpose", x, perm=[0, 3, 1, 2])
    for number, step in enumerate(steps):
        activation = 0
        if step.operation == "keep":
            kept = (x, channels)
        elif step.operation == "convolve":
            x, channels, activation = _convolved(graph, x, step)
        elif step.operation == "pool":
            (side,) = step.settings
            x = graph.add("MaxPool", x, kernel_shape=[side, side], strides=[side, side])
        elif step.operation == "add":
            stride, before, activation = step.settings
            shortcut = _shortcut(graph, kept[0], stride, before, channels - kept[1] - before)
            x = graph.add("Add", x, shortcut)
        elif step.operation == "mean":
            x = graph.add("GlobalAveragePool", x)
        elif step.operation == "dense":
            weight, bias = step.layers
            assert weight is not None
            first = not any(done.operation == "dense" for done in steps[:number])
            x = graph.add("Flatten", x, axis=1) if first else x
            x, activation = graph.product(x, weight, bias), step.settings[0]
        if activation:
            x = graph.add(_BENT[activation], x)
    graph.add("Identity", x, output=OUTPUT)


def _convolved(graph: Graph, x: str, step: Step) -> tuple[str, int, int]:
    """What a convolution gives, how many channels that has, and its activation."""
    (stride, padding, activation), (weight, scale, shift) = step.settings, step.layers
    assert weight is not None  # only scales, shifts and biases may be missing
    kernels, (filters, *sides, _) = graph.layer(weight), graph.layers[weight].layer.shape
    strides: dict[str, Any] = {"strides": [stride, stride]} if stride > 1 else {}
    if scale is not None and shift is not None:
        assert (sides, padding) == ([3, 3], 1)  # as the function has them
        norm = graph.together(graph.layers[scale].weights(), graph.layers[shift].weights())
        return graph.add(CONVOLVE, x, kernels, norm, **strides), filters, activation
    bias = [] if shift is None else [graph.layer(shift)]
    return graph.add("Conv", x, kernels, *bias, pads=[padding] * 4, **strides), filters, activation


def _shortcut(graph: Graph, x: str, stride: int, before: int, behind: int) -> str:
    """Past a block, without parameters: every other pixel where it halves the image, zeros for channels it adds."""
    if stride > 1:
        ends, steps = graph.integers(_TO_THE_END, _TO_THE_END), graph.integers(stride, stride)
        x = graph.add("Slice", x, graph.integers(0, 0), ends, graph.integers(2, 3), steps)
    if before or behind:
        x = graph.add("Pad", x, graph.integers(0, before, 0, 0, 0, behind, 0, 0))
    return x
