"""Deterministic clients for tests: f_i without noise, on a quadratic, a logistic regression and a small net."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from idiolect.contracts import Oracle


def exact(loss: Callable[[Any], jax.Array]) -> Oracle:
    """An oracle that knows f_i itself: every key gives the same function."""
    return Oracle(
        value=lambda params, key: loss(params),
        gradient=lambda params, key: jax.value_and_grad(loss)(params),
        hessian_product=lambda params, vector, key: jax.jvp(jax.grad(loss), (params,), (vector,))[1],
    )


def quadratic() -> tuple[Oracle, Any]:
    rng = np.random.default_rng(0)
    root = rng.standard_normal((4, 4)) / 2
    matrix, centre = jnp.asarray(root @ root.T + np.eye(4) / 2), jnp.asarray(rng.standard_normal(4))
    return exact(lambda w: 0.5 * (w - centre) @ matrix @ (w - centre)), jnp.asarray(rng.standard_normal(4))


def logistic() -> tuple[Oracle, Any]:
    rng = np.random.default_rng(1)
    inputs, labels = jnp.asarray(rng.standard_normal((30, 3))), jnp.asarray(rng.integers(0, 2, 30).astype(float))

    def loss(params: dict[str, jax.Array]) -> jax.Array:
        logits = inputs @ params["w"] + params["b"]
        return optax.losses.sigmoid_binary_cross_entropy(logits, labels).mean() + 0.05 * params["w"] @ params["w"]

    return exact(loss), {"w": jnp.asarray(rng.standard_normal(3)), "b": jnp.asarray(0.3)}


def small_net() -> tuple[Oracle, Any]:
    rng = np.random.default_rng(2)
    inputs, labels = jnp.asarray(rng.standard_normal((20, 3))), jnp.asarray(rng.integers(0, 3, 20))

    def loss(params: list[tuple[jax.Array, jax.Array]]) -> jax.Array:
        (first, offset), (second, shift) = params
        logits = jnp.tanh(inputs @ first + offset) @ second + shift
        return optax.losses.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    sizes = [((3, 5), (5,)), ((5, 3), (3,))]
    return exact(loss), [tuple(jnp.asarray(rng.standard_normal(s)) * 0.7 for s in pair) for pair in sizes]


CLIENTS = {"quadratic": quadratic, "logistic": logistic, "small_net": small_net}
