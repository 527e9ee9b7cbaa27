"""What a page shows at one moment: sentences, tables and figures, as plain values. All text in it is plain text."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from idiolect.report.drawing import as_json, plain


class Table(NamedTuple):
    """Names of columns, and rows of texts."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class Figure(NamedTuple):
    """A figure as plotly has it; by its name a page knows it again."""

    name: str
    title: str
    caption: str
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]


class View(NamedTuple):
    """All that a page shows.

    Args:
        title: What is watched.
        state: In a word or two, such as `under way`.
        status: The same in a sentence.
        notes: Further sentences, such as what cannot be read.
        tables: Shown below them.
        figures: And below those.
        over: Whether nothing is expected to change soon.
    """

    title: str
    state: str
    status: str
    notes: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    over: bool = False

    def as_json(self) -> str:
        """The view as a page asks for it."""
        tables = [table._asdict() for table in self.tables]
        return as_json(plain({**self._asdict(), "tables": tables, "figures": [f._asdict() for f in self.figures]}))


def ago(seconds: float) -> str:
    """A stretch of time, as people say it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"
