"""The Ray actor: it makes the experiment's problem, keeps the rows of its own clients, and computes their turns.

All that it holds can be made again from what it was created with, so an actor that takes the place of a dead one gives
the same results. What comes and goes are arrays: the leaves of trees whose structure both sides know.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Algorithm, Clients, Key, Problem, PyTree, Split
from idiolect.engines.backend import dealt
from idiolect.engines.ray.packed_arrays import Leaves, Packed, leaves_of, packed, unpacked
from idiolect.engines.simulator.server_program import Program, Turn, prepare, training_key

CellMaker: TypeAlias = Callable[[str, int], tuple[Problem, Algorithm]]  # for a label and a seed


class ActorSettings(NamedTuple):
    """What an actor is created with: how to make an experiment's parts, and which of how many actors it is."""

    make: Callable[[], CellMaker]
    number: int
    among: int
    compiled: str | None = None  # where compiled programs are kept
    naps: Mapping[int, float] = {}  # seconds by which some clients are slower than they need be


@dataclass(frozen=True, eq=False)
class Errand:
    """Turns that one actor is to compute: whose they are, and which of the models that were sent each was offered."""

    label: str
    seed: int
    clients: tuple[int, ...]
    numbers: tuple[int, ...]
    places: tuple[int, ...]
    sent: Packed  # what each client keeps, then the models, unless they are too large


class _Known(NamedTuple):
    """An algorithm that was compiled here, and how its trees are built: of an offer, and of what each client keeps."""

    program: Program
    offer: Any
    personal: dict[int, Any]


class TurnActor:
    """Where the turns of some clients are computed. It never keeps more than the rows of one seed."""

    def __init__(self, settings: ActorSettings) -> None:
        keep_compiled(settings)
        self._settings, self._make = settings, settings.make()
        self._known: dict[str, _Known] = {}
        self._rows: dict[int, tuple[Split, Key]] = {}

    def process(self) -> int:
        """The process that this is."""
        return os.getpid()

    def turns(self, errand: Errand, *stored: Packed) -> tuple[Packed, float]:
        """Some turns under an algorithm, one after the other: `Program.turn` on leaves, and the seconds they took.

        `stored` are models that clients were offered, too large to be sent along.
        """
        label, seed, clients = errand.label, errand.seed, errand.clients
        if label not in self._known or seed not in self._rows:
            self._build(label, seed)
        began = time.perf_counter()
        structure, kept = self._known[label].offer, unpacked(errand.sent)
        given = [*kept[len(clients) :], *(leaves for pack in stored for leaves in unpacked(pack))]
        offers = [jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in leaves]) for leaves in given]
        # The compiled turns are all under way before the first is asked for what came of it.
        found = [
            self._turn(label, seed, client, number, personal, offers[place])
            for client, number, place, personal in zip(clients, errand.numbers, errand.places, kept, strict=False)
        ]
        return packed([leaves_of(turn) for turn in found]), time.perf_counter() - began

    def _turn(self, label: str, seed: int, client: int, number: int, personal: Leaves, offer: PyTree) -> Turn:
        program, _, kept = self._known[label]
        rows, key = self._rows[seed]
        if client not in kept:
            kept[client] = jax.tree.structure(program.work.init(offer, client, jax.random.key(seed)))
        before = jax.tree.unflatten(kept[client], personal)
        turn = program.turn(before, offer, rows.shard(client), key, np.int32(number))
        if number >= 0:
            time.sleep(self._settings.naps.get(client, 0.0))
        return turn

    def _build(self, label: str, seed: int) -> None:
        problem, algorithm = self._make(label, seed)
        own = dealt(problem.clients.participating, self._settings.among)[self._settings.number]
        self._rows = {seed: (only(problem.clients.train, own), training_key(seed))}
        if label not in self._known:
            program = prepare(without_data(problem), algorithm)
            server = program.protocol.server
            offer = server.offer(server.init(program.init(jax.random.key(seed)), 1))
            self._known[label] = _Known(program, jax.tree.structure(offer), {})


def keep_compiled(settings: ActorSettings) -> None:
    """Compile into the folder that the run has for it, if it has one."""
    if settings.compiled is not None:
        jax.config.update("jax_compilation_cache_dir", settings.compiled)  # type: ignore[no-untyped-call]


def only(split: Split, clients: list[int]) -> Split:
    """The split with the rows of these clients and no others."""
    sizes, starts = np.zeros_like(split.sizes), np.zeros_like(split.starts)
    sizes[clients] = split.sizes[clients]
    starts[clients] = np.cumsum(sizes[clients]) - sizes[clients]
    rows = np.concatenate([np.arange(split.starts[k], split.starts[k] + split.sizes[k]) for k in clients])
    return Split(jax.tree.map(lambda leaf: jnp.asarray(leaf[rows]), split.rows), starts, sizes)


def without_data(problem: Problem) -> Problem:
    """Its functions, so that what is compiled from them keeps nobody's rows alive."""
    nothing = Split({}, np.zeros(0, np.int32), np.zeros(0, np.int32))
    nobody = Clients(nothing, nothing, nothing, nothing)
    return Problem(problem.name, problem.init, problem.oracle, problem.metric, nobody)
