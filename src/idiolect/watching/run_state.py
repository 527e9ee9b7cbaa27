"""A run folder at one moment: how the run stands, and every cell as far as it is. What is finished is read once."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from idiolect.errors import UserMistake
from idiolect.experiments.evaluation_plan import headline_column
from idiolect.experiments.records import CellRecord
from idiolect.experiments.value import Experiment
from idiolect.network.at_work import Arriving
from idiolect.results.folder import RunFolder
from idiolect.results.progress_files import points_file, refusals_in_one
from idiolect.results.progress_reading import (
    AtWork,
    Curve,
    CurvePoint,
    Now,
    Standing,
    read_curve,
    read_now,
    standing,
)
from idiolect.results.run import open_run

T = TypeVar("T")
_LONG = 2**26  # bytes; the timeline of a finished cell is not looked into beyond that


class CellState(NamedTuple):
    """An algorithm on a seed, as far as it is."""

    label: str
    seed: int
    state: str  # waits, at work, begun, finished, ended, or cannot be read
    curve: Curve | None = None
    at_work: AtWork | None = None
    refusals: Mapping[str, Mapping[str, int]] = {}


class RunState(NamedTuple):
    """A run at one moment; `problems` are sentences on what cannot be read."""

    path: Path
    experiment: Experiment
    clock: str
    standing: Standing
    now: Now | None
    cells: list[CellState]
    problems: list[str]

    @property
    def finished(self) -> int:
        """How many cells are."""
        return sum(cell.state in ("finished", "ended") for cell in self.cells)


class RunReader:
    """Reads a run folder again and again; it never writes there and takes no lock."""

    def __init__(self, path: Path) -> None:
        self.path, self._known = path, dict[Path, tuple[Any, Any]]()

    def read(self) -> RunState:
        """The run as its files have it now."""
        run, folder, problems = open_run(self.path), RunFolder(self.path), list[str]()
        try:
            now = read_now(folder)
        except UserMistake as mistake:  # the next one is written within seconds, if anybody lives
            now = None
            problems.append(str(mistake))
        pairs = [(label, seed) for label in run.experiment.labels for seed in run.experiment.seeds]
        stands = standing(now, all(folder.has(*pair) for pair in pairs))
        column, busy = headline_column(run.experiment), _at_work(now) if stands == "under way" else {}
        cells = [self._cell(folder, *pair, column, busy.get(pair), problems) for pair in pairs]
        return RunState(self.path, run.experiment, run.clock, stands, now, cells, problems)

    def _cell(
        self, folder: RunFolder, label: str, seed: int, column: str, busy: AtWork | None, problems: list[str]
    ) -> CellState:
        try:
            if folder.has(label, seed):
                path = folder.path / "cells" / f"{label}-seed{seed}.json"
                return self._once(path, lambda: _finished(folder, label, seed, column))
            path = points_file(folder, label, seed)
            curve, damaged = self._once(path, lambda: read_curve(folder, label, seed, column))
        except UserMistake as mistake:
            problems.append(str(mistake))
            return CellState(label, seed, "cannot be read")
        if damaged:
            problems.append(f"{path} has damaged lines, which are left out: {damaged}")
        state = "at work" if busy else "begun" if curve else "waits"
        return CellState(label, seed, state, curve, busy, busy.refusals if busy else {})

    def _once(self, path: Path, read: Callable[[], T]) -> T:
        """What is read from a file, which is read again only if it has changed."""
        try:
            found = path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        except OSError:
            return read()
        if path not in self._known or self._known[path][0] != stamp:
            self._known[path] = (stamp, read())
        known: T = self._known[path][1]
        return known


def _at_work(now: Now | None) -> dict[tuple[str, int], AtWork]:
    return {(cell.label, cell.seed): cell for cell in now.at_work} if now else {}


def _finished(folder: RunFolder, label: str, seed: int, column: str) -> CellState:
    record = folder.cell(label, seed)
    points = _points(record, _arriving(folder, label, seed), column)
    refusals = refusals_in_one(record.refusals, record.refused_messages)
    curve = Curve(record.metric, record.higher_is_better, points)
    return CellState(label, seed, "ended" if record.ended else "finished", curve, None, refusals)


def _points(record: CellRecord, arriving: Arriving | None, column: str) -> list[CurvePoint]:
    found, since = [], 0.0
    for point in record.points:
        score = point.scores["participating"][column]
        ages = arriving.between(since, point.time) if arriving else None
        told = point.time, point.updates, score.mean, score.worst_decile, point.reports
        found.append(CurvePoint(*told, ages))
        since = point.time
    return found


def _arriving(folder: RunFolder, label: str, seed: int) -> Arriving | None:
    """The ages of what arrived in a finished cell, unless they are too many to read by the way."""
    files = [folder.path / "timelines" / f"{label}-seed{seed}.{kind}" for kind in ("csv", "npz")]
    if any(file.is_file() and file.stat().st_size > _LONG for file in files):
        return None
    return Arriving(folder.timeline(label, seed))
