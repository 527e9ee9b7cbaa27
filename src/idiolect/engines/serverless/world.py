"""What a serverless run is made of, laid out for a compiled program: what is fixed before it, and what changes."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Algorithm, Clients, Info, Message, Params, PyTree
from idiolect.engines.program import training_key
from idiolect.network.rounds import NOTHING, Rounds, accumulated, ages


class Lane(NamedTuple):
    """One seed of a run: who holds what, and what the network does."""

    clients: Clients
    table: Rounds
    seed: int


class World(NamedTuple):
    """What is fixed before learning: the graph, who wakes, what arrives, the step sizes, the data, the randomness.

    Seeds that run side by side are parts of one network that have no links between them: agents, links and rows of the
    second lane follow those of the first.
    """

    sources: jax.Array  # of every link; the last link fills up the lists below, and leads to nobody
    targets: jax.Array
    degrees: jax.Array
    awake: jax.Array  # rounds x agents
    step_sizes: jax.Array  # rounds x agents
    links: jax.Array  # rounds x slots x messages: over which links they come, at most one over each in a slot
    ages: jax.Array  # and how long ago they were sent
    rows: PyTree  # everybody's data, in one store
    starts: jax.Array  # of every agent's training part
    sizes: jax.Array
    keys: jax.Array  # of every lane


class State(NamedTuple):
    """All agents after some rounds."""

    nodes: PyTree  # of every agent
    memories: PyTree  # of every link, at its receiver
    spoken: Message  # a ring of rounds: what every agent had last sent by then
    descended: PyTree  # by every agent, in all
    totals: Info  # what every agent reported, added up over its wakings
    broken: jax.Array  # the round in which an agent's loss was not finite for the first time, or -1
    lowest: jax.Array  # every agent's smallest weight y so far


def build_world(algorithm: Algorithm, lanes: Sequence[Lane], params: Params, newest_only: bool) -> World:
    """The world of some lanes, for models of the same types as `params`."""
    graphs, offsets = [lane.table.graph for lane in lanes], _offsets([lane.table.graph.agents for lane in lanes])
    agents, kind = int(sum(graph.agents for graph in graphs)), jnp.result_type(*jax.tree.leaves(params))
    theta = [step_sizes(algorithm, graph.agents, lane.table.length) for graph, lane in zip(graphs, lanes, strict=True)]
    sizes = [accumulated(rule, lane.table.awake) for rule, lane in zip(theta, lanes, strict=True)]
    links, old = _arrivals(np.concatenate(_same_slots([ages(lane.table, newest_only) for lane in lanes]), axis=2))
    trains = [lane.clients.train for lane in lanes]
    everyone = [np.asarray(lane.clients.participating) for lane in lanes]
    stores = _offsets([len(jax.tree.leaves(train.rows)[0]) for train in trains])
    return World(
        sources=jnp.asarray(np.append(_joined([graph.sources for graph in graphs], offsets), 0)),
        targets=jnp.asarray(np.append(_joined([graph.targets for graph in graphs], offsets), agents)),
        degrees=jnp.asarray(np.concatenate([graph.out_degrees for graph in graphs])),
        awake=jnp.asarray(np.concatenate([lane.table.awake for lane in lanes], axis=1)),
        step_sizes=jnp.asarray(np.concatenate(sizes, axis=1), kind),
        links=jnp.asarray(links),
        ages=jnp.asarray(old),
        rows=jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *(train.rows for train in trains)),
        starts=jnp.asarray(_joined([t.starts[who] for t, who in zip(trains, everyone, strict=True)], stores)),
        sizes=jnp.asarray(np.concatenate([t.sizes[who] for t, who in zip(trains, everyone, strict=True)])),
        keys=jnp.stack([training_key(lane.seed) for lane in lanes]),
    )


def _offsets(lengths: list[int]) -> np.ndarray:
    return np.cumsum([0, *lengths[:-1]])


def _joined(parts: list[np.ndarray], offsets: np.ndarray) -> np.ndarray:
    return np.concatenate([part + offset for part, offset in zip(parts, offsets, strict=True)]).astype(np.int32)


def _same_slots(tables: list[np.ndarray]) -> list[np.ndarray]:
    most = max(table.shape[1] for table in tables)
    return [np.pad(t, ((0, 0), (0, most - t.shape[1]), (0, 0)), constant_values=NOTHING) for t in tables]


def _arrivals(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ages as rounds x slots x links, turned into lists of the messages that do come: their links, and their ages."""
    came, nowhere = table >= 0, table.shape[2]
    shape = (*table.shape[:2], int(came.sum(-1).max(initial=0)))
    links, old = np.full(shape, nowhere, np.int32), np.zeros(shape, table.dtype)
    when, slot, link = np.nonzero(came)
    first = np.append(True, (np.diff(when) != 0) | (np.diff(slot) != 0))[: len(when)]
    place = np.arange(len(when)) - np.maximum.accumulate(np.where(first, np.arange(len(when)), 0))
    links[when, slot, place], old[when, slot, place] = link, table[when, slot, link]
    return links, old


def step_sizes(algorithm: Algorithm, agents: int, rounds: int) -> np.ndarray:
    """theta(t) for every round (PARS-Push, Proposition 1 and Theorem 1)."""
    rule, scale = algorithm.step_rule, algorithm.step_size
    if rule.name == "decreasing":
        return scale / (np.arange(rounds) + rule.offset)
    return np.full(rounds, scale * np.sqrt(agents / rounds) if rule.name == "horizon" else scale)
