"""Every client's whole training loss f_i and its derivatives, from oracles that show random batches only.

Where f_i is a mean over rows, a shard of one row shows the loss on that row, whatever the key; so their mean is f_i
(dropout masks are drawn, one a row). Where it is not, f_i is estimated on some batches: a policy's return is over
episodes, of which there is no last one, and batch normalization makes a loss of whole batches.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from idiolect.contracts import Params, Problem, Scalar, Shard

_AT_ONCE = 16  # rows
_TASK = "task"  # the row that says what a client has to do, where a problem is learning to act


class LocalLosses(NamedTuple):
    """Means over the draws from `begin` to `end`, which are rows, or batches where f_i is no mean over rows."""

    gradient: Callable[[Params, Shard, Scalar, Scalar], Params]  # (params, data, begin, end)
    product: Callable[[Params, Params, Shard, Scalar, Scalar], Params]  # (params, vector, data, begin, end)
    by_row: bool
    at_once: int  # draws in one step of the loop


def acts(problem: Problem) -> bool:
    """Is this learning to act, where samples come from the policy?"""
    rows = problem.clients.train.rows
    return isinstance(rows, dict) and _TASK in rows


def local_losses(problem: Problem, batch_size: int) -> LocalLosses:
    """The derivatives, not yet compiled. Batches, where they are needed, have this size."""
    by_row = not acts(problem) and _calibrates_nothing(problem)
    at_once = _AT_ONCE if by_row else 1

    def loss(params: Params, shard: Shard, draw: Scalar) -> Scalar:
        key = jax.random.fold_in(jax.random.key(0), draw)
        if by_row:
            return problem.oracle(Shard(shard.rows, shard.start + draw, jnp.int32(1)), 1).value(params, key)
        return problem.oracle(shard, batch_size).value(params, key)

    def some(params: Params, shard: Shard, begin: Scalar, end: Scalar) -> Scalar:
        """The sum over the next few draws."""
        draws = begin + jnp.arange(at_once)
        values = jax.vmap(lambda draw: loss(params, shard, jnp.minimum(draw, end - 1)))(draws)
        return jnp.where(draws < end, values, 0).sum()

    def mean(part: Callable[[Scalar], Params], params: Params, begin: Scalar, end: Scalar) -> Params:
        def add(number: Scalar, total: Params) -> Params:
            return jax.tree.map(jnp.add, total, part(begin + number * at_once))

        zeros = jax.tree.map(jnp.zeros_like, params)
        total = jax.lax.fori_loop(0, (end - begin + at_once - 1) // at_once, add, zeros)
        return jax.tree.map(lambda leaf: leaf / (end - begin), total)

    def gradient(params: Params, shard: Shard, begin: Scalar, end: Scalar) -> Params:
        return mean(lambda first: jax.grad(some)(params, shard, first, end), params, begin, end)

    def product(params: Params, vector: Params, shard: Shard, begin: Scalar, end: Scalar) -> Params:
        def part(first: Scalar) -> Params:
            return jax.jvp(lambda w: jax.grad(some)(w, shard, first, end), (params,), (vector,))[1]

        return mean(part, params, begin, end)

    return LocalLosses(gradient, product, by_row, at_once)


def _calibrates_nothing(problem: Problem) -> bool:
    """Does the model know all it must of the data by itself, without the statistics of batches?"""
    shard, untouched = problem.clients.train.shard(0), []

    def look(params: Params) -> Params:
        ready = problem.calibrate(params, shard)
        untouched.append(ready is params)
        return ready

    jax.eval_shape(look, jax.eval_shape(problem.init, jax.random.key(0)))
    return untouched[0]
