"""Small models of sequences: for every token, logits of the one that comes next.

`apply(params, tokens, key)` takes whole numbers (batch, length) and gives (batch, length, vocabulary); what it says of
a place depends on the tokens up to there and on none after it. The layer of the logits is the last, so that `private =
["last"]` keeps it on the client.
"""

from collections.abc import Callable
from typing import Annotated, TypeAlias

import jax
import jax.numpy as jnp
from annotated_types import Gt

from idiolect.contracts import Key, Params
from idiolect.errors import UserMistake
from idiolect.problems.models.networks import Model

MakeTokenModel: TypeAlias = Callable[[int, int], Model]  # (tokens that there are, length of a sequence)
_EPSILON = 1e-5  # of layer normalization


def gru(
    vocabulary: int,
    length: int,
    *,
    embedding: Annotated[int, Gt(0)] = 8,
    hidden: Annotated[int, Gt(0)] = 64,
    layers: Annotated[int, Gt(0)] = 1,
) -> Model:
    """Gated recurrent units over embedded tokens.

    K. Cho et al. Learning phrase representations using RNN encoder-decoder for statistical machine translation. 2014.
    As in PyTorch and cuDNN, the reset gate acts on the product U h, with a bias of its own, and not on h.

    Args:
        vocabulary: How many tokens there are.
        length: Of a sequence; any will do.
        embedding: Numbers that stand for a token.
        hidden: Of a layer's state.
        layers: One on top of the other.

    Returns:
        The model.

    Example:
        >>> import jax
        >>> from idiolect.problems.models import gru
        >>> jax.eval_shape(gru(30, 12).init, jax.random.key(0))["logits"]["weight"].shape
        (64, 30)
    """

    def init(key: Key) -> Params:
        first, last, *keys = jax.random.split(key, 2 + layers)
        widths = [embedding, *[hidden] * (layers - 1)]
        return {
            "embedding": {"weight": jax.random.normal(first, (vocabulary, embedding))},
            "layers": [_gates(k, width, hidden) for k, width in zip(keys, widths, strict=True)],
            "logits": _dense(last, hidden, vocabulary),
        }

    def apply(params: Params, tokens: jax.Array, key: Key | None = None) -> jax.Array:
        x = params["embedding"]["weight"][tokens]
        for layer in params["layers"]:
            x = _recur(layer, x)
        return x @ params["logits"]["weight"] + params["logits"]["bias"]

    return Model(init, apply)


def _gates(key: Key, width: int, hidden: int) -> Params:
    """Reset gate, update gate and candidate side by side; states are multiplied by orthogonal matrices at first."""
    inward, *within = jax.random.split(key, 4)
    squares = [jax.nn.initializers.orthogonal()(k, (hidden, hidden)) for k in within]
    return {
        "bias": jnp.zeros(3 * hidden),
        "input": jax.nn.initializers.lecun_normal()(inward, (width, 3 * hidden)),
        "state": jnp.concatenate(squares, axis=1),
        "state_bias": jnp.zeros(3 * hidden),
    }


def _recur(layer: Params, inputs: jax.Array) -> jax.Array:
    """The states of a layer, (batch, length, hidden), from what comes in."""
    prepared = inputs @ layer["input"] + layer["bias"]  # of all places at once

    def step(state: jax.Array, now: jax.Array) -> tuple[jax.Array, jax.Array]:
        held = state @ layer["state"] + layer["state_bias"]
        (a, b, c), (u, v, w) = jnp.split(now, 3, axis=-1), jnp.split(held, 3, axis=-1)
        reset, update = jax.nn.sigmoid(a + u), jax.nn.sigmoid(b + v)
        state = (1 - update) * jnp.tanh(c + reset * w) + update * state
        return state, state

    start = jnp.zeros((len(inputs), layer["state"].shape[0]), prepared.dtype)
    return jnp.moveaxis(jax.lax.scan(step, start, jnp.moveaxis(prepared, 1, 0))[1], 0, 1)


def transformer(
    vocabulary: int,
    length: int,
    *,
    width: Annotated[int, Gt(0)] = 32,
    heads: Annotated[int, Gt(0)] = 2,
    layers: Annotated[int, Gt(0)] = 2,
) -> Model:
    """Causal self-attention and dense layers, each after a normalization and added to what it was given.

    A. Vaswani et al. Attention is all you need. 2017, Sec. 3; with the normalization before each part, as in R. Xiong
    et al. On layer normalization in the transformer architecture. 2020, Fig. 1(b), with GELU, and with learned places.

    Args:
        vocabulary: How many tokens there are.
        length: The longest sequence.
        width: Numbers that stand for a token.
        heads: Of attention; they share the width.
        layers: One on top of the other.

    Returns:
        The model.

    Example:
        >>> import jax
        >>> from idiolect.problems.models import transformer
        >>> jax.eval_shape(transformer(30, 12).init, jax.random.key(0))["logits"]["weight"].shape
        (32, 30)
    """
    if width % heads:
        raise UserMistake(f"model.heads is {heads}, but must divide model.width, which is {width}")

    def init(key: Key) -> Params:
        first, second, last, *keys = jax.random.split(key, 3 + layers)
        return {
            "embedding": {
                "places": 0.1 * jax.random.normal(second, (length, width)),
                "weight": jax.random.normal(first, (vocabulary, width)),
            },
            "layers": [_block(k, width) for k in keys],
            "logits": {**_dense(last, width, vocabulary), "scale": jnp.ones(width), "shift": jnp.zeros(width)},
        }

    def apply(params: Params, tokens: jax.Array, key: Key | None = None) -> jax.Array:
        x = params["embedding"]["weight"][tokens] + params["embedding"]["places"][: tokens.shape[1]]
        for layer in params["layers"]:
            x = x + _attend(layer["attention"], _normalize(layer["attention"], x), heads)
            bent = jax.nn.gelu(_affine(layer["wide"], _normalize(layer["wide"], x)), approximate=False)
            x = x + _affine(layer["narrow"], bent)
        return _affine(params["logits"], _normalize(params["logits"], x))

    return Model(init, apply)


def _dense(key: Key, fan_in: int, fan_out: int) -> Params:
    return {"bias": jnp.zeros(fan_out), "weight": jax.nn.initializers.lecun_normal()(key, (fan_in, fan_out))}


def _block(key: Key, width: int) -> Params:
    keys, norm = jax.random.split(key, 4), {"scale": jnp.ones(width), "shift": jnp.zeros(width)}
    out = _dense(keys[1], width, width)
    return {
        "attention": {**_dense(keys[0], width, 3 * width), "out": out, **norm},
        "narrow": _dense(keys[3], 4 * width, width),
        "wide": {**_dense(keys[2], width, 4 * width), **norm},
    }


def _affine(layer: Params, x: jax.Array) -> jax.Array:
    return x @ layer["weight"] + layer["bias"]


def _normalize(layer: Params, x: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    variance = jnp.square(centred).mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + _EPSILON) * layer["scale"] + layer["shift"]


def _attend(layer: Params, x: jax.Array, heads: int) -> jax.Array:
    """Softmax of q k / sqrt(width of a head) over the places up to this one (Eq. (1) of Vaswani et al.)."""
    batch, length, width = x.shape
    cut = _affine(layer, x).reshape(batch, length, 3, heads, width // heads)
    q, k, v = (cut[:, :, part].swapaxes(1, 2) for part in range(3))  # (batch, heads, length, width of a head)
    scores = q @ k.swapaxes(-1, -2) / (width // heads) ** 0.5
    seen = jnp.tril(jnp.ones((length, length), bool))
    weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1)
    return _affine(layer["out"], (weights @ v).swapaxes(1, 2).reshape(batch, length, width))
