"""The Ray actor: it makes the experiment's problem, keeps the rows of its own clients, and computes their turns.

All that it holds can be made again from what it was created with, so an actor that takes the place of a dead one gives
the same results. What comes and goes are lists of arrays: the leaves of trees whose structure both sides know.
"""

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from idiolect.contracts import Algorithm, Clients, Problem, PyTree, Split
from idiolect.engines.backend import dealt
from idiolect.engines.simulator.server_program import Program, prepare, training_key

Leaves = list[np.ndarray]


class ActorSettings(NamedTuple):
    """What an actor is created with: how to make an experiment's parts, and which of how many actors it is."""

    make: Callable[[], Callable[[str, int], tuple[Problem, Algorithm]]]  # for a label and a seed
    number: int
    among: int
    compiled: str | None = None  # where compiled programs are kept
    naps: Mapping[int, float] = {}  # seconds by which some clients are slower than they need be


class _Known(NamedTuple):
    """An algorithm that was compiled here, and how its trees are built: of an offer, and of what each client keeps."""

    program: Program
    offer: Any
    personal: dict[int, Any]


class TurnActor:
    """Where the turns of some clients are computed. It never keeps more than the rows of one seed."""

    def __init__(self, settings: ActorSettings) -> None:
        if settings.compiled is not None:
            jax.config.update("jax_compilation_cache_dir", settings.compiled)  # type: ignore[no-untyped-call]
        self._settings, self._make = settings, settings.make()
        self._known: dict[str, _Known] = {}
        self._rows: dict[int, Split] = {}

    def process(self) -> int:
        """The process that this is."""
        return os.getpid()

    def turn(self, label: str, seed: int, client: int, number: int, personal: Leaves, offer: Leaves) -> Leaves:
        """One turn of one client under the algorithm of this label: `Program.turn` on leaves."""
        if label not in self._known or seed not in self._rows:
            self._build(label, seed)
        program, structure, kept = self._known[label]
        received = jax.tree.unflatten(structure, offer)
        if client not in kept:
            kept[client] = jax.tree.structure(program.work.init(received, client, jax.random.key(seed)))
        before, shard = jax.tree.unflatten(kept[client], personal), self._rows[seed].shard(client)
        turn = program.turn(before, received, shard, training_key(seed), np.int32(number))
        if number >= 0:
            time.sleep(self._settings.naps.get(client, 0.0))
        return leaves_of(turn)

    def _build(self, label: str, seed: int) -> None:
        problem, algorithm = self._make(label, seed)
        own = dealt(problem.clients.participating, self._settings.among)[self._settings.number]
        self._rows = {seed: only(problem.clients.train, own)}
        if label not in self._known:
            program = prepare(_without_data(problem), algorithm)
            server = program.protocol.server
            offer = server.offer(server.init(program.init(jax.random.key(seed)), 1))
            self._known[label] = _Known(program, jax.tree.structure(offer), {})


def leaves_of(tree: PyTree) -> Leaves:
    """What of a tree travels."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def only(split: Split, clients: list[int]) -> Split:
    """The split with the rows of these clients and no others."""
    sizes, starts = np.zeros_like(split.sizes), np.zeros_like(split.starts)
    sizes[clients] = split.sizes[clients]
    starts[clients] = np.cumsum(sizes[clients]) - sizes[clients]
    rows = np.concatenate([np.arange(split.starts[k], split.starts[k] + split.sizes[k]) for k in clients])
    return Split(jax.tree.map(lambda leaf: leaf[rows], split.rows), starts, sizes)


def _without_data(problem: Problem) -> Problem:
    """Its functions, so that what is compiled from them keeps nobody's rows alive."""
    nothing = Split({}, np.zeros(0, np.int32), np.zeros(0, np.int32))
    nobody = Clients(nothing, nothing, nothing, nothing)
    return Problem(problem.name, problem.init, problem.oracle, problem.metric, nobody)
