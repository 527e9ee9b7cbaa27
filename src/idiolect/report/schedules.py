"""The different timelines of a page, as pictures need them: who is active, how old things are, who works when."""

from typing import NamedTuple

import numpy as np

from idiolect.network.round_tables import Rounds, taken_in
from idiolect.network.timelines import NO_ROUND, Timeline, active_share, staleness
from idiolect.report.report_data import ReportData

_WINDOWS = 100  # of time, over which activity is averaged
_LOOKS = 40  # in each of them
_NAMED = 3  # algorithms that a schedule is named after, before the others are counted


class Stretch(NamedTuple):
    """What some clients do from a moment to another."""

    doing: str
    client: np.ndarray
    begin: np.ndarray
    end: np.ndarray


class Schedule(NamedTuple):
    """One timeline, and the algorithms that follow it."""

    name: str
    table: Timeline | Rounds

    @property
    def ages(self) -> np.ndarray:
        """How many versions of the model (between agents: rounds) came in between, for all that arrives."""
        if isinstance(self.table, Timeline):
            return staleness(self.table)[self.table.delivered]
        when = taken_in(self.table)
        return (when - self.table.sent)[when < self.table.length]

    def activity(self, horizon: float, clients: int) -> tuple[np.ndarray, np.ndarray]:
        """Times, and the share of all that take part that are active (awake) then."""
        if isinstance(self.table, Timeline):
            times = (np.arange(_WINDOWS * _LOOKS) + 0.5) * horizon / (_WINDOWS * _LOOKS)
            share = active_share(self.table, clients, times).reshape(_WINDOWS, _LOOKS)
            return times.reshape(_WINDOWS, _LOOKS).mean(axis=1), share.mean(axis=1)
        parts = np.array_split(self.table.awake.mean(axis=1), min(_WINDOWS, self.table.length))
        starts = np.cumsum([0, *(len(part) for part in parts[:-1])])
        return starts, np.array([part.mean() for part in parts])

    def stretches(self, most: int) -> tuple[list[Stretch], int]:
        """The first so many turns (or stretches awake), by what is done; and how many there are in all."""
        if isinstance(self.table, Timeline):
            return _turns(self.table, most), self.table.turns
        edges = np.diff(self.table.awake.astype(np.int8), axis=0, prepend=0, append=0)
        begins, ends = (np.argwhere(np.equal(edges.T, side)) for side in (1, -1))  # agent by agent, in order of time
        order = np.argsort(begins[:, 1], kind="stable")[:most]
        return [Stretch("awake", begins[order, 0], begins[order, 1], ends[order, 1])], len(begins)


def schedules(data: ReportData) -> list[Schedule]:
    """The different timelines of the first seed, named after the algorithms that follow them."""
    kinds: list[tuple[Timeline | Rounds, list[str]]] = []
    for label in data.labels:
        if label in data.tables:
            table = data.tables[label]
            followers = next((names for seen, names in kinds if _same(table, seen)), None)
            if followers is None:
                kinds.append((table, [label]))
            else:
                followers.append(label)
    return [Schedule(_name(table, labels), table) for table, labels in kinds]


def _same(one: Timeline | Rounds, other: Timeline | Rounds) -> bool:
    if isinstance(one, Timeline) and isinstance(other, Timeline):
        return np.array_equal(one.arrived, other.arrived) and np.array_equal(one.client, other.client)
    if isinstance(one, Rounds) and isinstance(other, Rounds):
        return np.array_equal(one.awake, other.awake) and np.array_equal(one.arrives, other.arrives)
    return False


def _name(table: Timeline | Rounds, labels: list[str]) -> str:
    more = len(labels) - _NAMED
    told = ", ".join(labels[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    if isinstance(table, Rounds):
        return f"without a server ({told})"
    return f"{'asynchronous' if (table.round == NO_ROUND).all() else 'synchronous'} ({told})"


def _turns(table: Timeline, most: int) -> list[Stretch]:
    """Downloads, computing, uploads that arrive, and those that do not."""
    client, offered, received, computed, arrived, delivered = (column[:most] for column in table[:6])
    parts = [
        Stretch("downloads", client, offered, received),
        Stretch("computes", client, received, computed),
        Stretch("uploads", client[delivered], computed[delivered], arrived[delivered]),
        Stretch("uploads in vain", client[~delivered], computed[~delivered], arrived[~delivered]),
    ]
    return [part for part in parts if (part.end > part.begin).any()]
