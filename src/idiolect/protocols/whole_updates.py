"""How to combine whole updates some of which may be lies: their direction counts as well as their length.

K. Pillutla, S. M. Kakade, Z. Harchaoui. Robust aggregation for federated learning. 2022, Algorithm 2 (the smoothed
Weiszfeld algorithm, for the geometric median). S. P. Karimireddy, L. He, M. Jaggi. Learning from history for Byzantine
robust optimization. 2021, Algorithm 2 (centered clipping). P. Blanchard, E. M. El Mhamdi, R. Guerraoui, J. Stainer.
Machine learning with adversaries: Byzantine tolerant gradient descent. 2017, Section 4 (Krum) and 5 (Multi-Krum).

| paper | code |
| --- | --- |
| Pillutla et al., Alg. 2: weights 1 / max(nu, distance), R times | `geometric_median` |
| Karimireddy et al., Alg. 2: v + mean of (x_i - v) min(1, tau / |x_i - v|), L times | `centered_clipping` |
| Blanchard et al.: the sum of squared distances to the n - f - 2 closest; the n - f best ones are averaged | `krum` |

Deviations: updates of local steps are combined, where Krum and clipping have gradients; all count alike. Centered
clipping begins at the coordinate-wise median and not at the last step's result, since a buffer's clients change; its
radius tau is the median distance from there, as lengths of updates fall over a run. Where the n - f - 2 closest are
none, Krum takes one.

Laws: the order of the updates does not matter; equal updates give that update; where more than half of the updates are
alike, what comes out stays near them, whatever the others are.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from idiolect.contracts import Params, PyTree, Scalar

WHOLE = ("geometric_median", "centered_clipping", "krum")
WEISZFELD_STEPS = 8  # R; Pillutla et al. find 3 enough in most rounds
CLIPPING_STEPS = 3  # L
_SMOOTHING = 1e-6  # nu


def whole_combination(kind: str, liars: float) -> Callable[[PyTree, Scalar], Params]:
    """(rows, how many of them count) -> what they come to; nothing, if none counts. A share of `liars` may lie."""

    def combined(rows: PyTree, filled: Scalar) -> Params:
        table = jax.vmap(lambda row: ravel_pytree(row)[0])(rows)
        counts = jnp.arange(len(table)) < filled
        kinds: dict[str, Any] = {
            "geometric_median": geometric_median,
            "centered_clipping": centered_clipping,
            "krum": lambda table, counts: krum(table, counts, liars),
        }
        found = jnp.where(filled > 0, kinds[kind](jnp.where(counts[:, None], table, 0), counts), 0)
        return ravel_pytree(jax.tree.map(lambda leaf: leaf[0], rows))[1](found)

    return combined


def geometric_median(table: jax.Array, counts: jax.Array) -> jax.Array:
    """The point with the smallest sum of distances to the rows that count, nearly."""

    def step(_: Any, point: jax.Array) -> jax.Array:
        weights = jnp.where(counts, 1 / jnp.maximum(_SMOOTHING, _distances(table, point)), 0)  # Alg. 2, l. 3
        return weights @ table / jnp.maximum(weights.sum(), _SMOOTHING)  # l. 4

    return jax.lax.fori_loop(0, WEISZFELD_STEPS, step, _median(table, counts))


def centered_clipping(table: jax.Array, counts: jax.Array) -> jax.Array:
    """The mean of the rows that count, each drawn to within a radius of where most of them are."""
    start = _median(table, counts)
    radius = _median(_distances(table, start)[:, None], counts)[0]

    def step(_: Any, point: jax.Array) -> jax.Array:
        share = jnp.minimum(1, radius / jnp.maximum(_distances(table, point), _SMOOTHING))
        moves = jnp.where(counts, share, 0)[:, None] * (table - point)
        return point + moves.sum(0) / jnp.maximum(counts.sum(), 1)  # Alg. 2

    return jax.lax.fori_loop(0, CLIPPING_STEPS, step, start)


def krum(table: jax.Array, counts: jax.Array, liars: float) -> jax.Array:
    """The mean of the rows whose closest neighbours are closest, as many as are not taken for liars."""
    capacity, number = len(table), counts.sum()
    out = jnp.array([math.floor(liars * n + 1e-9) for n in range(capacity + 1)])[number]  # f
    squares = jax.vmap(lambda row: jnp.square(table - row).sum(1))(table)
    apart = jnp.where(counts[None] & counts[:, None] & ~jnp.eye(capacity, dtype=bool), squares, jnp.inf)
    closest = jnp.arange(capacity)[None] < jnp.maximum(number - out - 2, 1)
    near = jnp.sort(apart, axis=1)
    score = jnp.where(counts, jnp.where(closest & jnp.isfinite(near), near, 0).sum(1), jnp.inf)
    rank = jnp.argsort(jnp.argsort(score))
    chosen = counts & (rank < number - out)
    return jnp.where(chosen[:, None], table, 0).sum(0) / jnp.maximum(chosen.sum(), 1)


def _distances(table: jax.Array, point: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.square(table - point).sum(1))


def _median(table: jax.Array, counts: jax.Array) -> jax.Array:
    """In each column, the median of the rows that count; of an even number, between the two in the middle."""
    order, number = jnp.sort(jnp.where(counts[:, None], table, jnp.inf), axis=0), jnp.maximum(counts.sum(), 1)
    return (order[(number - 1) // 2] + order[number // 2]) / 2
