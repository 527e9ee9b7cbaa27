"""Rounding weights to levels: hard, soft, and the distance between a weight and what it is rounded to.

K. Ozkara, N. Singh, D. Data, S. Diggavi. QuPeL. 2021, Sec. 2.

| QuPeL | code |
| --- | --- |
| Q_c(x), under (5) | `hard` |
| soft quantizer, Sec. 2.2 | `soft` |
| P -> infinity, Sec. 7.1: no gradient in x; in c_j, the sum over the weights that are rounded to it | `hard` |
| R(x, c) = min { ||z - x||_1 / 2 }, Sec. 7.1 | `distance` |

Levels are in increasing order; some may be equal. A weight halfway between two levels goes to the lower one. A
layer has one codebook, or one for each output (`quantization.channels`).
"""

import jax
import jax.numpy as jnp

from idiolect.contracts import Scalar
from idiolect.quantization.channels import by_codebook

_FEW = 16  # up to so many levels, comparing with each border is faster than a search and a gather


@by_codebook("weights")
def nearest(x: jax.Array, levels: jax.Array) -> jax.Array:
    """The index of the level that each weight is rounded to."""
    borders = _borders(levels)
    if len(levels) > _FEW:
        return jnp.searchsorted(borders, x, side="left").astype(jnp.int32)
    return (x[..., None] > borders).sum(-1, dtype=jnp.int32)


def hard(x: jax.Array, levels: jax.Array) -> jax.Array:
    """Q_c(x): every weight becomes the nearest level, exactly."""
    return put(x, levels, levels)


@by_codebook("weights")
def put(x: jax.Array, levels: jax.Array, values: jax.Array) -> jax.Array:
    """Where a weight is nearest to level j, `values[j]`; differentiable in the values alone."""
    borders = jax.lax.stop_gradient(_borders(levels))
    x = jax.lax.stop_gradient(x)
    if len(levels) > _FEW:
        return values[nearest(x, levels)]
    chosen = jnp.broadcast_to(values[0], x.shape)
    for border, value in zip(borders, values[1:], strict=True):
        chosen = jnp.where(x > border, value, chosen)
    return chosen


@by_codebook("weights")
def soft(x: jax.Array, levels: jax.Array, sharpness: float) -> jax.Array:
    """A staircase with smooth steps; the larger `sharpness` (P), the closer to `hard`."""
    rounded = jnp.broadcast_to(levels[0], x.shape)
    for border, rise in zip(_borders(levels), jnp.diff(levels), strict=True):
        rounded = rounded + rise * jax.nn.sigmoid(sharpness * (x - border))
    return rounded


def distance(x: jax.Array, levels: jax.Array) -> Scalar:
    """R(x, c): half the sum of how far the weights are from their levels."""
    return 0.5 * jnp.abs(x - hard(x, levels)).sum()


def _borders(levels: jax.Array) -> jax.Array:
    return (levels[1:] + levels[:-1]) / 2
