"""Models as pairs of pure functions: `init(key) -> params` and `apply(params, images, key) -> logits`.

Any such pair works in a problem; these are the ones the papers use. `key` drives dropout in training and is None when a
model is scored. Images are rows of pixels in [0, 1], as the data sets give them: (batch, height, width, channels).
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Len, Lt

from idiolect.contracts import Key, Params
from idiolect.errors import UserMistake
from idiolect.problems.models.convolution import convolve_and_pool

Activation = Literal["elu", "relu", "tanh"]
_ACTIVATIONS = {"elu": jax.nn.elu, "relu": jax.nn.relu, "tanh": jnp.tanh}


def nothing_to_calibrate(params: Params, images: jax.Array, weights: jax.Array) -> Params:
    """Most models look at one image at a time, and need to know nothing of the others."""
    return params


class Model(NamedTuple):
    """Parameters from a key, and logits from parameters and images.

    Args:
        init: Parameters from a key.
        apply: Logits from parameters, images and a key (None when a model is scored).
        calibrate: Fills in what a model must know of the images it will meet, for use without a key, from a batch in
            which every image counts by its weight; the weights add up to one.
        features: What the last layer is given, from parameters and images, where the model has such a layer.
    """

    init: Callable[[Key], Params]
    apply: Callable[[Params, jax.Array, Key | None], jax.Array]
    calibrate: Callable[[Params, jax.Array, jax.Array], Params] = nothing_to_calibrate
    features: Callable[[Params, jax.Array], jax.Array] | None = None


def linear(shape: Sequence[int], classes: int) -> Model:
    """Multinomial logistic regression.

    Args:
        shape: Of an image: height, width, channels.
        classes: How many logits there are.

    Returns:
        The model.

    Example:
        >>> import jax
        >>> from idiolect.problems.models import linear
        >>> jax.eval_shape(linear((8, 8, 1), 10).init, jax.random.key(0))[0]["weight"].shape
        (64, 10)
    """
    return mlp(shape, classes, hidden=())


def mlp(
    shape: Sequence[int],
    classes: int,
    *,
    hidden: Sequence[Annotated[int, Gt(0)]] = (80, 60),
    activation: Activation = "elu",
) -> Model:
    """Dense layers; by default 80-60 with ELU, the network of Per-FedAvg's experiment (Sec. 5).

    Args:
        shape: Of an image: height, width, channels.
        classes: How many logits there are.
        hidden: Widths of the layers before the last.
        activation: `elu`, `relu` or `tanh`.

    Returns:
        The model.

    Example:
        >>> import jax
        >>> from idiolect.problems.models import mlp
        >>> [layer["weight"].shape for layer in jax.eval_shape(mlp((8, 8, 1), 10).init, jax.random.key(0))]
        [(64, 80), (80, 60), (60, 10)]
    """
    widths = [_size(shape), *hidden, classes]
    bend = _ACTIVATIONS[activation]

    def init(key: Key) -> Params:
        keys = jax.random.split(key, len(widths) - 1)
        return [dense_layer(k, n, m) for k, n, m in zip(keys, widths[:-1], widths[1:], strict=True)]

    def features(params: Params, images: jax.Array) -> jax.Array:
        x = images.reshape(len(images), -1)
        for layer in params[:-1]:
            x = bend(x @ layer["weight"] + layer["bias"])
        return x

    def apply(params: Params, images: jax.Array, key: Key | None = None) -> jax.Array:
        return features(params, images) @ params[-1]["weight"] + params[-1]["bias"]

    return Model(init, apply, features=features)


def cnn(
    shape: Sequence[int],
    classes: int,
    *,
    channels: Annotated[Sequence[Annotated[int, Gt(0)]], Len(1)] = (16, 32),
    kernel: Annotated[int, Gt(0)] = 5,
    hidden: Sequence[Annotated[int, Gt(0)]] = (128,),
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0,
) -> Model:
    """Convolutions with 2 x 2 max-pooling, then dense layers with dropout: PersA-FL, Appendix D.

    l convolutional and l dense layers (the output layer counts) for l = 2 is the default and for l = 3 is
    `channels=(16, 32, 64), hidden=(128, 64)`; 5 x 5 kernels suit two layers, 3 x 3 kernels three.

    Args:
        shape: Of an image: height, width, channels.
        classes: How many logits there are.
        channels: Of each convolution.
        kernel: The side of its kernels.
        hidden: Widths of the dense layers before the last.
        dropout: The share of a dense layer's values that a training step leaves out.

    Returns:
        The model.

    Example:
        >>> import jax
        >>> from idiolect.problems.models import cnn
        >>> params = jax.eval_shape(cnn((28, 28, 1), 10).init, jax.random.key(0))
        >>> params["dense"][0]["weight"].shape
        (512, 128)
    """
    check_image(shape, "cnn")
    plan = _plan(shape, channels, kernel)
    widths = [plan[-1][0] * plan[-1][1] * channels[-1], *hidden, classes]

    def init(key: Key) -> Params:
        keys = iter(jax.random.split(key, len(channels) + len(widths) - 1))
        depths = [shape[2], *channels]
        return {
            "convolutions": [_kernels(next(keys), kernel, n, m) for n, m in pairwise(depths)],
            "dense": [dense_layer(next(keys), n, m) for n, m in pairwise(widths)],
        }

    def features(params: Params, images: jax.Array, key: Key | None = None) -> jax.Array:
        x = jnp.moveaxis(images.reshape(len(images), *shape), (0, 3), (3, 0))  # channels first, batch last
        for layer in params["convolutions"]:
            # The rectifier after the pooling gives the same numbers as before it, for a quarter of the work.
            x = jax.nn.relu(convolve_and_pool(x, layer["weight"]) + layer["bias"][:, None, None, None])
        x = x.reshape(-1, x.shape[-1]).T
        for depth, layer in enumerate(params["dense"][:-1]):
            x = jax.nn.relu(x @ layer["weight"] + layer["bias"])
            x = _drop(x, dropout, None if key is None else jax.random.fold_in(key, depth))
        return x

    def apply(params: Params, images: jax.Array, key: Key | None = None) -> jax.Array:
        return features(params, images, key) @ params["dense"][-1]["weight"] + params["dense"][-1]["bias"]

    return Model(init, apply, features=features)


def check_image(shape: Sequence[int], name: str) -> None:
    """Refuse rows that are no images, where a model looks at neighbours."""
    if len(shape) != 3:
        raise UserMistake(
            f"model is {name}, which takes images (height, width, channels), but a row has shape {tuple(shape)}; take "
            "mlp or linear"
        )


def _plan(shape: Sequence[int], channels: Sequence[int], kernel: int) -> list[tuple[int, int]]:
    height, width = shape[:2]
    sizes = []
    for depth in range(len(channels)):
        height, width = (height - kernel + 1) // 2, (width - kernel + 1) // 2
        if min(height, width) < 1:
            raise UserMistake(
                f"model.kernel is {kernel}, but {tuple(shape[:2])} images are used up by convolution {depth + 1} of "
                f"{len(channels)}; take a smaller kernel or fewer channels"
            )
        sizes.append((height, width))
    return sizes


def dense_layer(key: Key, fan_in: int, fan_out: int) -> Params:
    """Weights on the scale of He et al. 2015, and a bias of zeros."""
    weight = jax.nn.initializers.he_normal()(key, (fan_in, fan_out))
    return {"weight": weight, "bias": jnp.zeros(fan_out)}


def _kernels(key: Key, size: int, fan_in: int, fan_out: int) -> Params:
    scale = jax.nn.initializers.variance_scaling(2.0, "fan_in", "truncated_normal", in_axis=(1, 2, 3), out_axis=0)
    return {"weight": scale(key, (fan_out, size, size, fan_in)), "bias": jnp.zeros(fan_out)}


def _drop(x: jax.Array, rate: float, key: Key | None) -> jax.Array:
    if key is None or rate == 0:
        return x
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)


def _size(shape: Sequence[int]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size
