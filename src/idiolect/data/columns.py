"""Columns of equal length by name, and where each of their rows stands, for sentences about them."""

import difflib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from idiolect.errors import UserMistake

_LISTED = 20  # columns that a sentence names, at most


class Part(NamedTuple):
    """Rows that come from one file, frame or data set, and where they stand in it."""

    where: str
    size: int
    lines: Sequence[int] | None = None  # of a text file; without them, rows are counted from 0
    names: Sequence[str] | None = None  # where each row is a file of its own

    def place(self, row: int) -> str:
        """Where a row stands, in the words of a sentence."""
        if self.names is not None:
            return self.names[row]
        return f"row {row} of {self.where}" if self.lines is None else f"line {self.lines[row]} of {self.where}"


class Columns(NamedTuple):
    """Columns by name, each with a row for every sample, and the parts that they were put together from.

    Args:
        values: Arrays whose first axis runs over rows; texts, lists and what may be missing are objects.
        parts: One after the other, in the order of the rows.
    """

    values: Mapping[str, np.ndarray]
    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """How many rows there are."""
        return sum(part.size for part in self.parts)

    @property
    def where(self) -> str:
        """What the columns come from."""
        more = len(self.parts) - 1
        return self.parts[0].where + (f" and {more} more" if more else "")

    def place(self, row: int) -> str:
        """Where a row stands, in the words of a sentence."""
        starts = [0, *accumulate(part.size for part in self.parts)]
        at = bisect_right(starts, row) - 1
        return self.parts[at].place(row - starts[at])

    def column(self, name: str, option: str) -> np.ndarray:
        """The column that an option names; a sentence if there is none."""
        if name not in self.values:
            close = difflib.get_close_matches(name, self.values, n=1, cutoff=0.5)
            guess = f" (did you mean '{close[0]}'?)" if close else ""
            raise UserMistake(
                f"{option} has '{name}', but {self.where} has no such column{guess}; it has {listed(self.values)}"
            )
        return self.values[name]


def listed(names: Mapping[str, object] | Sequence[str]) -> str:
    """Some names, for the end of a sentence."""
    shown = list(names)
    more = f" and {len(shown) - _LISTED} more" if len(shown) > _LISTED else ""
    return (", ".join(shown[:_LISTED]) or "none") + more


def joined(parts: Sequence[Columns]) -> Columns:
    """The rows of several sources one below the other; all must have the columns of the first."""
    first = parts[0]
    for other in parts[1:]:
        for name in first.values:
            if name not in other.values:
                raise UserMistake(
                    f"{other.where} has no column '{name}', which {first.where} has; it has {listed(other.values)}"
                )
    values = {name: _below([part.values[name] for part in parts]) for name in first.values}
    return Columns(values, tuple(piece for part in parts for piece in part.parts))


def _below(columns: Sequence[np.ndarray]) -> np.ndarray:
    """One column from several, which are objects unless all are numbers of one shape."""
    if len({(column.dtype.kind, column.shape[1:]) for column in columns}) == 1:
        return np.concatenate(columns)
    return as_objects([cell for column in columns for cell in column])


def as_objects(cells: Sequence[object]) -> np.ndarray:
    """A column of whatever there is, lists and arrays included, with one axis."""
    found = np.empty(len(cells), object)
    for place, cell in enumerate(cells):
        found[place] = cell
    return found
