"""The pool of Ray actors of a run, and the backend on it for each of its cells.

An actor that dies is replaced, and its work redone. So is one that says nothing for too long, dead or not; whoever
takes its place is given twice as long, since it may only have been slow, and has everything to compile again. No wait
lasts longer than a moment, so that the run hears who asks it to stop.

A turn depends on nothing but what is sent along, so doing it again does no harm; and whoever asked for it takes its
result once. What clients keep stays with the server and travels with each turn: so a checkpoint has it, and no actor's
death can lose it.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

import jax
import numpy as np

from idiolect.contracts import Algorithm, Clients, Problem
from idiolect.engines.backend import LOOK_AHEAD, Job, Pending, dealt
from idiolect.engines.ray.actor import ActorSettings, TurnActor, leaves_of
from idiolect.engines.simulator.server_program import Program, Turn, training_key
from idiolect.errors import UserMistake

DEATHS = 8  # that one turn may cause or meet before the run gives up
LOOK = 0.5  # seconds of a wait, after which the run looks up
PATIENCE = 600.0  # seconds without an answer to a turn after which an actor is taken for dead; it may have to compile
DOUBLINGS = 3  # of that patience, with whoever takes the place of one that was silent
REMEMBERED = 4  # versions of the model that need not be sent anew


class ActorPool:
    """Actors that each hold the data of some clients."""

    def __init__(
        self,
        ray: Any,
        make: Callable[[], Callable[[str, int], tuple[Problem, Algorithm]]],
        *,
        count: int | None = None,
        naps: Mapping[int, float] = {},
        patience: float = PATIENCE,
    ) -> None:
        self.ray, self.patience = ray, patience
        self.count = count or max(1, int(ray.cluster_resources().get("CPU", 1)))
        compiled = getattr(jax.config, "jax_compilation_cache_dir", None)
        self._settings = [ActorSettings(make, k, self.count, compiled, naps) for k in range(self.count)]
        self._remote = ray.remote(TurnActor)
        self._actors = [self._started(settings) for settings in self._settings]
        self.replaced = 0

    def actor(self, number: int) -> Any:
        """The actor of this number."""
        return self._actors[number]

    def replace(self, number: int, dead: Any) -> None:
        """Put a new actor in the place of a dead one, unless that has been done."""
        if self._actors[number] is dead:
            self._kill(dead)  # it may only be out of reach, or asleep
            self._actors[number] = self._started(self._settings[number])
            self.replaced += 1

    def _started(self, settings: ActorSettings) -> Any:
        return self._remote.options(scheduling_strategy="SPREAD").remote(settings)

    def __enter__(self) -> "ActorPool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for actor in self._actors:  # whatever they are doing, nobody waits for it any more
            self._kill(actor)

    def _kill(self, actor: Any) -> None:
        with suppress(self.ray.exceptions.RayError):  # it is gone already, with its node
            self.ray.kill(actor)


class RayBackend:
    """The pool at work on one algorithm and one seed."""

    def __init__(self, pool: ActorPool, program: Program, clients: Clients, seed: int) -> None:
        self._pool, self._program, self._clients, self._seed = pool, program, clients, seed
        homes = dealt(clients.participating, pool.count)
        self.count, self.ahead = len(homes), LOOK_AHEAD * len(homes)
        self._homes = {client: number for number, members in enumerate(homes) for client in members}
        self._sent: dict[int, Any] = {}  # versions that lie in Ray's store
        self._structures: dict[Any, Any] = {}  # of what a turn returns, by that of what a client keeps

    def submit(self, job: Job) -> "RayPending":
        """Begin a turn where the client's data is."""
        message = (self._program.algorithm.name, self._seed, job.client, job.turn, leaves_of(job.personal))
        return RayPending(self._pool, self._homes[job.client], (*message, self._put(job)), self._structure(job))

    def ready(self, pending: Mapping[int, Pending], seconds: float) -> list[int]:
        """Which of these have come back; wait for the first of them, but no longer than this."""
        refs = {turn.ref: number for number, turn in pending.items() if isinstance(turn, RayPending)}
        found, silent = self._pool.ray.wait(list(refs), num_returns=1, timeout=seconds, fetch_local=True)
        for ref in silent:  # whoever has not answered for too long is replaced
            _wake(pending[refs[ref]])
        return [number for number in [refs[ref] for ref in found] if _came_back(pending[number])]

    def _put(self, job: Job) -> Any:
        """A version is put into Ray's store once, however many clients receive it."""
        if job.version not in self._sent:
            if len(self._sent) == REMEMBERED:
                del self._sent[next(iter(self._sent))]
            try:
                self._sent[job.version] = self._pool.ray.put(leaves_of(job.offer))
            except self._pool.ray.exceptions.RayError as reason:
                why = type(reason).__name__
                raise _failed(f"a model could not be put into Ray's store: {why}{advice(why)}") from None
        return self._sent[job.version]

    def _structure(self, job: Job) -> Any:
        kind = jax.tree.structure(job.personal)
        if kind not in self._structures:
            shard, key = self._clients.train.shard(job.client), training_key(self._seed)
            turn = jax.eval_shape(self._program.turn, job.personal, job.offer, shard, key, np.int32(0))
            self._structures[kind] = jax.tree.structure(turn)
        return self._structures[kind]


def _came_back(turn: Pending) -> bool:
    return isinstance(turn, RayPending) and turn.collect()


def _wake(turn: Pending) -> None:
    if isinstance(turn, RayPending) and turn.overdue:
        turn.collect()


class RayPending:
    """A turn under way on an actor."""

    def __init__(self, pool: ActorPool, number: int, message: tuple[Any, ...], structure: Any) -> None:
        self._pool, self._number, self._message, self._structure = pool, number, message, structure
        self._deaths, self._silences, self._leaves = 0, 0, list[np.ndarray]()
        self._send()

    @property
    def overdue(self) -> bool:
        """Has the actor been silent for too long?"""
        waited = time.monotonic() - self._asked
        return not self._leaves and waited > patience_after(self._silences, self._pool.patience)

    def done(self) -> bool:
        """Is it there? An actor that has died, or is silent, is replaced meanwhile."""
        return self.collect()

    def result(self) -> Turn:
        """What the client sends, once it is there."""
        while not self.collect():
            pass
        turn: Turn = jax.tree.unflatten(self._structure, self._leaves)
        return turn

    def collect(self) -> bool:
        """Wait a little for the answer; if the actor has died or is silent, send the work to one in its place."""
        if not self._leaves:
            errors = self._pool.ray.exceptions
            try:
                # Copies, or else what clients keep would fill Ray's store.
                self._leaves = [np.array(leaf) for leaf in self._pool.ray.get(self.ref, timeout=LOOK)]
            except errors.GetTimeoutError:
                if self.overdue:
                    self._silences += 1
                    self._again(f"no answer for {time.monotonic() - self._asked:.0f} s")
            except errors.RayTaskError as failure:
                raise failure.cause if isinstance(failure.cause, UserMistake) else failure from None
            except errors.RayError as death:  # of the actor, its worker, its node, or of what it had computed
                self._again(f"{type(death).__name__}: {(str(death).strip() or '?').splitlines()[0]}")
        return bool(self._leaves)

    def _send(self) -> None:
        self._actor, self._asked = self._pool.actor(self._number), time.monotonic()
        try:
            self.ref = self._actor.turn.remote(*self._message)
        except self._pool.ray.exceptions.RayError as reason:
            raise _failed(f"no turn could be sent to an actor: {type(reason).__name__}: {reason}") from None

    def _again(self, why: str) -> None:
        self._deaths += 1
        if self._deaths > DEATHS:
            raise _failed(
                f"{self._deaths} actors died over turn {self._message[3]} of client {self._message[2]}; "
                f"the last one said: {why}{advice(why)}"
            )
        self._pool.replace(self._number, self._actor)
        self._send()


def _failed(sentence: str) -> UserMistake:
    return UserMistake(f"--engine ray: {sentence.strip().splitlines()[0]}")


def patience_after(silences: int, patience: float) -> float:
    """How many seconds an actor may say nothing about a turn over which so many before it were silent."""
    return patience * 2 ** min(silences, DOUBLINGS)


def advice(why: str) -> str:
    """What may help against what Ray says; nothing where nobody knows."""
    hints = {
        "OutOfMemory": "the machine has no memory left: fewer --actors",
        "ObjectStoreFull": "Ray's store is full: start Ray with a larger --object-store-memory",
        "OutOfDisk": "Ray's disk is full: make room where it spills to",
        "NodeDied": "its machine is gone: look after the cluster, then resume",
        "no answer": "its machine may hang: look after the cluster, then resume",
    }
    return next((f" ({hint})" for name, hint in hints.items() if name in why), "")
