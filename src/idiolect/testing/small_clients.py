"""Small clients on which a law shows in seconds: three exact losses, and quadratics whose noise comes from the key."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from idiolect.contracts import Key, Oracle, Params, Problem, Scalar, Shard
from idiolect.problems.synthetic import quadratics

N, D = 4, 3  # clients, and numbers of a model
START = np.array([0.5, -1.0, 2.0])


def exact(loss: Callable[[Any], Scalar]) -> Oracle:
    """An oracle that knows f_i itself: every key gives the same function."""
    return Oracle(
        value=lambda params, key: loss(params),
        gradient=lambda params, key: jax.value_and_grad(loss)(params),
        hessian_product=lambda params, vector, key: jax.jvp(jax.grad(loss), (params,), (vector,))[1],
    )


def quadratic() -> tuple[Oracle, Params]:
    """A vector, and a quadratic of it."""
    rng = np.random.default_rng(0)
    root = rng.standard_normal((4, 4)) / 2
    matrix, centre = jnp.asarray(root @ root.T + np.eye(4) / 2), jnp.asarray(rng.standard_normal(4))
    return exact(lambda w: 0.5 * (w - centre) @ matrix @ (w - centre)), jnp.asarray(rng.standard_normal(4))


def logistic() -> tuple[Oracle, Params]:
    """Weights and an offset by name, and a logistic regression."""
    rng = np.random.default_rng(1)
    inputs, labels = jnp.asarray(rng.standard_normal((30, 3))), jnp.asarray(rng.integers(0, 2, 30).astype(float))

    def loss(params: dict[str, jax.Array]) -> Scalar:
        logits = inputs @ params["w"] + params["b"]
        return optax.losses.sigmoid_binary_cross_entropy(logits, labels).mean() + 0.05 * params["w"] @ params["w"]

    return exact(loss), {"w": jnp.asarray(rng.standard_normal(3)), "b": jnp.asarray(np.array(0.3))}


def small_net() -> tuple[Oracle, Params]:
    """Two layers of matrices and offsets, and a loss that is not convex."""
    rng = np.random.default_rng(2)
    inputs, labels = jnp.asarray(rng.standard_normal((20, 3))), jnp.asarray(rng.integers(0, 3, 20))

    def loss(params: list[tuple[jax.Array, jax.Array]]) -> Scalar:
        (first, offset), (second, shift) = params
        logits = jnp.tanh(inputs @ first + offset) @ second + shift
        return optax.losses.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    sizes = [((3, 5), (5,)), ((5, 3), (3,))]
    return exact(loss), [tuple(jnp.asarray(rng.standard_normal(s)) * 0.7 for s in pair) for pair in sizes]


CLIENTS: dict[str, Callable[[], tuple[Oracle, Params]]] = {
    "quadratic": quadratic,
    "logistic": logistic,
    "small_net": small_net,
}


def a_direction(params: Params, seed: int) -> Params:
    """A random tree of the same shapes."""
    leaves, structure = jax.tree.flatten(params)
    rng = np.random.default_rng(seed)
    drawn = [jnp.asarray(rng.standard_normal(np.shape(leaf)), jnp.asarray(leaf).dtype) for leaf in leaves]
    return jax.tree.unflatten(structure, drawn)


def noisy_quadratics(noise: float, seed: int = 0, kind: type = np.float64) -> Problem:
    """Quadratics in these floats; a key moves the centre by up to `noise`.

    The noise comes straight from the key: a generator takes longer to compile than all the rest.
    """
    drawn = quadratics(clients=N, dimension=D, seed=seed)
    train = drawn.clients.train
    with jax.enable_x64(True):
        rows = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), kind), train.rows)

    def oracle(shard: Shard, batch_size: int) -> Oracle:
        matrix, centre = shard.rows["matrix"][shard.start], shard.rows["centre"][shard.start]

        def at(key: Key) -> Callable[[jax.Array], Scalar]:
            moved = centre + noise * (jax.random.key_data(key)[0] / np.float32(2**32)).astype(kind) if noise else centre
            return lambda w: 0.5 * (w - moved) @ matrix @ (w - moved)

        return Oracle(
            value=lambda params, key: at(key)(params),
            gradient=lambda params, key: jax.value_and_grad(at(key))(params),
            hessian_product=lambda params, vector, key: jax.jvp(jax.grad(at(key)), (params,), (vector,))[1],
        )

    clients = drawn.clients._replace(train=train._replace(rows=rows))
    return drawn._replace(init=lambda key: jnp.asarray(START.astype(kind)), oracle=oracle, clients=clients)
