"""The recorder of a timeline while it happens, for a server with a real clock."""

import math
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from idiolect.network.timelines import Timeline, timeline

_COLUMNS = ("client", "offered", "arrived")


class TimelineRecorder:
    """Who was offered the model when, and when what came of it arrived. Turns are numbered as they are offered."""

    def __init__(self) -> None:
        self.client: list[int] = []
        self.offered: list[float] = []
        self.arrived: list[float] = []  # infinity for those under way
        self._arrivals: list[float] = []  # in their order, which is that of time

    @property
    def under_way(self) -> list[int]:
        """The turns of which nothing has arrived."""
        return [turn for turn, time in enumerate(self.arrived) if time == math.inf]

    def offer(self, client: int, time: float) -> int:
        """Begin a turn; its number."""
        self.client.append(client)
        self.offered.append(time)
        self.arrived.append(math.inf)
        return len(self.client) - 1

    def arrival(self, turn: int, time: float, updates_per_step: int) -> int:
        """End a turn; how many versions of the model came in between, as `timelines.staleness` says."""
        seen = bisect_right(self._arrivals, self.offered[turn])
        age = len(self._arrivals) // updates_per_step - seen // updates_per_step
        self.arrived[turn] = time
        self._arrivals.append(time)
        return age

    def table(self, end: float) -> Timeline:
        """What happened until the end, to be replayed. What had not arrived by then never did."""
        arrived = np.array(self.arrived)
        delivered = np.isfinite(arrived)
        arrived = np.where(delivered, arrived, end)
        return timeline(self.client, self.offered, arrived, computed=arrived, delivered=delivered)

    def tensors(self) -> dict[str, np.ndarray]:
        """What was recorded, as arrays by name."""
        return {f"recorder.{name}": np.array(getattr(self, name), np.float64) for name in _COLUMNS}

    def restore(self, tensors: Mapping[str, np.ndarray]) -> None:
        """Go on from these arrays."""
        client, self.offered, self.arrived = (tensors[f"recorder.{name}"].tolist() for name in _COLUMNS)
        self.client = [int(number) for number in client]
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
