"""Residual networks for small images, with batch normalization whose statistics stay on the client.

K. He, X. Zhang, S. Ren, J. Sun. Deep residual learning for image recognition. 2016, Sec. 4.2: 6n + 2 layers in three
stages, and shortcuts without parameters (option A).

In training, a layer is normalized by the mean and the variance of the batch. The mean and the variance in the
parameters are left as they are, so they have no gradient, and what clients send of them is zero. A client fills them in
for itself (`calibrate`) when it has a model to use or to score.
"""

import math
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Gt

from idiolect.contracts import Key, Params
from idiolect.errors import UserMistake
from idiolect.problems.models.networks import Model, check_image
from idiolect.problems.models.padded_convolution import convolve

_EPSILON = 1e-5
_STAGES = 3

Look = Callable[[jax.Array, Params], Params]  # (what is to be normalized, the layer) -> the layer with its statistics


def resnet(
    shape: Sequence[int], classes: int, *, depth: Annotated[int, Gt(0)] = 20, width: Annotated[int, Gt(0)] = 16
) -> Model:
    """A residual network of 20, 32, ... layers, with batch normalization of which nothing leaves the client.

    Its three stages have `width`, 2 `width` and 4 `width` filters, on images halved in size from stage to stage.

    Args:
        shape: Of an image: height, width, channels.
        classes: How many logits there are.
        depth: The number of layers, 6n + 2.
        width: Filters of the first stage.

    Returns:
        The model, which must be calibrated before it is used.

    Example:
        >>> import jax
        >>> from idiolect.problems.models import resnet
        >>> stem, body, head = jax.eval_shape(resnet((32, 32, 3), 10, depth=8).init, jax.random.key(0))
        >>> len(body)
        3
    """
    check_image(shape, "resnet")
    blocks = _blocks(depth)
    widths = [width] + [width * 2**stage for stage in range(_STAGES) for _ in range(blocks)]

    def init(key: Key) -> Params:
        weights = iter(_he_normal(key, [*_kernel_shapes(shape[2], widths), (widths[-1], classes)]))
        stem = _layer(next(weights))
        body = [{"first": _layer(next(weights)), "second": _layer(next(weights))} for _ in widths[1:]]
        return [stem, body, {"weight": next(weights), "bias": jnp.zeros(classes)}]

    def apply(params: Params, images: jax.Array, key: Key | None = None) -> jax.Array:
        pixels = images.reshape(len(images), *shape)
        x = _forward(params, pixels, _remember if key is None else _measure(_evenly(len(images))))[0]
        return x @ params[-1]["weight"] + params[-1]["bias"]

    def features(params: Params, images: jax.Array) -> jax.Array:
        return _forward(params, images.reshape(len(images), *shape), _remember)[0]

    def calibrate(params: Params, images: jax.Array, weights: jax.Array | None = None) -> Params:
        pixels = images.reshape(len(images), *shape)
        return _forward(params, pixels, _measure(_evenly(len(images)) if weights is None else weights))[1]

    return Model(init, apply, calibrate, features)


def _blocks(depth: int) -> int:
    """How many blocks a stage has."""
    blocks, rest = divmod(depth - 2, 2 * _STAGES)
    if rest or blocks < 1:
        below = max(blocks, 1) * 2 * _STAGES + 2
        raise UserMistake(
            f"model.depth is {depth}, but a residual network has 6n + 2 layers; "
            + (f"take {below} or {below + 2 * _STAGES}" if blocks >= 1 else f"take {below} or more")
        )
    return blocks


def _kernel_shapes(channels: int, widths: Sequence[int]) -> list[tuple[int, ...]]:
    inner = [shape for n, m in pairwise(widths) for shape in ((m, 3, 3, n), (m, 3, 3, m))]
    return [(widths[0], 3, 3, channels), *inner]


def _he_normal(key: Key, shapes: Sequence[tuple[int, ...]]) -> list[jax.Array]:
    """Kernels, and a dense layer's weights, with variance 2 / fan in.

    They are cut from a single draw: a draw for every layer would take longer to compile than a training step.
    """
    sizes = [math.prod(shape) for shape in shapes]
    draws = jnp.split(jax.random.normal(key, (sum(sizes),)), list(accumulate(sizes))[:-1])
    fans = [math.prod(shape[1:]) if len(shape) == 4 else shape[0] for shape in shapes]
    return [math.sqrt(2 / fan) * draw.reshape(s) for draw, s, fan in zip(draws, shapes, fans, strict=True)]


def _layer(weight: jax.Array) -> Params:
    norm = {"scale": jnp.ones, "offset": jnp.zeros, "mean": jnp.zeros, "variance": jnp.ones}
    return {"weight": weight, "norm": {name: fill(len(weight)) for name, fill in norm.items()}}


def _forward(params: Params, images: jax.Array, look: Look) -> tuple[jax.Array, Params]:
    """What the last layer is given, and the parameters with the statistics by which every layer was normalized."""
    stem, body, head = params
    x, stem = _convolve(jnp.moveaxis(images, (0, 3), (3, 0)), stem, 1, look)  # channels first, batch last
    x, used = jax.nn.relu(x), []
    for block in body:
        stride = 1 if len(block["first"]["weight"]) == len(x) else 2  # where the filters double, the images halve
        inner, first = _convolve(x, block["first"], stride, look)
        inner, second = _convolve(jax.nn.relu(inner), block["second"], 1, look)
        x = jax.nn.relu(inner + _shortcut(x, len(inner), stride))
        used.append({"first": first, "second": second})
    return x.mean((1, 2)).T, [stem, used, head]


def _convolve(x: jax.Array, layer: Params, stride: int, look: Look) -> tuple[jax.Array, Params]:
    x = convolve(x, layer["weight"], stride)
    norm = look(x, layer["norm"])
    slope = norm["scale"] * jax.lax.rsqrt(norm["variance"] + _EPSILON)
    return (x - _spread(norm["mean"])) * _spread(slope) + _spread(norm["offset"]), {**layer, "norm": norm}


def _shortcut(x: jax.Array, filters: int, stride: int) -> jax.Array:
    """Every second pixel where the images halve, and channels of zeros before and after: option A."""
    before = (filters - len(x)) // 2
    return jnp.pad(x[:, ::stride, ::stride], ((before, filters - len(x) - before), (0, 0), (0, 0), (0, 0)))


def _remember(x: jax.Array, norm: Params) -> Params:
    return norm


def _measure(weights: jax.Array) -> Look:
    """Look at the batch, in which every image counts by its weight; the weights add up to one."""

    def look(x: jax.Array, norm: Params) -> Params:
        # Over pixels first: the batch lies last, and whole rows of it are added at a time.
        mean = x.mean((1, 2)) @ weights
        variance = jnp.square(x - _spread(mean)).mean((1, 2)) @ weights
        return {**norm, "mean": mean, "variance": variance}

    return look


def _evenly(count: int) -> jax.Array:
    return jnp.full(count, 1 / count, jnp.float32)


def _spread(values: jax.Array) -> jax.Array:
    return values[:, None, None, None]
