"""The loop of local steps: a fixed number of them, or as many as passes over the client's rows come to.

Passes are counted in batches: `epochs` passes over n rows are ceil(epochs n / batch size) steps. Batches are drawn anew
for every step, as they always are, so that a pass is as many draws as there are rows and not each row once. The number
of a client's steps is computed as it works, so that one compiled program serves clients of all sizes and nobody waits
for the largest.
"""

from typing import Any

import jax
import jax.numpy as jnp

from idiolect.contracts import Algorithm, Info, Key, PyTree, Scalar, Shard
from idiolect.contracts.protocol import Step


def steps_on(algorithm: Algorithm, shard: Shard) -> Scalar | int:
    """How many local steps a turn on these rows has."""
    if algorithm.epochs is None:
        return algorithm.local_steps
    samples: Any = algorithm.epochs * jnp.asarray(shard.size, jnp.int32)
    return jnp.maximum(-(-samples // algorithm.batch_size), 1)


def fold_steps(
    algorithm: Algorithm, step: Step, state: PyTree, shard: Shard, key: Key, *, unroll: bool = False
) -> tuple[PyTree, Info]:
    """Take the steps of a turn; reports have an entry for each, or, where only rows tell how many, one for all."""
    if algorithm.epochs is None:
        keys = jax.random.split(key, algorithm.local_steps)
        found: tuple[PyTree, Info] = jax.lax.scan(step, state, keys, unroll=unroll)
        return found
    count, info = steps_on(algorithm, shard), jax.eval_shape(step, state, key)[1]

    def add(number: Scalar, carried: tuple[PyTree, Info]) -> tuple[PyTree, Info]:
        state, sums = carried
        state, told = step(state, jax.random.fold_in(key, number))
        return state, {name: sums[name] + value for name, value in told.items()}

    sums = {name: jnp.zeros(shape.shape, shape.dtype) for name, shape in info.items()}
    state, sums = jax.lax.fori_loop(0, count, add, (state, sums))
    return state, {name: (total / count)[None] for name, total in sums.items()}
