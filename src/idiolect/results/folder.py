"""A run's folder on disk: written file by file, each of them atomically, and resumable cell by cell.

A *cell* is one algorithm on one seed. Its results lie in `cells/` as soon as it is finished; everything else
(`metrics.jsonl`, `clients.csv`, `summary.json`, `report.html`) is made from those, so a run that was interrupted goes
on with the cells it still lacks, each from its last checkpoint (`idiolect.results.checkpoint_files`).
"""

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.numpy import load, save

from idiolect.errors import UserMistake
from idiolect.experiments.describing import describe, difference, write_experiment
from idiolect.experiments.recipe_files import read_toml
from idiolect.experiments.recording import Result
from idiolect.experiments.records import CellRecord, ClientRecord, ReferenceRecord
from idiolect.experiments.serialization import (
    FORMAT,
    read_cell,
    read_reference,
    write_cell,
    write_point,
    write_reference,
)
from idiolect.experiments.value import Experiment
from idiolect.files import is_unfinished, sweep, write_atomically
from idiolect.network.round_files import load_rounds, write_rounds
from idiolect.network.round_tables import Rounds
from idiolect.network.timelines import Timeline, read_timeline, write_timeline
from idiolect.trees import as_tensors, names_of

T = TypeVar("T")

RECIPE = "recipe.toml"  # the experiment, with every default written out
PARTS = ("cells", "timelines", "params", "references", "checkpoints", "traits")
REAL_CLOCK = "real-clock"  # an empty file in the folder of a run whose times are seconds


def saved_tables(path: Path) -> dict[str, Any]:
    """The description of the experiment that a run folder belongs to."""
    saved = path / RECIPE
    if not saved.is_file():
        raise UserMistake(f"{path} is no run folder: it has no {RECIPE}")
    try:
        return read_toml(saved.read_text("utf-8"), str(saved))
    except (OSError, UnicodeDecodeError) as reason:
        raise UserMistake(f"{saved} cannot be read: {reason}") from None


def clock_of(path: Path) -> str:
    """By which clock a run goes."""
    return "real" if (path / REAL_CLOCK).is_file() else "virtual"


def check_clock(path: Path, clock: str) -> None:
    """Refuse to go on with a run by another clock than it began with."""
    if (path / RECIPE).is_file() and clock != clock_of(path):
        raise UserMistake(f"--clock is {clock}, but the run in {path} has a {clock_of(path)} clock")


def begin_folder(path: Path, experiment: Experiment, *, real_clock: bool = False) -> "RunFolder":
    """The folder of an experiment's run, made if it is not there; one that belongs to another is refused."""
    saved = path / RECIPE
    check_folder(path, experiment)
    try:
        if not saved.is_file() and path.exists() and not all(map(_of_a_start, path.iterdir())):
            raise UserMistake(f"--out {path} is not empty and holds no run; name a new folder")
        path.mkdir(parents=True, exist_ok=True)
        if not saved.is_file():
            (path / REAL_CLOCK).unlink(missing_ok=True)  # of a run that never began
            if real_clock:
                (path / REAL_CLOCK).touch()
            write_atomically(saved, write_experiment(experiment).encode())
        for part in PARTS:
            (path / part).mkdir(exist_ok=True)
    except OSError as reason:
        raise UserMistake(f"--out {path} cannot be written: {reason.strerror or reason}") from None
    return RunFolder(path)


def check_folder(path: Path, experiment: Experiment) -> None:
    """Refuse a folder that belongs to another experiment, and name the difference."""
    if (path / RECIPE).is_file() and (found := difference_to(path, experiment)):
        raise UserMistake(f"--out {path} holds a run of another experiment: {found}; name a new folder")


def difference_to(path: Path, experiment: Experiment) -> str:
    """Where an experiment differs from the one that a folder belongs to, in words; empty if it does not."""
    there, here = saved_tables(path), json.loads(json.dumps(describe(experiment)))
    for tables in (there, here):
        tables.pop("factory", None)  # who made it changes nothing of what it is
    return difference(there, here)


class RunFolder:
    """Where a run keeps its files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """While this lasts, no other process can run here. The lock of a process that is gone is no lock."""
        try:
            with FileLock(self.path / ".lock", timeout=0):
                for place in (self.path, *(self.path / part for part in PARTS)):
                    sweep(place)
                yield
        except Timeout:
            raise UserMistake(f"--out {self.path} is in use: another process runs there; wait, or stop it") from None

    def has(self, label: str, seed: int) -> bool:
        """Is this cell finished?"""
        return self._cell(label, seed).is_file()

    def add(self, result: Result) -> None:
        """Keep a finished cell: its timeline, its parameters and, last, its results."""
        name = f"{result.label}-seed{result.seed}"
        write_atomically(*self._timeline(name, result.table))
        write_atomically(self.path / "params" / f"{name}.safetensors", _tensors(result))
        write_atomically(self._cell(result.label, result.seed), json.dumps(write_cell(result.record)).encode())

    def timeline(self, label: str, seed: int) -> Timeline | Rounds:
        """The timeline of a finished cell."""
        place = self.path / "timelines" / f"{label}-seed{seed}"
        table = place.with_name(place.name + ".csv")
        return read_timeline(table) if table.is_file() else load_rounds(place.with_name(place.name + ".npz"))

    def _timeline(self, name: str, table: Timeline | Rounds) -> tuple[Path, bytes]:
        if isinstance(table, Rounds):
            return self.path / "timelines" / f"{name}.npz", write_rounds(table)
        return self.path / "timelines" / f"{name}.csv", write_timeline(table).encode()

    def tensors(self, label: str, seed: int) -> dict[str, np.ndarray]:
        """The parameters of a finished cell, by the names they have in the file."""
        path = self.path / "params" / f"{label}-seed{seed}.safetensors"
        try:
            return load(path.read_bytes())
        except (OSError, SafetensorError) as reason:
            raise UserMistake(f"{path} cannot be read: {reason}") from None

    def cells(self, experiment: Experiment) -> list[CellRecord]:
        """The finished cells, in the experiment's order."""
        pairs = [(label, seed) for label in experiment.labels for seed in experiment.seeds if self.has(label, seed)]
        return [_read(self._cell(label, seed), read_cell, FORMAT) for label, seed in pairs]

    def has_reference(self, name: str, seed: int) -> bool:
        """Is this reference known for this seed?"""
        return self._reference(name, seed).is_file()

    def add_reference(self, reference: ReferenceRecord) -> None:
        """Keep what a reference scores on one seed."""
        path = self._reference(reference.name, reference.seed)
        write_atomically(path, json.dumps(write_reference(reference)).encode())

    def references(self, experiment: Experiment) -> list[ReferenceRecord]:
        """What the references score, in the experiment's order."""
        pairs = [(name, seed) for name in experiment.evaluation.references for seed in experiment.seeds]
        return [_read(self._reference(*pair), read_reference) for pair in pairs if self.has_reference(*pair)]

    def write_tables(self, cells: Sequence[CellRecord], summary: dict[str, Any]) -> None:
        """The files people read: a line per evaluation, a row per client, and the summary."""
        lines = [json.dumps({**_head(cell), **write_point(point)}) + "\n" for cell in cells for point in cell.points]
        write_atomically(self.path / "metrics.jsonl", "".join(lines).encode())
        text = io.StringIO()
        rows = [{**_head(cell), **flat_client(client)} for cell in cells for client in cell.clients]
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(self.path / "clients.csv", text.getvalue().encode())
        write_atomically(self.path / "summary.json", (json.dumps(summary, indent=2) + "\n").encode())

    def _reference(self, name: str, seed: int) -> Path:
        return self.path / "references" / f"{name}-seed{seed}.json"

    def _cell(self, label: str, seed: int) -> Path:
        return self.path / "cells" / f"{label}-seed{seed}.json"


def _read(path: Path, read: Callable[[dict[str, Any]], T], version: int | None = None) -> T:
    """What a file of ours says, or a sentence on what is wrong with it."""
    try:
        record = json.loads(path.read_text("utf-8"))
        if version is not None and record.get("format") != version:
            raise UserMistake(f"{path} was written by another version of idiolect; run its recipe in a new folder")
        return read(record)
    except UserMistake:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as reason:
        raise UserMistake(f"{path} cannot be read: {reason or type(reason).__name__}") from None


def _of_a_start(path: Path) -> bool:
    """Can this be from a run that was killed before its recipe was written?"""
    return is_unfinished(path) or path.name == REAL_CLOCK


def next_free(parent: Path, name: str) -> Path:
    """`parent/name`, or with the first number that is not taken."""
    path, number = parent / name, 2
    while path.exists():
        path, number = parent / f"{name}-{number}", number + 1
    return path


def _head(cell: CellRecord) -> dict[str, Any]:
    """Which cell a line belongs to."""
    return {"algorithm": cell.label, "seed": cell.seed}


def flat_client(client: ClientRecord) -> dict[str, Any]:
    """A client's record as one row."""
    known = {key: getattr(client, key) for key in ("client", "group", "samples", "bits", "bytes")}
    flat = {**known, **{_column(k): value for k, value in client.scores.items()}}
    for metric, scores in client.also.items():
        flat |= {f"{metric}: {_column(k)}": value for k, value in scores.items()}
    return flat


def _column(budget: str) -> str:
    return "own" if budget == "own" else f"after_{budget}_steps"


def _tensors(result: Result) -> bytes:
    tensors = names_of("server", result.params)
    for client, state in result.personal.items():
        tensors |= names_of(f"client{client}", state)
    return save(as_tensors(tensors))
