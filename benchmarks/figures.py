"""What a benchmark returns: tables of rows of figures, each with all its repeats; and how they are written and read.

A file has `tables` (a name -> what it says, and its rows) and `left_out` (what was not measured -> why). A row has a
case and its figures by name; a figure has a unit, its repeats in the order in which they were taken, and of these the
median, the least and the most. Repeats of the sides of a row are interleaved, so the first of one belongs to the first
of the other, and a ratio is taken repeat by repeat.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

TIMES = "times"  # the unit of ratios


class Figure(NamedTuple):
    """A number, as often as it was measured."""

    unit: str
    repeats: Sequence[float]

    @property
    def median(self) -> float:
        """The middle of the repeats."""
        return float(statistics.median(self.repeats))

    @property
    def least(self) -> float:
        """The smallest repeat."""
        return float(min(self.repeats))

    @property
    def most(self) -> float:
        """The largest repeat."""
        return float(max(self.repeats))

    def __str__(self) -> str:
        spread = f" ({short(self.least)}..{short(self.most)})" if len(self.repeats) > 1 else ""
        return f"{short(self.median)}{spread}"


class Row(NamedTuple):
    """One case, and what was measured of it."""

    case: str
    figures: dict[str, Figure]


class Table(NamedTuple):
    """Rows that belong together, and a sentence on what they say."""

    says: str
    rows: list[Row]

    def row(self, case: str) -> Row | None:
        """The row of a case, if it was measured."""
        return next((row for row in self.rows if row.case == case), None)


class Found(NamedTuple):
    """All that a benchmark measured, and what it left out."""

    tables: dict[str, Table]
    left_out: dict[str, str] = {}  # noqa: RUF012  (a tuple's field; nobody changes it)


def short(value: float) -> str:
    """Three digits, and thousands apart."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{2 if abs(value) < 10 else 1}f}" if abs(value) >= 0.1 else f"{value:.2g}"


def times(seconds: Iterable[float]) -> Figure:
    """Milliseconds, from seconds."""
    return Figure("ms", [1e3 * one for one in seconds])


def once(value: float, unit: str = "") -> Figure:
    """What does not vary, or was measured once."""
    return Figure(unit, [float(value)])


def ratio(above: Figure, below: Figure) -> Figure:
    """How many times one is the other, repeat by repeat."""
    return Figure(TIMES, [a / b for a, b in zip(above.repeats, below.repeats, strict=True)])


def as_data(found: Found) -> dict[str, Any]:
    """As it is written."""

    def figure(one: Figure) -> dict[str, Any]:
        spread = {"median": one.median, "least": one.least, "most": one.most}
        return {"unit": one.unit, **spread, "repeats": [float(value) for value in one.repeats]}

    def table(one: Table) -> dict[str, Any]:
        rows = [{"case": row.case, "figures": {k: figure(v) for k, v in row.figures.items()}} for row in one.rows]
        return {"says": one.says, "rows": rows}

    return {"tables": {name: table(one) for name, one in found.tables.items()}, "left_out": dict(found.left_out)}


def from_data(data: Any) -> Found:
    """As it was written; a ValueError names what is wrong with it."""

    def figure(where: str, one: Any) -> Figure:
        repeats = one.get("repeats") if isinstance(one, dict) else None
        if not repeats or not isinstance(one.get("unit"), str) or not all(isinstance(r, int | float) for r in repeats):
            raise ValueError(f"{where}: a figure has a unit and repeats, not {one!r}")
        return Figure(one["unit"], [float(value) for value in repeats])

    def row(where: str, one: Any) -> Row:
        if not isinstance(one, dict) or not isinstance(one.get("case"), str) or not one.get("figures"):
            raise ValueError(f"{where}: a row has a case and figures, not {one!r}")
        here = f"{where}, {one['case']}"
        return Row(one["case"], {name: figure(f"{here}, {name}", value) for name, value in one["figures"].items()})

    if not isinstance(data, dict) or not isinstance(data.get("tables"), dict):
        raise ValueError("what a benchmark returns has tables")
    tables = {
        name: Table(one["says"], [row(name, entry) for entry in one["rows"]]) for name, one in data["tables"].items()
    }
    return Found(tables, data.get("left_out", {}))


def asked(about: str | None, repeats: int) -> argparse.ArgumentParser:
    """The options that all benchmarks have."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=repeats, help="of each side, in turn")
    parser.add_argument("--json", type=Path, help="a file for every repeat of every figure")
    return parser


def write(path: Path | None, found: Found) -> None:
    """Into a file, if one was asked for."""
    if path is not None:
        path.write_text(json.dumps(as_data(found), indent=1) + "\n")


class Pace:
    """Says on the error stream how far a benchmark is; after its first repeat, about how long it will take."""

    def __init__(self, steps: int, what: str = "repeats") -> None:
        self._steps, self._what, self._done, self._began, self._said = steps, what, 0, time.perf_counter(), 0.0

    def step(self) -> None:
        """One more is done."""
        self._done += 1
        now = time.perf_counter() - self._began
        if self._done == 1 or now - self._said > 20 or self._done == self._steps:
            self._said, left = now, now / self._done * (self._steps - self._done)
            far = f"{self._done} of {self._steps} {self._what} after {now:.0f} s"
            print(f"    {far}, about {left:.0f} s to go", file=sys.stderr, flush=True)


def interleaved(
    sides: dict[str, Callable[[], float]], repeats: int, pace: Pace | None = None
) -> dict[str, list[float]]:
    """Every side in turn, so many times, after once that does not count: all see the same machine."""
    for run in sides.values():
        run()
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, run in sides.items():
            found[name].append(run())
        if pace is not None:
            pace.step()
    return found
