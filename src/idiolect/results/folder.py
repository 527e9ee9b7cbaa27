"""A run's folder on disk: written file by file, each of them atomically, and resumable cell by cell.

A *cell* is one algorithm on one seed. Its results lie in `cells/` as soon as it is finished; everything else
(`metrics.jsonl`, `clients.csv`, `summary.json`, `report.html`) is made from those, so a run that was interrupted goes
on with the cells it still lacks, each from its last checkpoint (`idiolect.results.checkpoint_files`).
"""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from safetensors.numpy import save

from idiolect.engines.checkpointing import as_tensors, names_of
from idiolect.errors import UserMistake
from idiolect.experiments.recipe_files import load_recipe
from idiolect.experiments.recording import Result
from idiolect.experiments.schema import Recipe, write_recipe
from idiolect.files import is_unfinished, sweep, write_atomically
from idiolect.network.round_files import load_rounds, write_rounds
from idiolect.network.round_tables import Rounds
from idiolect.network.timelines import Timeline, read_timeline, write_timeline
from idiolect.results.serialization import FORMAT, cell_record

PARTS = ("cells", "timelines", "params", "references", "checkpoints", "traits")
REAL_CLOCK = "real-clock"  # an empty file in the folder of a run whose times are seconds


def check_clock(path: Path, clock: str) -> None:
    """Refuse to go on with a run by another clock than it began with."""
    other = "real" if (path / REAL_CLOCK).is_file() else "virtual"
    if (path / "recipe.toml").is_file() and clock != other:
        raise UserMistake(f"--clock is {clock}, but the run in {path} has a {other} clock")


def saved_recipe(path: Path) -> Recipe:
    """The recipe of a run folder."""
    if not (path / "recipe.toml").is_file():
        raise UserMistake(f"{path} is no run folder: it has no recipe.toml")
    return load_recipe(str(path / "recipe.toml"))


class RunFolder:
    """Where a run keeps its files."""

    def __init__(self, path: Path, recipe: Recipe, *, real_clock: bool = False) -> None:
        self.path = path
        text = write_recipe(recipe)
        saved = path / "recipe.toml"
        try:
            if saved.is_file():
                if load_recipe(str(saved)) != recipe:
                    raise UserMistake(
                        f"--out {path} holds a run of another recipe or with other settings; name a new folder"
                    )
            elif path.exists() and not all(map(_of_a_start, path.iterdir())):
                raise UserMistake(f"--out {path} is not empty and holds no run; name a new folder")
            path.mkdir(parents=True, exist_ok=True)
            if not saved.is_file():
                (path / REAL_CLOCK).unlink(missing_ok=True)  # of a run that never began
                if real_clock:
                    (path / REAL_CLOCK).touch()
                write_atomically(saved, text.encode())
            for part in PARTS:
                (path / part).mkdir(exist_ok=True)
        except OSError as reason:
            raise UserMistake(f"--out {path} cannot be written: {reason.strerror or reason}") from None

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

    def add(self, outcome: Result) -> None:
        """Keep a finished cell: its timeline, its parameters and, last, its results."""
        name = f"{outcome.label}-seed{outcome.seed}"
        write_atomically(*self._timeline(name, outcome.table))
        write_atomically(self.path / "params" / f"{name}.safetensors", _tensors(outcome))
        write_atomically(self._cell(outcome.label, outcome.seed), json.dumps(cell_record(outcome)).encode())

    def timeline(self, label: str, seed: int) -> Timeline | Rounds:
        """The timeline of a finished cell."""
        place = self.path / "timelines" / f"{label}-seed{seed}"
        table = place.with_name(place.name + ".csv")
        return read_timeline(table) if table.is_file() else load_rounds(place.with_name(place.name + ".npz"))

    def _timeline(self, name: str, table: Timeline | Rounds) -> tuple[Path, bytes]:
        if isinstance(table, Rounds):
            return self.path / "timelines" / f"{name}.npz", write_rounds(table)
        return self.path / "timelines" / f"{name}.csv", write_timeline(table).encode()

    def cells(self, recipe: Recipe) -> list[dict[str, Any]]:
        """The finished cells, in the recipe's order."""
        pairs = [(label, seed) for label in recipe.labels for seed in recipe.seeds if self.has(label, seed)]
        return [self._read(self._cell(label, seed)) for label, seed in pairs]

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as reason:
            raise UserMistake(f"{path} cannot be read: {reason}") from None
        if record.get("format") != FORMAT:
            raise UserMistake(f"{path} was written by another version of idiolect; run its recipe in a new folder")
        return record

    def has_reference(self, name: str, seed: int) -> bool:
        """Is this reference known for this seed?"""
        return self._reference(name, seed).is_file()

    def add_reference(self, record: dict[str, Any]) -> None:
        """Keep what a reference scores on one seed."""
        write_atomically(self._reference(record["name"], record["seed"]), json.dumps(record).encode())

    def references(self, recipe: Recipe) -> list[dict[str, Any]]:
        """What the references score, in the recipe's order."""
        pairs = [(name, seed) for name in recipe.evaluation.references for seed in recipe.seeds]
        return [json.loads(self._reference(*pair).read_text("utf-8")) for pair in pairs if self.has_reference(*pair)]

    def write_tables(self, cells: list[dict[str, Any]], summary: dict[str, Any]) -> None:
        """The files people read: a line per evaluation, a row per client, and the summary."""
        lines = [json.dumps({**head(cell), **point}) + "\n" for cell in cells for point in cell["points"]]
        write_atomically(self.path / "metrics.jsonl", "".join(lines).encode())
        text = io.StringIO()
        rows = [{**head(cell), **_flat(client)} for cell in cells for client in cell["clients"]]
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(self.path / "clients.csv", text.getvalue().encode())
        write_atomically(self.path / "summary.json", (json.dumps(summary, indent=2) + "\n").encode())

    def _reference(self, name: str, seed: int) -> Path:
        return self.path / "references" / f"{name}-seed{seed}.json"

    def _cell(self, label: str, seed: int) -> Path:
        return self.path / "cells" / f"{label}-seed{seed}.json"


def _of_a_start(path: Path) -> bool:
    """Can this be from a run that was killed before its recipe was written?"""
    return is_unfinished(path) or path.name == REAL_CLOCK


def next_free(parent: Path, name: str) -> Path:
    """`parent/name`, or with the first number that is not taken."""
    path, number = parent / name, 2
    while path.exists():
        path, number = parent / f"{name}-{number}", number + 1
    return path


def head(cell: dict[str, Any]) -> dict[str, Any]:
    """Which cell a line belongs to."""
    return {"algorithm": cell["label"], "seed": cell["seed"]}


def _flat(client: dict[str, Any]) -> dict[str, Any]:
    known = {key: client[key] for key in ("client", "group", "samples", "bits", "bytes")}
    flat = {**known, **{_column(k): value for k, value in client["scores"].items()}}
    for metric, scores in client["also"].items():
        flat |= {f"{metric}: {_column(k)}": value for k, value in scores.items()}
    return flat


def _column(budget: str) -> str:
    return "own" if budget == "own" else f"after_{budget}_steps"


def _tensors(outcome: Result) -> bytes:
    tensors = names_of("server", outcome.params)
    for client, state in outcome.personal.items():
        tensors |= names_of(f"client{client}", state)
    return save(as_tensors(tensors))
