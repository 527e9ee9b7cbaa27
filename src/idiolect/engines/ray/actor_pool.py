"""The pool of Ray actors of a run, and how long whoever asks one of them waits.

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

from idiolect.engines.ray.actor import ActorSettings, CellMaker, TurnActor
from idiolect.errors import UserMistake

DEATHS = 8  # that a piece of work may cause or meet before the run gives up
LOOK = 0.5  # seconds of a wait, after which the run looks up
PATIENCE = 600.0  # seconds without an answer after which an actor is taken for dead; it may have to compile
DOUBLINGS = 3  # of that patience, with whoever takes the place of one that was silent


class ActorPool:
    """Actors that each hold the data of some clients."""

    def __init__(
        self,
        ray: Any,
        make: Callable[[], CellMaker],
        *,
        kind: type = TurnActor,
        count: int | None = None,
        naps: Mapping[int, float] = {},
        patience: float = PATIENCE,
    ) -> None:
        self.ray, self.patience = ray, patience
        self.count = count or max(1, int(ray.cluster_resources().get("CPU", 1)))
        compiled = getattr(jax.config, "jax_compilation_cache_dir", None)
        self._settings = [ActorSettings(make, k, self.count, compiled, naps) for k in range(self.count)]
        self._remote = ray.remote(kind)
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


class Patience:
    """The waiting for what one actor of a pool was asked to do; `over` says in words what that is."""

    def __init__(self, pool: ActorPool, number: int, over: str) -> None:
        self._pool, self._number, self._over = pool, number, over
        self._deaths, self._silences, self.again = 0, 0, False

    def begin(self) -> Any:
        """The actor to ask, from now on."""
        self._actor, self._asked, self.again = self._pool.actor(self._number), time.monotonic(), False
        return self._actor

    @property
    def overdue(self) -> bool:
        """Has the actor been silent for too long?"""
        return time.monotonic() - self._asked > patience_after(self._silences, self._pool.patience)

    def answer(self, ref: Any) -> Any:
        """Wait a little for the answer, which is None if there is none yet.

        If the actor has died or is silent, it is replaced, and `again` says that the new one must be asked.
        """
        errors = self._pool.ray.exceptions
        try:
            return self._pool.ray.get(ref, timeout=LOOK)
        except errors.GetTimeoutError:
            if self.overdue:
                self._silences += 1
                self._replace(f"no answer for {time.monotonic() - self._asked:.0f} s")
        except errors.RayTaskError as failure:
            raise failure.cause if isinstance(failure.cause, UserMistake) else failure from None
        except errors.RayError as death:  # of the actor, its worker, its node, or of what it had computed
            self._replace(said(death))
        return None

    def _replace(self, why: str) -> None:
        self._deaths, self.again = self._deaths + 1, True
        if self._deaths > DEATHS:
            raise too_many_deaths(self._deaths, self._over, why)
        self._pool.replace(self._number, self._actor)


def said(death: Exception) -> str:
    """What Ray says of a death, in a line."""
    return f"{type(death).__name__}: {(str(death).strip() or '?').splitlines()[0]}"


def too_many_deaths(deaths: int, over: str, why: str) -> UserMistake:
    """What to say when work kills whoever does it."""
    return _failed(f"{deaths} actors died {over}; the last one said: {why}{advice(why)}")


def failed_put(reason: Exception) -> UserMistake:
    """What to say when Ray's store takes nothing."""
    why = type(reason).__name__
    return _failed(f"a model could not be put into Ray's store: {why}{advice(why)}")


def failed_send(reason: Exception) -> UserMistake:
    """What to say when Ray takes no message."""
    return _failed(f"no work could be sent to an actor: {said(reason)}")


def patience_after(silences: int, patience: float) -> float:
    """How many seconds an actor may say nothing about what it was asked, if so many before it were silent over it."""
    return patience * 2 ** min(silences, DOUBLINGS)


def _failed(sentence: str) -> UserMistake:
    return UserMistake(f"--engine ray: {sentence.strip().splitlines()[0]}")


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
