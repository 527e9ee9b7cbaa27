"""The events of a timeline in blocks: what `timelines.events` and `timelines.staleness` say, without all of it at once.

A list of all events of a million clients would hold more than their data. Offers stand in the table in their order, and
whatever arrives was offered before; so a block needs some rows of the table, and the turns under way at its beginning.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from idiolect.network.timelines import ARRIVAL, CLOSE, OFFER, Timeline, closing_turns

BLOCK = 2**16  # offers at once


class EventBlock(NamedTuple):
    """Events in their order, a column each: time, kind and turn as an `Event` has them, and the age of what arrives."""

    time: np.ndarray
    kind: np.ndarray
    turn: np.ndarray
    age: np.ndarray  # versions that came between the offer and the arrival, in float32; 0 for offers and closes


class _UnderWay(NamedTuple):
    """Turns that were offered and will arrive, and the version that each was offered."""

    turns: np.ndarray
    versions: np.ndarray


def event_blocks(table: Timeline, updates_per_step: int = 1, block: int = BLOCK) -> Iterator[EventBlock]:
    """Everything the server notices, in order, in blocks of about so many offers.

    Args:
        table: The timeline; its columns may lie in a file.
        updates_per_step: Arrivals that make a version, where there are no rounds.
        block: How many offers to look at together. Offers of one moment stay together.

    Returns:
        An iterator over blocks. Joined, they are the same for any size.

    Example:
        >>> from idiolect.network import timeline
        >>> from idiolect.network.event_blocks import event_blocks
        >>> table = timeline([0, 1, 0], offered=[0.0, 0.0, 2.0], arrived=[1.0, 5.0, 3.0])
        >>> [block.turn.tolist() for block in event_blocks(table, block=2)]
        [[0, 1, 0], [2, 2, 1]]
    """
    closing = closing_turns(table)
    closing = closing[np.lexsort((closing, table.arrived[closing]))]
    closes, in_rounds = table.arrived[closing], len(closing) > 0
    begin, closed, arrived = 0, 0, 0
    under_way = _UnderWay(np.zeros(0, np.int64), np.zeros(0, np.int64))
    while begin < table.turns:
        end, until = _cut(table.offered, begin, block)
        offers = np.arange(begin, end)
        mine = np.concatenate([under_way.turns, offers[table.delivered[begin:end]]])
        now = table.arrived[mine] < until
        arrivals = mine[now]
        arrivals = arrivals[np.lexsort((arrivals, table.arrived[arrivals]))]
        closing_now = closing[closed : np.searchsorted(closes, until, side="left")]
        time, kind, turn = _in_order(table, arrivals, closing_now, offers)
        absorbed = arrived + _before(kind, ARRIVAL)
        versions = closed + _before(kind, CLOSE) if in_rounds else absorbed // updates_per_step
        offered = np.concatenate([under_way.versions, versions[kind == OFFER][table.delivered[begin:end]]])
        age = np.zeros(len(kind), np.float32)
        # Both are in the order of the turns' numbers, so that a search finds a turn's version.
        age[kind == ARRIVAL] = np.maximum(versions[kind == ARRIVAL] - offered[np.searchsorted(mine, arrivals)], 0)
        yield EventBlock(time, kind, turn, age)
        under_way = _UnderWay(mine[~now], offered[~now])
        begin, closed, arrived = end, closed + len(closing_now), arrived + len(arrivals)


def _cut(offered: np.ndarray, begin: int, block: int) -> tuple[int, float]:
    """Where a block that begins here ends, and the moment before which all of its events are."""
    end = begin + block
    if end < len(offered):  # offers of one moment wait for what arrives at it
        end = int(np.searchsorted(offered, offered[end], side="left"))
        if end <= begin:
            end = int(np.searchsorted(offered, offered[begin], side="right"))
    return (end, float(offered[end])) if end < len(offered) else (len(offered), np.inf)


def _in_order(
    table: Timeline, arrivals: np.ndarray, closing: np.ndarray, offers: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, kinds and turns: by time, then arrivals before closes before offers, then by row."""
    turn = np.concatenate([arrivals, closing, offers])
    time = np.concatenate([table.arrived[arrivals], table.arrived[closing], table.offered[offers[0] : offers[-1] + 1]])
    kind = np.repeat(np.array([ARRIVAL, CLOSE, OFFER], np.int8), [len(arrivals), len(closing), len(offers)])
    order = np.lexsort((turn, kind, time))
    return time[order], kind[order], turn[order]


def _before(kinds: np.ndarray, kind: int) -> np.ndarray:
    """How many events of a kind came before each."""
    these = kinds == kind
    return np.cumsum(these) - these
