"""Scoring of a snapshot's clients: several in a call, and none again whose model has not changed since the last time.

The clients of a call are scored one after the other, by a loop around what scores one of them. What that saves is what
a call costs, which for small models is as much as the adaptation itself. Everybody adapts with the same key at every
point, so that a model that is the same gets the same scores.
"""

import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Clients, Key, Metric, Objective, Params, Problem, PyTree, Shard, Split
from idiolect.engines.snapshot import Snapshot
from idiolect.engines.workers import Workers, compile_for_clients
from idiolect.evaluation.scores import Budget, ClientScore, Group
from idiolect.evaluation.scoring import adaptation_key, client_score, scored_split
from idiolect.trees import bytes_of

AT_ONCE = 8  # clients in a call, at most
_ROOM = 2**25  # bytes of what the clients of a call have
_REMEMBERED = 10_000  # clients, whose scores are kept until the next point


class Scored(NamedTuple):
    """What the clients of a call have, and which rows they adapt to and are scored on."""

    models: Sequence[Params]
    own: Sequence[PyTree]
    adapt: Shard  # with a start and a size for each client
    scored: Shard


GroupScorer = Callable[[Scored, np.int32, Key], jax.Array]  # so many of them count; scores have a row for each


class Known(NamedTuple):
    """A client's scores, and the arrays that they are the scores of."""

    leaves: list[weakref.ref[jax.Array]]
    scores: np.ndarray


class Had(NamedTuple):
    """What a client has at a point."""

    client: int
    model: Params
    own: PyTree


def group_scorer(problem: Problem, objective: Objective, budget: Budget) -> GroupScorer:
    """The scores of several clients, as one compiled function."""
    one = client_score(problem, objective, budget)

    def score(group: Scored, count: np.int32, key: Key) -> jax.Array:
        if len(group.models) == 1:
            return one(group.models[0], group.own[0], _of(group.adapt, 0), _of(group.scored, 0), key)[None]
        stacked = [jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees) for trees in (group.models, group.own)]

        def scores(client: Any) -> jax.Array:
            model, own = (jax.tree.map(lambda leaf: leaf[client], tree) for tree in stacked)
            return one(model, own, _of(group.adapt, client), _of(group.scored, client), key)

        rows = jnp.zeros((len(group.models), len(problem.metrics), len(budget.columns)), jnp.float32)
        return jax.lax.fori_loop(0, count, lambda client, rows: rows.at[client].set(scores(client)), rows)

    return compile_for_clients(score)


def _of(shards: Shard, client: Any) -> Shard:
    starts, sizes = jnp.asarray(shards.start), jnp.asarray(shards.size)
    return Shard(shards.rows, starts[client], sizes[client])


def evaluate(
    score: GroupScorer,
    metrics: Sequence[Metric],
    clients: Clients,
    snapshot: Snapshot,
    budget: Budget,
    workers: Workers,
    *,
    seed: int,
    known: dict[int, Known] | None = None,
) -> list[ClientScore]:
    """Score a snapshot for every client to be scored; `known` has those of the last time, and is brought up to date."""
    scored, known = scored_split(clients, budget), {} if known is None else known
    chosen, columns, found = _chosen(clients, scored.sizes, budget, seed), budget.columns, []
    had = (Had(client, snapshot.model(client), snapshot.own(client)) for client, _ in chosen)
    rows = _scores(score, had, clients.adapt, scored, workers, adaptation_key(seed), known)
    for client, group in chosen:
        first, *others = [dict(zip(columns, row, strict=True)) for row in rows[client].astype(float).tolist()]
        also = {metric.name: row for metric, row in zip(metrics[1:], others, strict=True)}
        found.append(ClientScore(client, group, int(scored.sizes[client]), first, also))
    return found


def _scores(
    score: GroupScorer,
    had: Iterable[Had],
    adapt: Split,
    scored: Split,
    workers: Workers,
    key: Key,
    known: dict[int, Known],
) -> dict[int, np.ndarray]:
    """Everybody's scores, computed for those who have something new."""
    rows, refs, futures = dict[int, np.ndarray](), dict[int, list[weakref.ref[jax.Array]]](), []
    filling: dict[Hashable, list[Had]] = {}  # by what those of a call must have in common

    def begin(group: list[Had]) -> None:
        # A call that is not full is filled up with its first client, who is not scored again.
        places, models, owns = zip(*group, *[group[0]] * (_width(group[0]) - len(group)), strict=True)
        what = Scored(models, owns, _shards(adapt, places), _shards(scored, places))
        futures.append(([one.client for one in group], workers.submit(score, what, np.int32(len(group)), key)))

    for one in had:
        leaves, structure = jax.tree.flatten(one[1:])
        if one.client in known and _same(known[one.client].leaves, leaves):
            rows[one.client] = known[one.client].scores
            continue
        if len(refs) < _REMEMBERED and all(isinstance(leaf, jax.Array) for leaf in leaves):  # nobody can write to them
            refs[one.client] = [weakref.ref(leaf) for leaf in leaves]
        kind = structure, *((np.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
        filling.setdefault(kind, []).append(one)
        if len(filling[kind]) == _width(one):
            begin(filling.pop(kind))
    for group in filling.values():
        begin(group)
    for members, future in futures:
        rows.update(zip(members, np.asarray(future.result()), strict=False))
    known.update({client: Known(of, rows[client]) for client, of in refs.items()})
    return rows


def _width(one: Had) -> int:
    return int(np.clip(_ROOM // max(bytes_of(one[1:]), 1), 1, AT_ONCE))


def _shards(split: Split, places: Sequence[int]) -> Shard:
    starts: Any = split.starts[list(places)]
    sizes: Any = split.sizes[list(places)]
    return Shard(split.rows, starts, sizes)


def _same(known: list[weakref.ref[jax.Array]], leaves: list[Any]) -> bool:
    return len(known) == len(leaves) and all(ref() is leaf for ref, leaf in zip(known, leaves, strict=True))


def _chosen(clients: Clients, sizes: np.ndarray, budget: Budget, seed: int) -> list[tuple[int, Group]]:
    rng = np.random.default_rng(seed)
    chosen: list[tuple[int, Group]] = []
    unseen = np.zeros(clients.total, bool)
    unseen[list(clients.unseen)] = True
    groups: list[tuple[Group, np.ndarray]] = [("participating", ~unseen), ("unseen", unseen)]
    for group, belongs in groups:
        members = np.flatnonzero(belongs & (sizes > 0))
        if budget.at_most is not None and len(members) > budget.at_most:
            members = np.sort(rng.choice(members, size=budget.at_most, replace=False))
        chosen += [(client, group) for client in members.tolist()]
    return chosen
