"""Who works at a moment, and how old what arrives is, read off a timeline or a round table."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from idiolect.network.event_blocks import event_blocks
from idiolect.network.round_tables import Rounds
from idiolect.network.timelines import ARRIVAL, Timeline


class Ages(NamedTuple):
    """How old what arrived in some stretch of time was: by updates that came between, or by rounds without a server."""

    arrived: int
    mean: float
    oldest: int


def working(table: Timeline | Rounds, now: float) -> dict[str, list[int]]:
    """The clients that do something at a moment, by what they do.

    Args:
        table: Who works when.
        now: The moment; without a server, the round.

    Returns:
        Clients that download, compute and upload, in that order; without a server, those that are awake.

    Example:
        >>> from idiolect.network import timeline
        >>> from idiolect.network.at_work import working
        >>> working(timeline([0, 1], offered=[0.0, 0.0], arrived=[1.0, 5.0]), 2.0)
        {'uploads': [1]}
    """
    if isinstance(table, Rounds):
        here = np.flatnonzero(table.awake[int(now)]) if 0 <= now < table.length else np.zeros(0, int)
        found = {"is awake": here}
    else:
        stages = {
            "downloads": (table.offered, table.received),
            "computes": (table.received, table.computed),
            "uploads": (table.computed, table.arrived),
        }
        found = {name: table.client[(begin <= now) & (now < end)] for name, (begin, end) in stages.items()}
    return {name: np.unique(clients).tolist() for name, clients in found.items() if len(clients)}


class Arriving:
    """The ages of what arrives, by when it does. A message between agents has its age when it arrives."""

    def __init__(self, table: Timeline | Rounds) -> None:
        if isinstance(table, Rounds):  # in the order of arrival; there can be many millions
            self._when, sent = table.arrives, table.sent
            self._ages: Callable[[slice], np.ndarray] = lambda here: table.arrives[here] - sent[here]
        else:
            delivered = int(table.delivered.sum())
            self._when, ages, done = np.empty(delivered), np.empty(delivered, np.float32), 0
            for block in event_blocks(table._replace(delivered=table.delivered.astype(bool))):
                here = block.kind == ARRIVAL
                some = slice(done, done := done + int(here.sum()))
                self._when[some], ages[some] = block.time[here], block.age[here]
            self._ages = ages.__getitem__

    def between(self, begin: float, end: float) -> Ages | None:
        """Of what arrives after one moment and not after another; None if nothing does."""
        first, last = np.searchsorted(self._when, [begin, end], side="right")
        if first == last:
            return None
        ages = self._ages(slice(first, last))
        return Ages(int(last - first), float(ages.mean()), int(ages.max()))
