"""Rounds with several models at the server: every client takes the one that is best on its own data.

A. Ghosh, J. Chung, D. Yin, K. Ramchandran. An efficient framework for clustered federated learning (IFCA). 2020,
Algorithm 1, option II (model averaging).

| IFCA, Alg. 1 | code |
| --- | --- |
| broadcast theta_1, …, theta_k to the clients of the round | `offer` |
| j = argmin over theta_j of F_i(theta_j) | `choose` |
| local steps from theta_j, send the model and j | `turn` |
| option II: theta_j <- the average over the clients that chose j | `close` |

Deviations: F_i is estimated on as many batches as a turn has local steps, the same ones for all models. Differences are
averaged, which is the same thing. The first models are the run's first one and others at a distance (`spread`) from it,
where the paper draws each by itself: many a model begins with zeros, which no draw sets apart. Whoever wants one model
(`read`) gets the one that most clients chose in the last round. A client's model is chosen again when it is asked for,
on its adaptation part; so are those of clients that never had a turn.

Laws: `ifca(models=1)` is `synchronous`.
"""

from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Le

from idiolect.contracts import (
    Info,
    Key,
    Learner,
    Params,
    Protocol,
    PyTree,
    Scalar,
    Schedule,
    Server,
    Shard,
    Upload,
    Work,
)
from idiolect.trees import in_types_of


class Grouped(NamedTuple):
    """What stays on a client: which model it chose, and what its objective calls its own."""

    group: Scalar
    own: PyTree


class GroupedRound(NamedTuple):
    """The models, row by row; the sums of what has arrived for each, of how many; and how many chose each last."""

    models: Params
    totals: Params
    arrived: jax.Array
    chosen: jax.Array


def ifca(
    *,
    models: Annotated[int, Ge(1)] = 2,
    participation: Annotated[float, Gt(0), Le(1)] = 1.0,
    beta: Annotated[float, Gt(0)] = 1.0,
    spread: Annotated[float, Gt(0)] = 0.5,
) -> Protocol:
    """Learn several models, each by those clients whose loss it is lowest on.

    Args:
        models: k, how many.
        participation: The fraction of the clients that works in a round.
        beta: The server's step.
        spread: How far apart the models are at first, in units of the first model's root mean square (of 1, if it is
            all zeros).

    Returns:
        The protocol.

    Example:
        >>> from idiolect.protocols import ifca
        >>> ifca(models=3).schedule.rounds
        True
    """

    def init(params: Params, clients: int) -> GroupedRound:
        rows = _set_apart(params, models, spread)
        counts = jnp.zeros(models, jnp.float32)
        return GroupedRound(rows, optax.tree.zeros_like(rows), counts, counts)

    def absorb(state: GroupedRound, upload: Upload, staleness: Scalar) -> GroupedRound:
        totals = jax.tree.map(lambda sums, leaf: sums.at[upload.about].add(leaf), state.totals, upload.delta)
        return state._replace(totals=totals, arrived=state.arrived.at[upload.about].add(1))

    def close(state: GroupedRound) -> GroupedRound:
        share = -beta / jnp.maximum(state.arrived, 1)
        moves = jax.tree.map(lambda sums: share.reshape(-1, *[1] * (sums.ndim - 1)) * sums, state.totals)
        rows = in_types_of(optax.tree.add(state.models, moves), state.models)  # Alg. 1, option II
        chosen = jnp.where(state.arrived.sum() > 0, state.arrived, state.chosen)
        return GroupedRound(rows, optax.tree.zeros_like(rows), jnp.zeros_like(chosen), chosen)

    def read(state: GroupedRound) -> Params:
        return _row(state.models, jnp.argmax(state.chosen))

    server = Server(init, lambda state: state.models, absorb, close, read)
    schedule = Schedule(rounds=True, participation=participation)
    return Protocol(server, _take_the_best, schedule, sends=lambda offer: _row(offer, 0))


def _take_the_best(learner: Learner) -> Work:
    def init(offer: Params, client: int, key: Key) -> Grouped:
        return Grouped(jnp.int32(0), learner.begin(_row(offer, 0), client, key))

    def choose(personal: Grouped, offer: Params, shard: Shard, key: Key) -> Grouped:
        def cost(model: Params) -> Scalar:
            def told(state: PyTree, batch: Key) -> tuple[PyTree, Info]:
                return state, {"value": learner.value(personal.own, model, shard, batch)}

            return learner.fold(told, (), shard, key)[1]["value"].mean()

        return personal._replace(group=jnp.argmin(jax.lax.map(cost, offer)).astype(jnp.int32))  # Alg. 1, the argmin

    def turn(personal: Grouped, offer: Params, shard: Shard, key: Key) -> tuple[Grouped, Upload, Info]:
        choosing, descent = jax.random.split(key)
        group = choose(personal, offer, shard, choosing).group
        start = _row(offer, group)
        own, reached, info = learner.descend(personal.own, start, None, shard, descent)  # Alg. 1, the local steps
        return Grouped(group, own), Upload(optax.tree.sub(start, reached), shard.size, group), info

    def model(personal: Grouped, offer: Params) -> Params:
        return _row(offer, personal.group)

    return Work(init, turn, model, lambda personal: personal.own, choose)


@jax.jit  # outside of compiled code, every leaf would be compiled by itself
def _row(rows: Params, place: Scalar | int) -> Params:
    return jax.tree.map(lambda leaf: leaf[place], rows)


@partial(jax.jit, static_argnums=1)
def _set_apart(params: Params, models: int, spread: float) -> Params:
    """The model, and others at some distance from it; the same ones whenever they are made from the same model."""
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    typical = optax.tree.norm(params) / size**0.5
    scale = spread * jnp.where(typical > 0, typical, 1)
    leaves, structure = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(0), len(leaves))
    noise = [jax.random.normal(key, (models, *leaf.shape)) for key, leaf in zip(keys, leaves, strict=True)]
    rows = [(leaf + scale * move.at[0].set(0)).astype(leaf.dtype) for leaf, move in zip(leaves, noise, strict=True)]
    found: Params = jax.tree.unflatten(structure, rows)
    return found
