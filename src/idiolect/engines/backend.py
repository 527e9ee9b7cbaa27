"""The backend interface, which computes the turns of clients, and the backend on threads of this process."""

from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import NamedTuple, Protocol

import numpy as np

from idiolect.contracts import Clients, PyTree
from idiolect.engines.simulator.server_program import Program, Turn, training_key
from idiolect.engines.workers import Workers

LOOK_AHEAD = 8  # turns computed ahead of need, per worker: enough to keep cores busy, little enough to hold in memory


class Job(NamedTuple):
    """A turn to compute: its number, whose it is, what the client has kept, and the version it was offered.

    The smaller `needed` is, the sooner its result is.
    """

    turn: int
    client: int
    personal: PyTree
    version: int
    offer: PyTree
    needed: float = 0.0


class Pending(Protocol):
    """A turn that is being computed."""

    def done(self) -> bool:
        """Is it there, or will it be within a moment?"""
        ...

    def result(self) -> Turn:
        """What the client sends, once it is there."""
        ...


class Backend(Protocol):
    """Those who compute turns, so many at a time, and how many they like to be given before the first is needed."""

    count: int
    ahead: int

    def submit(self, job: Job) -> Pending:
        """Begin a turn."""
        ...

    def ready(self, pending: Mapping[int, Pending], seconds: float) -> list[int]:
        """Which of these can be had at once; wait for the first of them, but no longer than this."""
        ...


class ThreadBackend:
    """The threads of this process, which see everybody's data."""

    def __init__(self, program: Program, clients: Clients, workers: Workers, seed: int) -> None:
        self.count, self.ahead = workers.count, LOOK_AHEAD * workers.count
        self._program, self._clients, self._workers, self._key = program, clients, workers, training_key(seed)

    def submit(self, job: Job) -> Future[Turn]:
        """Begin a turn."""
        shard = self._clients.train.shard(job.client)
        return self._workers.submit(self._program.turn, job.personal, job.offer, shard, self._key, np.int32(job.turn))

    def ready(self, pending: Mapping[int, Pending], seconds: float) -> list[int]:
        """Which of these are done; wait for the first of them, but no longer than this."""
        turns = {turn for turn in pending.values() if isinstance(turn, Future)}
        done = wait(turns, seconds, FIRST_COMPLETED).done
        return [number for number, turn in pending.items() if turn in done]


def dealt(clients: list[int], count: int) -> list[list[int]]:
    """Who works where: clients dealt to so many places, one after the other; no place stays empty."""
    return [clients[place::count] for place in range(min(count, len(clients)))]
