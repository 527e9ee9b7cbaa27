"""Directions of updates: how far one points the way of what other clients sent last.

Every client has one voice, the direction of its last update as a vector of length one, so that neither long updates nor
many of them turn the mean. A direction is kept in few numbers. Models of no more numbers than that are compared
exactly; of larger ones, numbers that share a place are added up with random signs (M. Charikar, K. Chen, M.
Farach-Colton. Finding frequent items in data streams. 2002), which changes a cosine by about 0.03.

Where all clients are alike, an honest update points the way of the others. Where they are not, it need not: at a fixed
point of FedAvg the updates add up to zero, and everybody points straight away from the sum of the others.
"""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from idiolect.contracts import Params, Scalar

KEPT = 1021  # numbers of a direction; a prime, so that the columns of no layer share places by a regular pattern
_ENOUGH = 5  # other clients, below which a mean says nothing


def direction(delta: Params, long: Scalar) -> jax.Array:
    """The direction of an update of this length, in few numbers; zero, if it has none."""
    flat = ravel_pytree(delta)[0].astype(jnp.float32)
    rows = -(-flat.size // KEPT)
    signs = jax.random.rademacher(jax.random.key(0), flat.shape, jnp.float32)
    unit = signs * flat / jnp.where(long > 0, long, 1.0)
    sums = jnp.pad(unit, (0, rows * KEPT - flat.size)).reshape(rows, KEPT).sum(0)
    return _of_length_one(sums)


def agreement(voices: jax.Array, counts: jax.Array, mine: jax.Array) -> Scalar:
    """The cosine between a direction and the mean of those voices that count; 1 while nothing can be said."""
    mean = _of_length_one(jnp.where(counts, 1.0, 0.0) @ voices)
    told = (counts.sum() >= _ENOUGH) & mean.any() & mine.any()
    return jnp.where(told, mean @ mine, 1.0)


def _of_length_one(vector: jax.Array) -> jax.Array:
    long = jnp.sqrt(vector @ vector)
    return vector / jnp.where(long > 0, long, 1.0)
