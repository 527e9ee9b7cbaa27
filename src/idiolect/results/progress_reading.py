"""What a run has written down while it is under way, read by somebody else: nothing here writes, or takes a lock."""

import platform
import time
from typing import Any, Literal, NamedTuple

from idiolect.errors import UserMistake
from idiolect.files import read_whole
from idiolect.network.at_work import Ages
from idiolect.processes import lives
from idiolect.results.folder import RunFolder
from idiolect.results.progress_files import NOW, PROGRESS, Here, points_file
from idiolect.results.seals import unsealed, unsealed_content

Standing = Literal["under way", "finished", "stopped", "died", "silent"]
_NEWS = 60.0  # seconds; who has said nothing for longer, on a machine that cannot be asked, may be dead


class Working(NamedTuple):
    """How many clients do something, and the first of them."""

    number: int
    first: list[int]


class AtWork(NamedTuple):
    """A cell that is computed now: how far it is, who works, and how much was refused of whom."""

    label: str
    seed: int
    time: float
    updates: int
    working: dict[str, Working]
    refusals: dict[str, dict[str, int]]


class Now(NamedTuple):
    """How far a run was when it last said so."""

    state: str  # preparing, running, stopped or failed
    why: str
    here: Here
    written: float
    at_work: list[AtWork]

    @property
    def age(self) -> float:
        """Seconds since then."""
        return max(0.0, time.time() - self.written)


class Curve(NamedTuple):
    """The points of a cell so far, and by what it is scored."""

    metric: str
    higher_is_better: bool
    points: list["CurvePoint"]


class CurvePoint(NamedTuple):
    """A point of a cell, as those who watch it see it."""

    time: float
    updates: int
    mean: float
    worst_decile: float
    reports: dict[str, float]
    stale: Ages | None


def read_now(folder: RunFolder) -> Now | None:
    """How far the run is; None if it says nothing, as a finished one does."""
    path = folder.path / PROGRESS / NOW
    return unsealed(path, folder.owner("progress", "now", 0), _now) if path.exists() else None


def standing(now: Now | None, finished: bool) -> Standing:
    """Whether a run goes on: its process is asked after, and where that cannot be done, its last word's age tells."""
    if now is None:
        return "finished" if finished else "stopped"
    if now.state not in ("preparing", "running"):
        return "stopped"
    there = lives(now.here.pid, now.here.began) if now.here.host == platform.node() else None
    if there is None:
        return "under way" if now.age < _NEWS else "silent"
    return "under way" if there else "died"


def read_curve(folder: RunFolder, label: str, seed: int, column: str) -> tuple[Curve | None, int]:
    """The points of an unfinished cell under a budget, and how many lines of its file are damaged and left out."""
    path, owner = points_file(folder, label, seed), folder.owner("progress", label, seed)
    found, damaged = list[tuple[str, bool, CurvePoint]](), 0
    if path.exists():
        *lines, _ = read_whole(path).split(b"\n")  # the last one is not yet whole
        for line in lines:
            try:
                found.append(unsealed_content(line, path, owner, lambda record: _point(record, column)))
            except UserMistake:
                damaged += 1
    if not found:
        return None, damaged
    return Curve(*found[-1][:2], [point for _, _, point in found]), damaged


def _now(record: dict[str, Any]) -> Now:
    here = Here(int(record["pid"]), float(record["began"]), str(record["host"]))
    at_work = [_at_work(cell) for cell in record["at_work"]]
    return Now(str(record["state"]), str(record["why"]), here, float(record["written"]), at_work)


def _at_work(cell: dict[str, Any]) -> AtWork:
    working = {
        str(doing): Working(int(some["count"]), [int(client) for client in some["first"]])
        for doing, some in cell["working"].items()
    }
    refusals = {
        str(whose): {str(why): int(count) for why, count in mine.items()} for whose, mine in cell["refusals"].items()
    }
    facts = str(cell["label"]), int(cell["seed"]), float(cell["time"]), int(cell["updates"])
    return AtWork(*facts, working, refusals)


def _point(record: dict[str, Any], column: str) -> tuple[str, bool, CurvePoint]:
    score, stale = record["scores"]["participating"][column], record["stale"]
    reports = {str(name): float(value) for name, value in record["reports"].items()}
    ages = None if stale is None else Ages(int(stale["arrived"]), float(stale["mean"]), int(stale["oldest"]))
    when = float(record["time"]), int(record["updates"])
    point = CurvePoint(*when, float(score["mean"]), float(score["worst_decile"]), reports, ages)
    return str(record["metric"]), bool(record["higher_is_better"]), point
