"""Computes what a bundle's program says, from packed weights, block by block: no layer is ever held as floats."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from .packing import PackedLayer
from .programs import ACTIVATIONS, KINDS, MOST_VALUES, Layer, Operation, Program, ProgramError

if TYPE_CHECKING:
    from .bundles import Bundle

Shape = tuple[int, ...]


def predict(bundle: "Bundle", images: np.ndarray) -> np.ndarray:
    """The logits of images.

    Args:
        bundle: A bundle that says what is computed.
        images: (samples, height, width, channels); floats between 0 and 1, or bytes, which are scaled to that.

    Returns:
        (samples, classes).

    Example:
        >>> import jax, numpy as np
        >>> from idiolect.contracts import uncompressed
        >>> from idiolect.export.bundle import write_bundle
        >>> from idiolect.export.plans import plan
        >>> from idiolect.problems.models import linear
        >>> params = linear((2, 2, 1), 3).init(jax.random.key(0))
        >>> write_bundle(tmp / "mine", uncompressed(params), {}, plan({"name": "linear"}, params, (2, 2, 1), 3))
        >>> from idiolect.device import predict, read_bundle
        >>> predict(read_bundle(tmp / "mine"), np.zeros((5, 2, 2, 1), np.uint8)).shape
        (5, 3)
    """
    program, layers = bundle.program, iter(bundle.layers.values())
    if not program.image:
        raise ValueError("the bundle holds weights, but does not say what is computed with them")
    if images.shape[1:] != program.image:
        raise ValueError(f"images have shape {images.shape[1:]}, but the model takes {program.image}")
    scaled = images.astype(np.float32)
    if images.dtype == np.uint8:
        scaled /= program.divisor
    x, kept = scaled, scaled
    for operation in program.operations:
        own = [None if layer is None else next(layers) for layer in operation.layers]
        if operation.name == "keep":
            kept = x
        elif operation.name != "hold":
            x = _RUN[operation.name](x, kept, _settings(operation), own)
    return x


def check(program: Program) -> Shape:
    """What is computed from one image has this shape; `ProgramError` if the operations do not fit each other."""
    shape: Shape = _bounded(program.image)
    kept: Shape = ()
    for operation in program.operations:
        if operation.name == "keep":
            kept = shape
        elif operation.name != "hold":
            if not program.image:
                raise ProgramError("computes something, but takes no image")
            shape = _bounded(_after(operation, shape, kept))
    if program.image and len(shape) != 1:
        raise ProgramError("has a program that ends in an image")
    return shape


def _settings(operation: Operation) -> dict[str, int]:
    return dict(zip(KINDS[operation.name].settings, operation.settings, strict=True))


def _bounded(shape: Shape) -> Shape:
    if any(extent < 1 for extent in shape) or np.prod(shape, dtype=float) > MOST_VALUES:
        raise ProgramError(f"comes to values of shape {shape} in its program, but {MOST_VALUES} is the most")
    return shape


def _after(operation: Operation, shape: Shape, kept: Shape) -> Shape:
    """The shape of the values after an operation, which must fit those before it."""
    name, layers = operation.name, operation.layers
    settings = _settings(operation)
    if settings.get("activation", 0) >= len(ACTIVATIONS) or not settings.get("stride", 1) * settings.get("side", 1):
        raise ProgramError(f"has a setting of {name} in its program that there is not")
    if name == "dense":
        size = int(np.prod(shape))
        _fits(name, layers[0], (size, None))
        outputs = layers[0].shape[1] if layers[0] else 0
        _fits(name, layers[1], (outputs,), optional=True)
        return (outputs,)
    if len(shape) != 3:
        raise ProgramError(f"has {name} in its program where there is no image")
    height, width, channels = shape
    if name == "convolve":
        return _convolved(operation, shape, settings["stride"], settings["padding"])
    if name == "pool":
        return height // settings["side"], width // settings["side"], channels
    if name == "add":
        stride = settings["stride"]
        small = (-(-kept[0] // stride), -(-kept[1] // stride)) if len(kept) == 3 else ()
        if small != (height, width) or settings["before"] + kept[2] > channels:
            raise ProgramError(f"adds values of shape {kept} to others of shape {shape} in its program")
        return shape
    return (channels,) if name == "mean" else (channels * height * width,)


def _convolved(operation: Operation, shape: Shape, stride: int, padding: int) -> Shape:
    weight, scale, shift = operation.layers
    _fits("convolve", weight, (None, None, None, shape[2]))
    filters, tall, wide, _ = weight.shape if weight else (0, 0, 0, 0)
    for vector in (scale, shift):
        _fits("convolve", vector, (filters,), optional=True)
    if padding >= min(tall, wide) or tall > shape[0] + 2 * padding or wide > shape[1] + 2 * padding:
        raise ProgramError(f"convolves values of shape {shape} with kernels of {tall} x {wide} in its program")
    return (shape[0] + 2 * padding - tall) // stride + 1, (shape[1] + 2 * padding - wide) // stride + 1, filters


def _fits(name: str, layer: Layer | None, wanted: tuple[int | None, ...], optional: bool = False) -> None:
    if layer is None and optional:
        return
    found = () if layer is None else layer.shape
    if len(found) != len(wanted) or any(m not in (None, n) for n, m in zip(found, wanted, strict=True)):
        raise ProgramError(f"has a layer of shape {found} for {name} in its program")


Own = list[PackedLayer | None]


def _dense(x: np.ndarray, kept: np.ndarray, settings: dict[str, int], own: Own) -> np.ndarray:
    weight, bias = own
    assert weight is not None
    y = weight.product(x.reshape(len(x), -1))
    return _bent(y if bias is None else y + bias.weights(), settings)


def _convolve(x: np.ndarray, kept: np.ndarray, settings: dict[str, int], own: Own) -> np.ndarray:
    weight, scale, shift = own
    assert weight is not None
    _, tall, wide, _ = weight.layer.shape
    rows = []
    for patches in _patches(x, tall, wide, settings["stride"], settings["padding"]):
        y = weight.product(patches.reshape(-1, patches.shape[-1])).reshape(*patches.shape[:-1], -1)
        y = y if scale is None else y * scale.weights()
        rows.append(_bent(y if shift is None else y + shift.weights(), settings))
    return np.concatenate(rows, axis=1)


def _patches(x: np.ndarray, tall: int, wide: int, stride: int, padding: int) -> Iterator[np.ndarray]:
    """What each place of the kernel sees, (samples, rows, columns, inputs), some rows of the image at a time."""
    framed = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(framed, (tall, wide), (1, 2))[:, ::stride, ::stride]
    windows = windows.transpose(0, 1, 2, 4, 5, 3)  # as kernels lie: rows, columns, channels
    samples, rows, columns, *inputs = windows.shape
    at_once = max(1, (1 << 16) // (samples * columns * int(np.prod(inputs))))
    for start in range(0, rows, at_once):
        yield windows[:, start : start + at_once].reshape(samples, -1, columns, int(np.prod(inputs)))


def _pool(x: np.ndarray, kept: np.ndarray, settings: dict[str, int], own: Own) -> np.ndarray:
    side = settings["side"]
    rows, columns = x.shape[1] // side, x.shape[2] // side
    windows = x[:, : rows * side, : columns * side].reshape(len(x), rows, side, columns, side, -1)
    return windows.max((2, 4))


def _channels_first(x: np.ndarray, kept: np.ndarray, settings: dict[str, int], own: Own) -> np.ndarray:
    return np.moveaxis(x, 3, 1).reshape(len(x), -1)


def _mean(x: np.ndarray, kept: np.ndarray, settings: dict[str, int], own: Own) -> np.ndarray:
    return x.mean((1, 2))


def _add(x: np.ndarray, kept: np.ndarray, settings: dict[str, int], own: Own) -> np.ndarray:
    before, stride, y = settings["before"], settings["stride"], x.copy()
    y[..., before : before + kept.shape[3]] += kept[:, ::stride, ::stride]
    return _bent(y, settings)


def _bent(x: np.ndarray, settings: dict[str, int]) -> np.ndarray:
    name = ACTIVATIONS[settings["activation"]]
    if name == "elu":
        return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
    return np.maximum(x, 0) if name == "relu" else np.tanh(x) if name == "tanh" else x


_RUN = {
    "dense": _dense,
    "convolve": _convolve,
    "pool": _pool,
    "channels_first": _channels_first,
    "mean": _mean,
    "add": _add,
}
