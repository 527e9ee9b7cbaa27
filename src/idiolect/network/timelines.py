"""Timelines, for runs with a server: which client worked when, and whether its update arrived.

A timeline is made before any learning and knows nothing of it. One row is one turn of one client: the server offers the
model, the client has received it, has finished its local steps, and its upload arrives (or not). Synchronous schedules
number their rounds; a round closes when its last upload has arrived. Plots of activity, staleness and who works when
need nothing but this table.
"""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from idiolect.errors import UserMistake
from idiolect.files import read_whole
from idiolect.network.timeline_checks import TurnChecks

ARRIVAL, CLOSE, OFFER = 0, 1, 2  # in the order in which they happen if they happen at the same time
NO_ROUND = -1
COMPRESSED = ".turns.npz"  # ends the name of a file of compressed columns; see `column_files`
_ROUNDS_AT_ONCE = 2**18  # turns


class Timeline(NamedTuple):
    """Columns, one entry a turn, in the order of the offers. Times are virtual; `round` is -1 where there are none.

    Args:
        client: Whose turn it is.
        offered: When the server offers the model.
        received: When the client has it.
        computed: When its local steps are done.
        arrived: When its upload arrives, or would have.
        delivered: Whether it does.
        round: Of a synchronous schedule.
    """

    client: np.ndarray
    offered: np.ndarray
    received: np.ndarray
    computed: np.ndarray
    arrived: np.ndarray
    delivered: np.ndarray
    round: np.ndarray

    @property
    def turns(self) -> int:
        """The number of rows."""
        return len(self.client)


class Event(NamedTuple):
    """Something the server notices. `turn` is a row of the timeline (of a round's last upload, for a close)."""

    time: float
    kind: int
    turn: int


UNWRITTEN = Timeline(*[np.zeros(0)] * 7)  # where the clock is real, and time will tell
COLUMN_TYPES = (np.int32, np.float64, np.float64, np.float64, np.float64, np.bool_, np.int32)


def timeline(
    client: list[int] | np.ndarray,
    offered: list[float] | np.ndarray,
    arrived: list[float] | np.ndarray,
    *,
    received: list[float] | np.ndarray | None = None,
    computed: list[float] | np.ndarray | None = None,
    delivered: list[bool] | np.ndarray | None = None,
    round: list[int] | np.ndarray | None = None,
) -> Timeline:
    """Make a timeline by hand: clients, and when each was offered the model and delivered its update.

    Args:
        client: Whose turn it is, one entry a turn.
        offered: When the client is offered the model, in increasing order.
        arrived: When its update arrives.
        received: When it has received the model; by default at once.
        computed: When it has computed; by default when its update arrives.
        delivered: Whether the update arrives at all; by default it does.
        round: The round of each turn, for protocols with rounds.

    Returns:
        The timeline, checked.

    Example:
        >>> import idiolect
        >>> idiolect.timeline([0, 1, 0], offered=[0.0, 0.0, 2.0], arrived=[1.0, 5.0, 3.0]).turns
        3
    """
    count = len(client)
    columns = (
        client,
        offered,
        offered if received is None else received,
        (offered if received is None else received) if computed is None else computed,
        arrived,
        np.ones(count, bool) if delivered is None else delivered,
        np.full(count, NO_ROUND) if round is None else round,
    )
    lengths = {name: len(column) for name, column in zip(Timeline._fields, columns, strict=True)}
    if len(set(lengths.values())) != 1:
        raise UserMistake(f"timeline columns have different lengths {lengths}; every turn needs an entry in each")
    typed = list(map(_typed, Timeline._fields, columns, COLUMN_TYPES))
    order = np.lexsort((np.arange(count), typed[1]))
    return _checked(Timeline(*(column[order] for column in typed)))


def _typed(name: str, column: Any, kind: Any) -> np.ndarray:
    """The column in its type, if that loses nothing."""
    values = np.asarray(column)
    try:
        typed: np.ndarray = np.asarray(column, kind)
    except OverflowError:
        largest = max(map(abs, column))
        raise UserMistake(f"timeline column {name} has {largest}, more than {np.dtype(kind)} can hold") from None
    if np.issubdtype(kind, np.integer) and not np.array_equal(values, typed):
        raise UserMistake(f"timeline column {name} has {values[values != typed][0]}, which is not a whole number")
    return typed


def events(table: Timeline) -> list[Event]:
    """Everything the server notices, in order: by time, then arrivals before closes before offers, then by row."""
    rows = np.arange(table.turns)
    kinds = [np.full(len(rows), OFFER), np.full(table.delivered.sum(), ARRIVAL)]
    times, turns = [table.offered, table.arrived[table.delivered]], [rows, rows[table.delivered]]
    closing = closing_turns(table)
    kinds.append(np.full(len(closing), CLOSE))
    times.append(table.arrived[closing])
    turns.append(closing)
    time, kind, turn = np.concatenate(times), np.concatenate(kinds), np.concatenate(turns)
    order = np.lexsort((turn, kind, time))
    return [Event(float(time[k]), int(kind[k]), int(turn[k])) for k in order]


def closing_turns(table: Timeline) -> np.ndarray:
    """The turn with which each round closes: its last upload, or the last it waited for in vain."""
    if not table.turns or int(table.round.max()) == NO_ROUND == int(table.round.min()):
        return np.zeros(0, np.int64)  # nothing to sort, however long the table is
    if (table.round[1:] < table.round[:-1]).any():
        return _last_of_rounds(table, 0, table.turns)
    found, begin = [], 0
    while begin < table.turns:  # rounds in order, as drawn ones are, need no more than a few at a time
        near = min(begin + _ROUNDS_AT_ONCE, table.turns) - 1
        end = int(np.searchsorted(table.round, table.round[near], side="right"))
        found.append(_last_of_rounds(table, begin, end))
        begin = end
    return np.concatenate(found)


def _last_of_rounds(table: Timeline, begin: int, end: int) -> np.ndarray:
    """Of each round, among these turns, the one that arrives last; of several at once, the last row."""
    rounds, arrived = table.round[begin:end], table.arrived[begin:end]
    order = np.lexsort((arrived, rounds))
    last = np.append(rounds[order][1:] != rounds[order][:-1], True)
    return begin + order[last & (rounds[order] != NO_ROUND)]


def staleness(table: Timeline, updates_per_step: int = 1) -> np.ndarray:
    """For every turn, how many versions of the model came between its offer and its arrival.

    With rounds a close makes a version; without them every `updates_per_step` arrivals do (FedBuff's K).

    Args:
        table: The timeline.
        updates_per_step: Arrivals that make a version, where there are no rounds.

    Returns:
        A number of versions for each turn.

    Example:
        >>> from idiolect.network import staleness, timeline
        >>> staleness(timeline([0, 1, 0], offered=[0.0, 0.0, 2.0], arrived=[1.0, 5.0, 3.0])).tolist()
        [0, 2, 0]
    """
    closing = closing_turns(table)
    if len(closing):
        stamps, per_version = np.sort(table.arrived[closing]), 1
    else:
        stamps, per_version = np.sort(table.arrived[table.delivered]), updates_per_step
    at_offer = np.searchsorted(stamps, table.offered, side="right") // per_version
    # Updates that arrive at one moment are absorbed row by row; `rank` finds a turn's own place among them.
    order = np.lexsort((np.arange(table.turns), table.arrived))
    rank = np.empty(table.turns, int)
    rank[order] = np.cumsum(table.delivered[order]) - table.delivered[order]
    before = rank if not len(closing) else np.searchsorted(stamps, table.arrived, side="left")
    return np.maximum(before // per_version - at_offer, 0)


def active_share(table: Timeline, clients: int, times: np.ndarray) -> np.ndarray:
    """The share of clients that download, compute or upload at each of these times (PersA-FL, Fig. 2a).

    Args:
        table: The timeline.
        clients: How many there are.
        times: At which the share is asked for.

    Returns:
        A share for each of the times.

    Example:
        >>> from idiolect.network import active_share, timeline
        >>> table = timeline([0, 1], offered=[0.0, 2.0], arrived=[3.0, 4.0])
        >>> active_share(table, clients=2, times=[1.0, 2.5, 5.0]).tolist()
        [0.5, 1.0, 0.0]
    """
    begun = np.searchsorted(np.sort(table.offered), times, side="right")
    ended = np.searchsorted(np.sort(table.arrived), times, side="right")
    return (begun - ended) / clients


def write_timeline(table: Timeline) -> str:
    """The table as CSV; numbers are written so that reading them back gives the same bits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Timeline._fields)
    writer.writerows(zip(*(column.tolist() for column in table), strict=True))
    return text.getvalue()


def read_timeline(path: Path) -> Timeline:
    """A table written by `write_timeline`, or by hand: `client`, `offered` and `arrived` are enough.

    Args:
        path: Of a CSV file, or of compressed columns as the folder of a run has them of a large timeline.

    Returns:
        The timeline, checked. A large one lies in files, and need not fit into memory.

    Example:
        >>> from idiolect.network import read_timeline, timeline
        >>> from idiolect.network.timelines import write_timeline
        >>> text = write_timeline(timeline([0, 1], offered=[0.0, 0.0], arrived=[1.0, 5.0]))
        >>> _ = (tmp / "mine.csv").write_text(text)
        >>> read_timeline(tmp / "mine.csv").turns
        2
    """
    if path.name.endswith(COMPRESSED):
        from idiolect.network.column_files import read_columns

        return read_columns(path)
    try:
        rows = list(csv.DictReader(read_whole(path, "timeline").decode("utf-8").splitlines()))
    except (UnicodeDecodeError, csv.Error) as reason:
        raise UserMistake(f"timeline {path} cannot be read: {reason}") from None
    found = set(rows[0]) if rows else set()
    if not {"client", "offered", "arrived"} <= found <= set(Timeline._fields):
        raise UserMistake(
            f"timeline {path} has the columns {sorted(map(str, found))}; it needs client, offered and arrived, and may "
            f"have {', '.join(sorted(set(Timeline._fields) - {'client', 'offered', 'arrived'}))}"
        )
    columns: dict[str, list[Any]] = {name: [] for name in found}
    for number, row in enumerate(rows):
        for name, column in columns.items():
            parse, wanted = _PARSERS[name]
            try:
                column.append(parse(row[name]))
            except (TypeError, ValueError, KeyError, AttributeError):
                raise UserMistake(f"timeline {path}, row {number}: {name} is '{row[name]}', not {wanted}") from None
    try:
        return timeline(**columns)
    except UserMistake as mistake:
        raise UserMistake(f"timeline {path}: {mistake}") from None


def _flag(text: str) -> bool:
    return {"true": True, "false": False, "1": True, "0": False}[text.strip().lower()]


_TIME, _NUMBER = (float, "a time"), (int, "a whole number")
_PARSERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "client": _NUMBER,
    "offered": _TIME,
    "received": _TIME,
    "computed": _TIME,
    "arrived": _TIME,
    "delivered": (_flag, "True or False"),
    "round": _NUMBER,
}


def _checked(table: Timeline) -> Timeline:
    if not table.turns:
        raise UserMistake("the timeline is empty: no client takes a turn before the horizon")
    TurnChecks().look_at(table)
    return table
