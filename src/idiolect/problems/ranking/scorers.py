"""Models that score the candidates of a list: `init(key) -> params`, `apply(params, features, mask) -> scores`.

The seminar names an MLP and an "MLP + CNN" and says no more of them. Features are (..., place, feature), the mask is
(..., place), scores are (..., place). What stands in a place without a candidate, even if it is not a number, changes
no score of a candidate and no derivative.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp

from idiolect.contracts import Key, Params
from idiolect.problems.models.networks import dense_layer


class Scorer(NamedTuple):
    """Parameters from a key, and one score per candidate from parameters, features and mask."""

    init: Callable[[Key], Params]
    apply: Callable[[Params, jax.Array, jax.Array], jax.Array]


def mlp_scorer(features: int, hidden: Sequence[int] = (32, 16)) -> Scorer:
    """Dense layers with ELU, on one candidate at a time: its score does not depend on the rest of the list."""
    widths = [features, *hidden, 1]

    def init(key: Key) -> Params:
        keys = jax.random.split(key, len(widths) - 1)
        return {"dense": [dense_layer(k, n, m) for k, (n, m) in zip(keys, pairwise(widths), strict=True)]}

    def apply(params: Params, features: jax.Array, mask: jax.Array) -> jax.Array:
        x = _bend(params["dense"][:-1], _present(features, mask))
        return _affine(params["dense"][-1], x)[..., 0]

    return Scorer(init, apply)


def mlp_cnn_scorer(features: int, hidden: Sequence[int] = (32, 16), kernel: int = 3) -> Scorer:
    """Dense layers on every candidate, a convolution along the list, and a score from what it sees.

    The convolution is as wide as the last hidden layer, and sees `kernel` (odd) neighbours in the order of the list.
    Beyond either end of a list it sees zeros, as many as it needs: how long the longest list is does not matter.
    """
    widths = [features, *hidden]

    def init(key: Key) -> Params:
        first, last, *keys = jax.random.split(key, len(widths) + 1)
        width = widths[-1]
        along = dense_layer(first, kernel * width, width)
        return {
            "dense": [dense_layer(k, n, m) for k, (n, m) in zip(keys, pairwise(widths), strict=True)],
            "convolution": {"weight": along["weight"].reshape(kernel, width, width), "bias": along["bias"]},
            "output": dense_layer(last, width, 1),
        }

    def apply(params: Params, features: jax.Array, mask: jax.Array) -> jax.Array:
        x = _present(_bend(params["dense"], _present(features, mask)), mask)
        x = jax.nn.elu(_along_list(x, params["convolution"]["weight"]) + params["convolution"]["bias"])
        return _affine(params["output"], x)[..., 0]

    return Scorer(init, apply)


def _along_list(x: jax.Array, weight: jax.Array) -> jax.Array:
    """A convolution along the last axis but one, as one matrix product: XLA's own is slow in loops on CPUs."""
    size, places = weight.shape[0], x.shape[-2]
    ends = [(0, 0)] * (x.ndim - 2) + [(size // 2, size // 2), (0, 0)]
    padded = jnp.pad(x, ends)
    windows = jnp.concatenate([padded[..., shift : shift + places, :] for shift in range(size)], axis=-1)
    return windows @ weight.reshape(-1, weight.shape[-1])


def _present(x: jax.Array, mask: jax.Array) -> jax.Array:
    return jnp.where(mask[..., None], x, 0)


def _bend(layers: Sequence[Params], x: jax.Array) -> jax.Array:
    for layer in layers:
        x = jax.nn.elu(_affine(layer, x))
    return x


def _affine(layer: Params, x: jax.Array) -> jax.Array:
    return x @ layer["weight"] + layer["bias"]
