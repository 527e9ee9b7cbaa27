"""What the catalog's models compute, as operations on named layers. Each plan follows its model's `apply`, dropout off.

Widths and depths are read from the parameters themselves; of the recipe's model table only the name and the activation
are needed. Bundles, C and ONNX are all written from these plans.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import count, takewhile
from typing import Any, NamedTuple

import numpy as np

from idiolect.contracts import Params, Scaling
from idiolect.device.programs import ACTIVATIONS
from idiolect.errors import UserMistake
from idiolect.problems.models import networks as models
from idiolect.quantization.layers import named_leaves

_EPSILON = 1e-5  # of batch normalization
_STAGES = 3
SCALE, SHIFT = "inputs.scale", "inputs.shift"  # of inputs, where they are scaled


class Step(NamedTuple):
    """An operation with its settings (see `device.programs`) and the names of its layers; None where it has none."""

    operation: str
    settings: tuple[int, ...] = ()
    layers: tuple[str | None, ...] = ()


class Plan(NamedTuple):
    """Steps from an image to logits.

    Args:
        image: The shape of an image: height, width, channels.
        classes: How many logits there are.
        steps: In order.
        folded: Layers that are made here, from those that they stand for: normalization becomes a scale and a shift.
        replaced: The layers that these were made from.
        divisor: What bytes of pixels are divided by.
    """

    image: tuple[int, ...]
    classes: int
    steps: tuple[Step, ...]
    folded: dict[str, np.ndarray]
    replaced: frozenset[str]
    divisor: int = 255


def plan(
    model: Mapping[str, Any], params: Params, shape: Sequence[int], classes: int, scaling: Scaling | None = None
) -> Plan:
    """The plan of a model from its recipe's table, such as `{"name": "mlp", "activation": "elu"}`.

    Where images were scaled before the model saw them, the plan begins with that, and takes them as they were.
    """
    name = model.get("name")
    if name not in PLANNERS:
        raise UserMistake(f"model.name is {name!r}, of which nothing is known; exported are {', '.join(PLANNERS)}")
    making = _Making({name: np.asarray(leaf) for name, leaf in named_leaves(params).items()}, tuple(shape), classes)
    if scaling is not None:
        making.scaled(scaling)
    PLANNERS[name](making, model)
    if unused := [layer for layer in making.layers if layer not in making.used]:
        raise UserMistake(f"model.name is {name!r}, which has no layer {unused[0]}, but the parameters have one")
    replaced = frozenset(making.used - {layer for step in making.steps for layer in step.layers if layer})
    return Plan(making.image, classes, tuple(making.steps), making.folded, replaced)


class _Making:
    """A plan in the making, which knows what it has asked for."""

    def __init__(self, layers: Mapping[str, np.ndarray], image: tuple[int, ...], classes: int) -> None:
        self.layers, self.image, self.classes = layers, image, classes
        self.steps: list[Step] = []
        self.folded: dict[str, np.ndarray] = {}
        self.used: set[str] = set()

    def add(self, operation: str, *settings: int, layers: tuple[str | None, ...] = ()) -> None:
        self.steps.append(Step(operation, settings, layers))

    def asked(self, name: str, *shape: int | None) -> tuple[int, ...]:
        """The shape of a layer, which must be this one; None stands for any extent."""
        if name not in self.layers:
            raise UserMistake(f"the parameters have no layer {name}, so they are not those of the given model")
        found = self.layers[name].shape
        if len(found) != len(shape) or any(m is not None and n != m for n, m in zip(found, shape, strict=True)):
            wanted = ", ".join("any" if extent is None else str(extent) for extent in shape)
            raise UserMistake(
                f"layer {name} has shape {found}, but the given model, images and classes need ({wanted})"
            )
        self.used.add(name)
        return found

    def scaled(self, scaling: Scaling) -> None:
        """Shift and scale every channel: a convolution of single pixels, which every reader has."""
        mean, deviation = np.asarray(scaling.mean), np.asarray(scaling.deviation)
        self.folded[SCALE] = np.diag(1 / deviation).astype(np.float32)[:, None, None, :]
        self.folded[SHIFT] = (-mean / deviation).astype(np.float32)
        self.add("convolve", 1, 0, 0, layers=(SCALE, None, SHIFT))

    def listed(self, prefix: str, suffix: str) -> list[str]:
        """The layers `prefix0`, `prefix1` and so on, as far as the parameters go; there is at least one."""
        found = list(takewhile(lambda n: f"{prefix}{n}{suffix}" in self.layers, count()))
        return [f"{prefix}{n}" for n in found or [0]]

    def dense(self, prefix: str, width: int, activation: str) -> None:
        """Dense layers, all but the last one with an activation."""
        layers = self.listed(prefix, ".weight")
        for layer in layers:
            last = layer == layers[-1]
            _, out = self.asked(f"{layer}.weight", width, self.classes if last else None)
            self.asked(f"{layer}.bias", out)
            bend = ACTIVATIONS.index("none" if last else activation)
            self.add("dense", bend, layers=(f"{layer}.weight", f"{layer}.bias"))
            width = out

    def normalized(self, layer: str, channels: int, stride: int, activation: str) -> int:
        """A convolution that keeps the image's size, or divides it, and its normalization; how many filters it has."""
        filters = self.asked(f"{layer}.weight", None, 3, 3, channels)[0]
        parts = {}
        for part in ("scale", "offset", "mean", "variance"):
            self.asked(f"{layer}.norm.{part}", filters)
            parts[part] = self.layers[f"{layer}.norm.{part}"].astype(np.float64)
        if (parts["variance"] < 0).any():
            raise UserMistake(f"layer {layer}.norm.variance has a number below 0, so it holds no variances")
        scale = parts["scale"] / np.sqrt(parts["variance"] + _EPSILON)
        names = f"{layer}.norm.slope", f"{layer}.norm.shift"
        self.folded[names[0]] = scale.astype(np.float32)
        self.folded[names[1]] = (parts["offset"] - parts["mean"] * scale).astype(np.float32)
        self.add("convolve", stride, 1, ACTIVATIONS.index(activation), layers=(f"{layer}.weight", *names))
        return filters


def _mlp(making: _Making, model: Mapping[str, Any]) -> None:
    activation = model.get("activation", inspect.signature(models.mlp).parameters["activation"].default)
    if activation not in ACTIVATIONS[1:]:
        raise UserMistake(f"model.activation is {activation!r}, but must be one of {', '.join(ACTIVATIONS[1:])}")
    making.dense("", math.prod(making.image), activation)


def _cnn(making: _Making, model: Mapping[str, Any]) -> None:
    height, width, channels = making.image
    for layer in making.listed("convolutions.", ".weight"):
        filters, tall, wide, _ = making.asked(f"{layer}.weight", None, None, None, channels)
        making.asked(f"{layer}.bias", filters)
        # The rectifier gives the same numbers before the maximum as after it.
        making.add("convolve", 1, 0, ACTIVATIONS.index("relu"), layers=(f"{layer}.weight", None, f"{layer}.bias"))
        making.add("pool", 2)
        height, width, channels = (height - tall + 1) // 2, (width - wide + 1) // 2, filters
    making.add("channels_first")
    making.dense("dense.", channels * height * width, "relu")


def _resnet(making: _Making, model: Mapping[str, Any]) -> None:
    channels = making.normalized("0", making.image[2], 1, "relu")
    blocks = making.listed("1.", ".first.weight")
    stage = max(1, len(blocks) // _STAGES)
    for number, block in enumerate(blocks):
        stride = 2 if number and number % stage == 0 else 1
        making.add("keep")
        wider = making.normalized(f"{block}.first", channels, stride, "relu")
        wider = making.normalized(f"{block}.second", wider, 1, "none")
        making.add("add", stride, (wider - channels) // 2, ACTIVATIONS.index("relu"))
        channels = wider
    making.add("mean")
    making.asked("2.weight", channels, making.classes)
    making.asked("2.bias", making.classes)
    making.add("dense", 0, layers=("2.weight", "2.bias"))


PLANNERS: dict[str, Callable[[_Making, Mapping[str, Any]], None]] = {
    "linear": _mlp,
    "mlp": _mlp,
    "cnn": _cnn,
    "resnet": _resnet,
}
