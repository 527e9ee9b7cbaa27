"""The recorder of a timeline while it happens, for a server with a real clock."""

import math
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from idiolect.network.timelines import NO_ROUND, Timeline, timeline

_COLUMNS = ("client", "offered", "arrived", "lost", "round")


class TimelineRecorder:
    """Who was offered the model when, and when what came of it arrived. Turns are numbered as they are offered."""

    def __init__(self) -> None:
        self.client: list[int] = []
        self.offered: list[float] = []
        self.arrived: list[float] = []  # infinity for those of which nothing has come
        self.lost: list[float] = []  # when a turn was given up; infinity for all others
        self.round: list[int] = []
        self._arrivals: list[float] = []  # in their order, which is that of time

    @property
    def under_way(self) -> list[int]:
        """The turns of which nothing has arrived, and that were not given up."""
        ends = zip(self.arrived, self.lost, strict=True)
        return [turn for turn, times in enumerate(ends) if min(times) == math.inf]

    def offer(self, client: int, time: float, round: int = NO_ROUND) -> int:
        """Begin a turn; its number."""
        self.client.append(client)
        self.offered.append(time)
        self.arrived.append(math.inf)
        self.lost.append(math.inf)
        self.round.append(round)
        return len(self.client) - 1

    def arrival(self, turn: int, time: float, updates_per_step: int) -> int:
        """End a turn; how many versions of the model came in between, as `timelines.staleness` says."""
        age = self.age(turn, updates_per_step)
        self.arrived[turn] = time
        self._arrivals.append(time)
        return age

    def age(self, turn: int, updates_per_step: int) -> int:
        """How many versions of the model have come since a turn was offered."""
        seen = bisect_right(self._arrivals, self.offered[turn])
        return len(self._arrivals) // updates_per_step - seen // updates_per_step

    def give_up(self, turn: int, time: float) -> None:
        """A turn is lost: nothing will come of it, and its client may be offered another."""
        self.lost[turn] = time

    def table(self, end: float, rounds: int | None = None) -> Timeline:
        """What happened until the end, to be replayed. What had not arrived by then never did.

        Where there are rounds, it ends with the last of so many that were closed.
        """
        kept = np.array(self.round) < (math.inf if rounds is None else rounds)
        columns = (self.client, self.offered, self.arrived, self.lost, self.round)
        client, offered, arrived, lost, rounds_of = (np.array(column)[kept] for column in columns)
        delivered = np.isfinite(arrived)
        arrived = np.where(delivered, arrived, np.minimum(lost, end))
        return timeline(client, offered, arrived, computed=arrived, delivered=delivered, round=rounds_of)

    def tensors(self) -> dict[str, np.ndarray]:
        """What was recorded, as arrays by name."""
        return {f"recorder.{name}": np.array(getattr(self, name), np.float64) for name in _COLUMNS}

    def restore(self, tensors: Mapping[str, np.ndarray]) -> None:
        """Go on from these arrays."""
        # A checkpoint of an earlier version knows nothing of lost turns, nor of rounds.
        turns = len(tensors["recorder.client"])
        unknown = {"lost": np.full(turns, math.inf), "round": np.full(turns, NO_ROUND)}
        columns = (tensors.get(f"recorder.{name}", unknown.get(name)) for name in _COLUMNS)
        client, self.offered, self.arrived, self.lost, rounds = (np.asarray(column).tolist() for column in columns)
        self.client, self.round = [int(number) for number in client], [int(number) for number in rounds]
        self._arrivals = sorted(time for time in self.arrived if time < math.inf)


class Clock:
    """Seconds since the start, less those for which it stood still. No two readings are the same."""

    def __init__(self, seconds: float = 0.0, read: Callable[[], float] = time.perf_counter) -> None:
        self._read, self._zero, self.last = read, read() - seconds, seconds

    def now(self) -> float:
        """The time, later than at the last reading."""
        self.last = max(self._read() - self._zero, math.nextafter(self.last, math.inf))
        return self.last

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """While this lasts, no time goes by."""
        began = self._read()
        try:
            yield
        finally:
            self._zero += self._read() - began
