"""Timelines longer than memory: their columns lie in files without names, which are gone with the process.

The system reads what is looked at and forgets the rest as it needs room; to whoever has it, such a timeline is like any
other.
"""

import mmap
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from idiolect.errors import UserMistake
from idiolect.network.timelines import COLUMN_TYPES, Timeline

LARGE = 2**20  # turns; a timeline of more lies in files, while it is used and in a run's folder
BLOCK = 2**18  # turns that are looked at together


class MappedColumns:
    """Columns that grow part by part in files."""

    def __init__(self) -> None:
        with _room():
            self._files = [tempfile.TemporaryFile() for _ in COLUMN_TYPES]  # noqa: SIM115, they stay open
        self.turns = 0

    def append(self, part: Timeline) -> None:
        """Write some more turns."""
        with _room():
            for file, column, kind in zip(self._files, part, COLUMN_TYPES, strict=True):
                file.write(np.ascontiguousarray(column, kind).data)
        self.turns += part.turns

    def timeline(self) -> Timeline:
        """All that was written so far; there must be something."""
        return Timeline(*map(self._mapped, range(len(self._files))))

    def _mapped(self, number: int) -> np.ndarray:
        file = self._files[number]
        with _room():
            file.flush()
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, COLUMN_TYPES[number], self.turns)


@contextmanager
def _room() -> Iterator[None]:
    """A full disk is one sentence."""
    try:
        yield
    except OSError as reason:
        raise UserMistake(
            f"{tempfile.gettempdir()} cannot hold a timeline of more than {LARGE:,} turns: "
            f"{reason.strerror or reason}; make room there, or name another folder in TMPDIR"
        ) from None


def joined(parts: Iterable[Timeline], large: int = LARGE) -> Timeline | None:
    """Parts that follow each other as one timeline: in memory or, if there are more turns, in files; None if none."""
    near, turns, far = list[Timeline](), 0, None
    for part in parts:
        turns += part.turns
        if far is None and turns > large:
            far = MappedColumns()
            for earlier in near:
                far.append(earlier)
            near = []
        if far is not None:
            far.append(part)
        elif part.turns:
            near.append(part)
    if far is not None:
        return far.timeline()
    return Timeline(*map(np.concatenate, zip(*near, strict=True))) if near else None


def blocks_of(table: Timeline, block: int = BLOCK) -> Iterator[Timeline]:
    """A timeline in parts of so many turns."""
    for begin in range(0, table.turns, block):
        yield Timeline(*(column[begin : begin + block] for column in table))


def in_order_of_offers(parts: Iterable[Timeline], block: int = BLOCK) -> Iterator[Timeline]:
    """Turns in any order as parts in the order of their offers, those of one moment as they came.

    No more than about two blocks (or one part) is in memory. Stretches of some parts are sorted and written; then every
    stretch gives what it has of one span of time after the other.
    """
    store, ends = MappedColumns(), [0]
    for stretch in _stretches(parts, block):
        order = np.argsort(stretch.offered, kind="stable")
        store.append(Timeline(*(column[order] for column in stretch)))
        ends.append(store.turns)
    if not store.turns:
        return
    table = store.timeline()
    begins, stops = np.array(ends[:-1]), np.array(ends[1:])
    for moment in _cuts(table.offered, begins, stops, block):
        places = [
            begin + int(np.searchsorted(table.offered[begin:stop], moment, side="left"))
            for begin, stop in zip(begins, stops, strict=True)
        ]
        here = [slice(begin, place) for begin, place in zip(begins, places, strict=True)]
        part = Timeline(*(np.concatenate([column[some] for some in here]) for column in table))
        order = np.argsort(part.offered, kind="stable")  # earlier stretches come first where offers coincide
        yield Timeline(*(column[order] for column in part))
        begins = np.array(places)


def _stretches(parts: Iterable[Timeline], block: int) -> Iterator[Timeline]:
    """Several small parts as one; a large one is not cut, since it is in memory anyway."""
    some, turns = list[Timeline](), 0
    for part in parts:
        some.append(part)
        turns += part.turns
        if turns >= block:
            yield Timeline(*map(np.concatenate, zip(*some, strict=True)))
            some, turns = [], 0
    if turns:
        yield Timeline(*map(np.concatenate, zip(*some, strict=True)))


def _cuts(offered: np.ndarray, begins: np.ndarray, stops: np.ndarray, block: int) -> list[float]:
    """Moments between which there are about so many offers, by a look at some of every stretch; the last is endless."""
    every = max(1, block // 64)
    looked = [offered[begin:stop][::every] for begin, stop in zip(begins, stops, strict=True)]
    marks = np.sort(np.concatenate(looked))[:: max(1, block // every)]
    return [*np.unique(marks[1:]).tolist(), np.inf]
