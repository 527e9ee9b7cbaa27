"""What a run writes down while it is under way, for whoever watches it; nothing of it is needed to go on.

progress/now.json              the process, and how far its cells are; replaced about once a second
progress/LABEL-seedN.jsonl     the points of a cell that is not finished, a line each

Both are sealed like the other tables (`idiolect.results.seals`), the second line by line, so that a line that was half
written or is damaged shows. Neither is synced to the disk: that would cost a run more than they are worth, and after a
power loss the checkpoints have the same points, from which a cell that goes on writes its file anew. At the end of a
run they go, since `cells/` has it all. A run that cannot write them says so once, and goes on without.
"""

import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from idiolect.engines import Snapshot
from idiolect.errors import Interrupted, in_one_line
from idiolect.experiments.records import Point
from idiolect.experiments.running import CellRun, Diary
from idiolect.files import UNFINISHED
from idiolect.network.at_work import Ages, Arriving, working
from idiolect.processes import began as process_began
from idiolect.results.folder import RunFolder
from idiolect.results.seals import sealed

PROGRESS, NOW = "progress", "now.json"
_EVERY = 1.0  # seconds between two writings of how far a run is
_SHARE = 0.02  # of its time, about, that a run spends on that; who works among a million takes a while to say
_NAMED = 40  # clients of each cell that are named; the others are counted


class Here(NamedTuple):
    """The process that runs, as another can tell whether it still does."""

    pid: int
    began: float
    host: str


def points_file(folder: RunFolder, label: str, seed: int) -> Path:
    """Where the points of an unfinished cell are."""
    return folder.path / PROGRESS / f"{label}-seed{seed}.jsonl"


@contextmanager
def written_down(folder: RunFolder, notice: Callable[[str], None]) -> Iterator[Diary]:
    """A diary in a run's folder while this lasts; it goes at the end, and says why if that is not reached."""
    files = _ProgressFiles(folder, notice)
    files.replace("preparing")
    try:
        yield Diary(files.begin, files.note, files.beat)
    except BaseException as reason:
        files.replace("stopped" if isinstance(reason, Interrupted | KeyboardInterrupt) else "failed", _why(reason))
        raise
    forget_progress(folder)


def forget_progress(folder: RunFolder) -> None:
    """Remove what was written down; all results are there."""
    for file in (folder.path / PROGRESS).glob("*"):
        with suppress(OSError):  # what is in the way can stay
            file.unlink(missing_ok=True)


def _why(reason: BaseException) -> str:
    return in_one_line(str(reason))[:300] or type(reason).__name__


class _Cell:
    """A cell at work: the ages of what arrives in it, and where the next stretch of time begins."""

    def __init__(self, run: CellRun) -> None:
        self._run, self._arriving, self._since = run, Arriving(run.cell.table), 0.0
        self._updates, self._refusals = 0, dict[str, dict[str, int]]()

    def point(self, point: Point, snapshot: Snapshot | None) -> dict[str, Any]:
        """A point, and what is known of the time since the one before."""
        ages, metric = self._arriving.between(self._since, point.time), self._run.prepared.metrics[0]
        self._since, self._updates = point.time, point.updates
        if snapshot is not None:
            self._refusals = refusals_in_one(snapshot.refusals, snapshot.refused_messages)
        return point_facts(point, ages) | {"metric": metric.name, "higher_is_better": metric.higher_is_better}

    def at(self, now: float) -> dict[str, Any]:
        """How far it is, and who works."""
        busy = working(self._run.cell.table, now)
        return {
            "label": self._run.algorithm.name,
            "seed": self._run.cell.seed,
            "time": float(now),
            "updates": self._updates,
            "working": {doing: {"count": len(clients), "first": clients[:_NAMED]} for doing, clients in busy.items()},
            "refusals": self._refusals,
        }


def point_facts(point: Point, ages: Ages | None) -> dict[str, Any]:
    """What is told of a point: means over clients, and no client's own."""
    scores = {group: {k: s._asdict() for k, s in mine.items()} for group, mine in point.scores.items()}
    stale = None if ages is None else ages._asdict()
    return {"time": point.time, "updates": point.updates, "scores": scores, "reports": point.reports, "stale": stale}


def refusals_in_one(
    updates: Mapping[int, Mapping[str, int]], messages: Mapping[int, Mapping[int, int]]
) -> dict[str, dict[str, int]]:
    """How much was refused of whom, and why: updates by client; without a server, messages by sender and receiver."""
    refused = {f"client {client}": dict(why) for client, why in updates.items()}
    for sender, mine in messages.items():
        refused |= {f"{sender} to {receiver}": {"refused": count} for receiver, count in mine.items()}
    return refused


def _put(path: Path, content: bytes) -> None:
    """Replace a file, so that whoever reads it sees the old or the new one."""
    aside = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    aside.write_bytes(content)
    os.replace(aside, path)


def _append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


class _ProgressFiles:
    """Writes the files of a run's progress, and stops doing so when it cannot."""

    def __init__(self, folder: RunFolder, notice: Callable[[str], None]) -> None:
        self._folder, self._notice, self._works = folder, notice, True
        self._cells: dict[tuple[str, int], _Cell] = {}
        self._last, self._cost, self._time = 0.0, 0.0, 0.0
        self._here = Here(os.getpid(), process_began(os.getpid()), platform.node())

    def begin(self, runs: Sequence[CellRun], points: Sequence[Sequence[Point]]) -> None:
        """Other cells are at work from now on; what they had before is written anew."""
        self._cells = {(run.algorithm.name, run.cell.seed): _Cell(run) for run in runs}
        for (whose, cell), mine in zip(self._cells.items(), points, strict=True):
            lines = b"".join(self._line(whose, cell.point(point, None)) for point in mine)
            self._try(partial(_put, content=lines), points_file(self._folder, *whose))
        self._time = max((mine[-1].time for mine in points if mine), default=0.0)
        self.replace("running")

    def note(self, run: CellRun, point: Point, snapshot: Snapshot) -> None:
        """A point was scored."""
        whose = (run.algorithm.name, run.cell.seed)
        line = self._line(whose, self._cells[whose].point(point, snapshot))
        self._try(partial(_append, content=line), points_file(self._folder, *whose))
        self.beat(point.time)

    def beat(self, now: float) -> None:
        """So far the cells at work are; it is written if the last time is a while ago."""
        self._time = now
        if time.monotonic() - self._last >= _EVERY * max(1.0, self._cost / _SHARE):
            self.replace("running")

    def replace(self, state: str, why: str = "") -> None:
        """Write down how far the run is."""
        began = time.monotonic()
        cells = [cell.at(self._time) for cell in self._cells.values()]
        record = {"state": state, "why": why, **self._here._asdict(), "written": time.time(), "at_work": cells}
        content = sealed(record, self._folder.owner("progress", "now", 0))
        self._try(partial(_put, content=content), self._folder.path / PROGRESS / NOW)
        self._last = time.monotonic()
        self._cost = self._last - began

    def _line(self, whose: tuple[str, int], record: dict[str, Any]) -> bytes:
        return sealed(record, self._folder.owner("progress", *whose)) + b"\n"

    def _try(self, write: Callable[[Path], None], path: Path) -> None:
        """Write a file; a run does not end for what only those who watch it need."""
        try:
            if self._works:
                write(path)
        except OSError as reason:
            self._works = False
            self._notice(f"{path} cannot be written: {reason.strerror or reason}; nobody can watch the run")
