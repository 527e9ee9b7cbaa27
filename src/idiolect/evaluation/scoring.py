"""Scoring of clients' models: which clients, on which data, after how many adaptation steps.

A client is scored on its test part (or its validation part, for choosing settings), and adapts on its adaptation part;
the two share no sample, and what adapts is never given what is scored. Three kinds of numbers come out: the model as
received (0 steps), the model after k plain gradient steps of all or some of its layers (the same budget for every
method), and the model after what the objective itself prescribes (`own`). A fourth is for whoever asks: the model as
received, mixed with its client's nearest neighbours (`neighbours`).
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import (
    Clients,
    Compressed,
    Key,
    Metric,
    Objective,
    Params,
    Problem,
    PyTree,
    Scalar,
    Shard,
    Split,
)
from idiolect.engines.learner import fine_tune
from idiolect.engines.snapshot import Snapshot
from idiolect.engines.workers import compile_for_clients
from idiolect.evaluation.neighbours import neighbour_score
from idiolect.evaluation.scores import Budget
from idiolect.quantization.layers import named_leaves
from idiolect.sharing import private_leaves

_CHUNK = 128  # rows scored at once, at most

Scorer = Callable[[Params, PyTree, Shard, Shard, Key], jax.Array]


def scorer(problem: Problem, objective: Objective, budget: Budget) -> Scorer:
    """One client's scores, a row per metric and a column per budget, as one compiled function."""
    return compile_for_clients(client_score(problem, objective, budget))


def client_score(problem: Problem, objective: Objective, budget: Budget) -> Scorer:
    """The same before it is compiled, for those who compile it into something larger.

    Only the problem's functions matter here, and of its clients how many rows they are scored on.
    """
    rows = _rows_at_once(scored_split(problem.clients, budget))

    def score(params: Params, own: PyTree, adapt: Shard, scored: Shard, key: Key) -> jax.Array:
        oracle = problem.oracle(adapt, budget.batch_size)

        def judge(model: Params) -> jax.Array:
            return mean_scores(problem.metrics, problem.calibrate(model, adapt), scored, rows)

        # Step k uses the same key whichever other numbers of steps are asked for.
        keys = jax.random.split(key, max(*budget.steps, 1))
        models = [objective.whole(own, params)]
        for done, steps in pairwise((0, *budget.steps)):
            models.append(fine_tune(oracle, models[-1], keys[done:steps], budget.step_size, tuned(models[-1])))
        models.append(objective.adapt(oracle, own, params, key).params)
        different, places = _different(models[1:])
        # One after the other, so that what judges them is compiled once.
        judged = jax.lax.map(judge, jax.tree.map(lambda *leaves: jnp.stack(leaves), *different)).T[:, places]
        if budget.neighbours is None or problem.classifier is None:
            return judged
        ready = problem.calibrate(models[0], adapt)
        told = neighbour_score(problem.classifier, ready, adapt, scored, budget.neighbours)
        return jnp.concatenate([judged, told.reshape(1, 1)], 1)

    def tuned(params: Params) -> frozenset[str] | None:
        return private_leaves(params, budget.tunes) if budget.tunes else None

    return score


def _different(models: list[Params]) -> tuple[list[Params], np.ndarray]:
    """The models without those that are the very same as an earlier one, and the place of each among them."""
    kinds: dict[tuple[int, ...], int] = {}
    places = [kinds.setdefault(tuple(map(id, jax.tree.leaves(model))), len(kinds)) for model in models]
    return [models[places.index(kind)] for kind in range(len(kinds))], np.array(places)


def scored_split(clients: Clients, budget: Budget) -> Split:
    """The part on which models are scored."""
    return clients.test if budget.split == "test" else clients.validation


Adapter = Callable[[Params, PyTree, Shard, Key], Compressed]


def adapter(problem: Problem, objective: Objective, budget: Budget) -> Adapter:
    """What a client does with the model it receives, as one compiled function."""

    def adapt(params: Params, own: PyTree, shard: Shard, key: Key) -> Compressed:
        model = objective.adapt(problem.oracle(shard, budget.batch_size), own, params, key)
        ready = problem.calibrate(model.params, shard)
        before, after = named_leaves(model.params), named_leaves(ready)
        # What was calibrated is no longer one of its levels, if it ever had any.
        return Compressed(ready, model.weights, {n: c for n, c in model.levels.items() if after[n] is before[n]})

    return compile_for_clients(adapt)


def own_model(adapt: Adapter, clients: Clients, snapshot: Snapshot, seed: int, client: int) -> Compressed:
    """The model that a client would use, the one whose scores are called `own`; with its levels, if it has any."""
    return adapt(snapshot.model(client), snapshot.own(client), clients.adapt.shard(client), adaptation_key(seed))


def _rows_at_once(split: Split) -> int:
    """Enough for the largest client, if that is not too many; a power of two, so that seeds agree on it."""
    return min(_CHUNK, 2 ** math.ceil(math.log2(max(int(split.sizes.max()), 1))))


def mean_scores(metrics: Sequence[Metric], params: Params, shard: Shard, chunk: int = _CHUNK) -> jax.Array:
    """Each metric's mean over all rows of a shard, in chunks of fixed size, so that one program serves all shards."""

    def add_chunk(number: Scalar, total: jax.Array) -> jax.Array:
        offset = number * chunk + jnp.arange(chunk)
        index = shard.start + jnp.minimum(offset, shard.size - 1)
        rows = jax.tree.map(lambda store: store[index][:, None], shard.rows)  # batches of one sample
        values = jax.vmap(lambda row: jnp.stack([metric.score(params, row) for metric in metrics], -1))(rows)
        return total + jnp.where(offset[:, None] < shard.size, values, 0).sum(0).astype(total.dtype)

    chunks = (shard.size + chunk - 1) // chunk
    return jax.lax.fori_loop(0, chunks, add_chunk, jnp.zeros(len(metrics), jnp.float32)) / shard.size


def adaptation_key(seed: int) -> Key:
    """The key with which everyone adapts: clients differ by their data, and their order cannot matter."""
    return jax.random.fold_in(jax.random.key(seed), 2)
