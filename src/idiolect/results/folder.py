"""A run's folder on disk: written file by file, each of them atomically, and resumable cell by cell.

A *cell* is one algorithm on one seed. Its results lie in `cells/` as soon as it is finished; everything else
(`metrics.jsonl`, `clients.csv`, `summary.json`, `report.html`) is made from those, so a run that was interrupted goes
on with the cells it still lacks, each from its last checkpoint (`idiolect.results.checkpoint_files`).
"""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from idiolect.errors import UserMistake
from idiolect.experiments.cell_results import Result
from idiolect.experiments.describing import describe, difference
from idiolect.experiments.recipe_files import read_toml
from idiolect.experiments.records import CellRecord, ClientRecord, ReferenceRecord
from idiolect.experiments.serialization import read_cell, read_reference, write_cell, write_point, write_reference
from idiolect.experiments.value import Experiment
from idiolect.files import digest_of_file, read_whole, write_atomically
from idiolect.network.column_files import write_columns
from idiolect.network.mapped_columns import LARGE
from idiolect.network.round_files import load_rounds, write_rounds
from idiolect.network.round_tables import Rounds
from idiolect.network.timelines import COMPRESSED, Timeline, read_timeline, write_timeline
from idiolect.results.curves import point_rows
from idiolect.results.seals import Owner, digest_of, experiment_digest, sealed, unsealed
from idiolect.trees import as_tensors, names_of

T = TypeVar("T")

RECIPE = "recipe.toml"  # the experiment, with every default written out
REAL_CLOCK = "real-clock"  # an empty file in the folder of a run whose times are seconds


def saved_tables(path: Path) -> dict[str, Any]:
    """The description of the experiment that a run folder belongs to."""
    saved = path / RECIPE
    if not saved.exists():
        raise UserMistake(f"{path} is no run folder: it has no {RECIPE}")
    try:
        return read_toml(read_whole(saved).decode(), str(saved))
    except UnicodeDecodeError:
        raise UserMistake(f"{saved} cannot be read: it is no text in UTF-8") from None


def clock_of(path: Path) -> str:
    """By which clock a run goes."""
    return "real" if (path / REAL_CLOCK).is_file() else "virtual"


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

    def owner(self, kind: str, name: str, seed: int) -> Owner:
        """To whom a table in this folder belongs."""
        return Owner(self._experiment, kind, name, seed)

    @cached_property
    def _experiment(self) -> str:
        return experiment_digest(saved_tables(self.path))

    def has(self, label: str, seed: int) -> bool:
        """Is this cell finished?"""
        return self._cell(label, seed).exists()

    def count(self, experiment: Experiment) -> int:
        """How many cells of an experiment are finished."""
        return sum(self.has(label, seed) for label in experiment.labels for seed in experiment.seeds)

    def add(self, result: Result) -> None:
        """Keep a finished cell."""
        self.keep(result.record, result.table, _tensors(result))

    def keep(self, cell: CellRecord, table: Timeline | Rounds, tensors: Mapping[str, np.ndarray]) -> None:
        """Keep a cell's timeline, its parameters and, last, its results with the digests of those."""
        owner = self.owner("cell", cell.label, cell.seed)
        suffix, written = _written(table)
        # One text and no more: safetensors shuffles them, but equal runs should leave equal files.
        params = save(dict(tensors), metadata={"belongs_to": json.dumps(owner._asdict())})
        files = {f"timelines/{owner.name}-seed{owner.seed}{suffix}": written, self._params(owner): params}
        for name, content in files.items():
            write_atomically(self.path / name, content)
        digests = {
            name: digest_of(content) if isinstance(content, bytes) else digest_of_file(self.path / name)
            for name, content in files.items()
        }
        self.add_cell(cell, digests)

    def add_cell(self, cell: CellRecord, files: Mapping[str, str]) -> None:
        """Keep the results of a cell, with the digests of its other files."""
        record, owner = {**write_cell(cell), "files": dict(files)}, self.owner("cell", cell.label, cell.seed)
        write_atomically(self._cell(cell.label, cell.seed), sealed(record, owner))

    def timeline(self, label: str, seed: int) -> Timeline | Rounds:
        """The timeline of a finished cell."""
        name = next((name for name in self._files(label, seed) if name.startswith("timelines/")), "timelines/")
        self._check_file(name, label, seed)
        path = self.path / name
        return read_timeline(path) if name.endswith((".csv", COMPRESSED)) else load_rounds(path)

    def tensors(self, label: str, seed: int) -> dict[str, np.ndarray]:
        """The parameters of a finished cell, by the names they have in the file."""
        name = self._params(self.owner("cell", label, seed))
        self._check_file(name, label, seed)
        try:
            return load(read_whole(self.path / name))
        except SafetensorError as reason:
            raise UserMistake(f"{self.path / name} cannot be read: {reason}") from None

    def check(self, experiment: Experiment) -> None:
        """Refuse to go on beside results that are damaged, or that belong to something else."""
        for cell in self.cells(experiment):
            for name in self._files(cell.label, cell.seed):
                self._check_file(name, cell.label, cell.seed)

    def cells(self, experiment: Experiment) -> list[CellRecord]:
        """The finished cells, in the experiment's order."""
        pairs = [(label, seed) for label in experiment.labels for seed in experiment.seeds if self.has(label, seed)]
        return [self.cell(label, seed) for label, seed in pairs]

    def cell(self, label: str, seed: int) -> CellRecord:
        """A finished cell."""
        return self._read_cell(label, seed, read_cell)

    def has_reference(self, name: str, seed: int) -> bool:
        """Is this reference known for this seed?"""
        return self._reference(name, seed).exists()

    def add_reference(self, reference: ReferenceRecord) -> None:
        """Keep what a reference scores on one seed."""
        owner = self.owner("reference", reference.name, reference.seed)
        write_atomically(self._reference(reference.name, reference.seed), sealed(write_reference(reference), owner))

    def knows_reference(self, name: str, seed: int) -> bool:
        """Is it known, and can it still be read? If not, it is scored anew."""
        try:
            return self.has_reference(name, seed) and self.reference(name, seed).seed == seed
        except UserMistake:
            return False

    def reference(self, name: str, seed: int) -> ReferenceRecord:
        """What a reference scores on one seed."""
        return unsealed(self._reference(name, seed), self.owner("reference", name, seed), read_reference)

    def references(self, experiment: Experiment) -> list[ReferenceRecord]:
        """What the references score, in the experiment's order."""
        pairs = [(name, seed) for name in experiment.evaluation.references for seed in experiment.seeds]
        return [self.reference(*pair) for pair in pairs if self.has_reference(*pair)]

    def forget_checkpoints(self) -> None:
        """Nothing is under way any more; a process that was killed may have left what it had saved."""
        for file in (self.path / "checkpoints").glob("*.safetensors"):
            with suppress(OSError):  # all results are there; what is in the way can stay
                file.unlink(missing_ok=True)

    def write_tables(self, cells: Sequence[CellRecord], summary: dict[str, Any]) -> None:
        """The files people read: a line per evaluation, a row per client, and the summary."""
        lines = [json.dumps({**_head(cell), **write_point(point)}) + "\n" for cell in cells for point in cell.points]
        write_atomically(self.path / "metrics.jsonl", "".join(lines).encode())
        curves = [row._asdict() for cell in cells for point in cell.points for row in point_rows(cell, point)]
        write_atomically(self.path / "metrics.csv", _csv(curves))
        rows = [{**_head(cell), **flat_client(client)} for cell in cells for client in cell.clients]
        write_atomically(self.path / "clients.csv", _csv(rows))
        write_atomically(self.path / "summary.json", (json.dumps(summary, indent=2) + "\n").encode())

    def _check_file(self, name: str, label: str, seed: int) -> None:
        """Refuse a file of a cell that is not as the cell knows it."""
        found, known = digest_of_file(self.path / name), self._files(label, seed).get(name)
        if known is None:
            raise UserMistake(f"{self.path / name} does not belong here: {label} with seed {seed} does not name it")
        if found != known:
            raise UserMistake(
                f"{self.path / name} is damaged, or of another run: its digest is not the one that {label} has of it; "
                f"remove {self._cell(label, seed)} and `idiolect resume {self.path}` to have both again"
            )

    def _files(self, label: str, seed: int) -> dict[str, str]:
        files = self._read_cell(label, seed, lambda record: {str(k): str(v) for k, v in record["files"].items()})
        for name in files:  # from a file, and about to become paths
            room, _, file = name.partition("/")
            if room not in ("timelines", "params") or not file.startswith(f"{label}-seed{seed}.") or _leaves(file):
                raise UserMistake(f"{self._cell(label, seed)} names {name[:80]!r}, which is no file of this cell")
        return files

    def _read_cell(self, label: str, seed: int, read: Callable[[dict[str, Any]], T]) -> T:
        path = self._cell(label, seed)
        try:
            return unsealed(path, self.owner("cell", label, seed), read)
        except UserMistake as mistake:
            if "another version" in str(mistake):
                raise
            raise UserMistake(f"{mistake}; remove it and `idiolect resume {self.path}` to have it again") from None

    def _params(self, owner: Owner) -> str:
        return f"params/{owner.name}-seed{owner.seed}.safetensors"

    def _reference(self, name: str, seed: int) -> Path:
        return self.path / "references" / f"{name}-seed{seed}.json"

    def _cell(self, label: str, seed: int) -> Path:
        return self.path / "cells" / f"{label}-seed{seed}.json"


def _leaves(name: str) -> bool:
    return "/" in name or "\\" in name


def _csv(rows: Sequence[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


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
    return f"after_{budget}_steps" if budget.isdecimal() else budget


def _written(table: Timeline | Rounds) -> tuple[str, bytes | Callable[[IO[bytes]], object]]:
    """How the name of a timeline's file ends, and its content; a large one is written block by block."""
    if isinstance(table, Rounds):
        return ".npz", write_rounds(table)
    if table.turns > LARGE:
        return COMPRESSED, partial(write_columns, table)
    return ".csv", write_timeline(table).encode()


def _tensors(result: Result) -> dict[str, np.ndarray]:
    tensors = names_of("server", result.params) | names_of("groups", result.groups)
    for client, state in result.personal.items():
        tensors |= names_of(f"client{client}", state)
    return as_tensors(tensors)
