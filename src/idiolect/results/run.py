"""A run as typed records, read from its folder: points, clients, summary, timelines, parameters and models."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from idiolect.contracts import Compressed, Params
from idiolect.errors import UserMistake
from idiolect.experiments.cell_results import whole_model
from idiolect.experiments.data_files import with_digests
from idiolect.experiments.describing import is_described
from idiolect.experiments.recipe_files import completed
from idiolect.experiments.records import CellRecord, ClientRecord, ReferenceRecord
from idiolect.experiments.value import Experiment, from_tables
from idiolect.network.round_tables import Rounds
from idiolect.network.timelines import Timeline
from idiolect.options import checked_value
from idiolect.results.client_models import CellModels, open_models
from idiolect.results.curves import PointRow, point_rows
from idiolect.results.export_files import Measured, note_exports, read_exports
from idiolect.results.folder import RunFolder, clock_of, difference_to, flat_client, saved_tables
from idiolect.results.summary import Summary, summarize
from idiolect.results.summary_files import known_of_run
from idiolect.results.traits import ClientTraits, read_traits

Row = TypeVar("Row", bound=tuple[Any, ...])


class ClientRow(NamedTuple):
    """One client of one algorithm and seed, at the end of the run."""

    algorithm: str
    seed: int
    record: ClientRecord


class Rows(Sequence[Row], Generic[Row]):
    """Records in a row, and the same as a pandas frame."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = list(rows)

    def __getitem__(self, place: Any) -> Any:
        return self._rows[place]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __repr__(self) -> str:
        return f"{len(self)} rows"

    def frame(self) -> Any:
        """A pandas frame with a column for each number (`pip install 'idiolect[pandas]'`)."""
        try:
            import pandas
        except ImportError:
            raise UserMistake("a frame needs pandas; pip install 'idiolect[pandas]'") from None
        return pandas.DataFrame([_flat(row) for row in self._rows])


def _flat(row: Any) -> dict[str, Any]:
    if isinstance(row, ClientRow):
        return {"algorithm": row.algorithm, "seed": row.seed, **flat_client(row.record)}
    return dict(row._asdict())


class Run:
    """What an experiment left in a folder."""

    def __init__(
        self, path: Path, experiment: Experiment, *, runnable: bool, data_dir: Path | None = None, advice: Any = None
    ) -> None:
        self.path, self.experiment, self.clock = path, experiment, clock_of(path)
        self._folder, self._runnable, self._data_dir, self._advice = RunFolder(path), runnable, data_dir, advice

    @cached_property
    def _every(self) -> list[CellRecord]:
        return self._folder.cells(self.experiment)

    @cached_property
    def cells(self) -> list[CellRecord]:
        """The finished cells, in the experiment's order, without those that could not be scored even once."""
        return [cell for cell in self._every if cell.scored]

    @property
    def unscored(self) -> list[CellRecord]:
        """The others."""
        return [cell for cell in self._every if not cell.scored]

    @property
    def diverged(self) -> list[CellRecord]:
        """The cells that ended before their time by their own fault, those without any score among them."""
        return [cell for cell in self._every if cell.diverged]

    @cached_property
    def references(self) -> list[ReferenceRecord]:
        """What the references score."""
        return self._folder.references(self.experiment)

    @property
    def missing(self) -> int:
        """How many cells are not finished."""
        return len(self.experiment.labels) * len(self.experiment.seeds) - len(self._every)

    @cached_property
    def summary(self) -> Summary:
        """What the finished cells come to; there must be one."""
        if not self.cells:
            raise UserMistake(self.nothing_to_show)
        known = known_of_run(self.path) if self._advice is None else {"advice": self._advice}
        known |= {"clock": self.clock, "unscored": self.unscored}
        return summarize(self.experiment, self.cells, self.references, **known)

    @property
    def nothing_to_show(self) -> str:
        """Why there is nothing to sum up, where no cell has a score."""
        if self._every:
            return f"{self.path} has nothing to show: {self._every[0].ended}"
        return f"{self.path} has no finished cell to report; go on with: idiolect resume {self.path}"

    @property
    def points(self) -> Rows[PointRow]:
        """Every score at every time, one a row."""
        return Rows([row for cell in self.cells for point in cell.points for row in point_rows(cell, point)])

    def frame(self) -> Any:
        """The curves of all algorithms as one tidy pandas frame, a score a row; `metrics.csv` has the same."""
        return self.points.frame()

    @property
    def clients(self) -> Rows[ClientRow]:
        """Every client at the end, one a row."""
        return Rows([ClientRow(cell.label, cell.seed, client) for cell in self.cells for client in cell.clients])

    def cell(self, label: str | None = None, seed: int | None = None) -> CellRecord:
        """A finished cell: the one with this label and seed, or its only algorithm's or first seed's."""
        label, seed = self._chosen(label, seed)
        return next(cell for cell in self._every if (cell.label, cell.seed) == (label, seed))

    def timeline(self, label: str | None = None, seed: int | None = None) -> Timeline | Rounds:
        """Who worked when, or whose message arrived when."""
        return self._folder.timeline(*self._chosen(label, seed))

    def parameters(self, label: str | None = None, seed: int | None = None) -> dict[str, np.ndarray]:
        """The shared model and what clients keep, by the names of their leaves."""
        return self._folder.tensors(*self._chosen(label, seed))

    def traits(self, seed: int) -> dict[int, ClientTraits]:
        """How much every client holds, and how unlike the others'."""
        return read_traits(self._folder, seed)

    def exports(self, label: str | None = None, seed: int | None = None) -> list[Measured]:
        """What exported models took and gave when they were run; empty before `idiolect export`."""
        return read_exports(self._folder, *self._chosen(label, seed))

    def note_exports(self, label: str, seed: int, measured: Sequence[Measured]) -> None:
        """Keep what exported models took and gave, for the report."""
        note_exports(self._folder, label, seed, measured)

    def models(self, label: str | None = None, seed: int | None = None) -> CellModels:
        """The models of all clients; the experiment's problem is built for it."""
        if not self._runnable:
            raise UserMistake(
                f"{self.path} belongs to an experiment that was made in Python; its models need it: "
                "idiolect.open_run(path, experiment)"
            )
        label, seed = self._chosen(label, seed)
        return open_models(self.experiment, label, seed, self._folder.tensors(label, seed), self._data_dir)

    def compressed(self, client: int, label: str | None = None, seed: int | None = None) -> Compressed:
        """A client's own model, with its levels if it has any."""
        return self.models(label, seed).compressed(client)

    def model(self, client: int, label: str | None = None, seed: int | None = None) -> Params:
        """A client's own model: what it received or kept, adapted as its objective prescribes."""
        return self.compressed(client, label, seed).params

    def state_dict(self, client: int, label: str | None = None, seed: int | None = None) -> dict[str, Any]:
        """A client's own model as the library it comes from stores it, with all that does not learn."""
        models = self.models(label, seed)
        return whole_model(models.problem.origin, models.compressed(client).params)

    def _chosen(self, label: str | None, seed: int | None) -> tuple[str, int]:
        labels, seeds = self.experiment.labels, self.experiment.seeds
        if label is None and len(labels) == 1:
            label = labels[0]
        if label not in labels:
            said = "is missing" if label is None else f"is '{label}'"
            raise UserMistake(f"algorithm {said}; the run has {', '.join(labels)}")
        seed = seeds[0] if seed is None else seed
        if seed not in seeds or not self._folder.has(label, seed):
            raise UserMistake(f"{self.path} has no finished run of {label} with seed {seed}; its seeds are {seeds}")
        return label, seed

    def __repr__(self) -> str:
        total = len(self.experiment.labels) * len(self.experiment.seeds)
        return f"Run({str(self.path)!r}, {', '.join(self.experiment.labels)}; {total - self.missing} of {total} cells)"

    def _repr_html_(self) -> str:
        """The headline table, for notebooks."""
        if not self.cells:
            return f"<p>{escape(self.nothing_to_show)}</p>"
        head = "<tr><th>algorithm<th>global<th>personalized<th>worst decile<th>updates</tr>"
        rows = []
        for label, entry in self.summary.algorithms.items():
            mine, personal = entry.participating, entry.participating["personalized"]
            pairs = [(one.mean, one.std) for one in (mine["global"], personal)] + [tuple(personal.worst_decile)]
            alone = len(entry.seeds) == 1
            numbers = "".join(f"<td>{mean:.3f} ± {'-' if alone else f'{std:.3f}'}" for mean, std in pairs)
            rows.append(f"<tr><td>{escape(label)}{numbers}<td>{entry.updates.mean:.0f}</tr>")
        title = f"{self.experiment.name}: {self.summary.metric} {self.summary.when}"
        return f"<p>{escape(title)}</p><table>{head}{''.join(rows)}</table>"


def open_run(path: str | Path, experiment: Experiment | None = None, *, data_dir: str | Path | None = None) -> Run:
    """A run from its folder, as typed records.

    Args:
        path: The run folder.
        experiment: The experiment it belongs to, if that was made in Python and models are wanted.
        data_dir: Where data sets lie, if models are wanted.

    Returns:
        The run: `points`, `clients` (both with `.frame()`), `summary`, `timeline()`, `parameters()`, `model(client)`.

    Example:
        >>> import idiolect
        >>> mine = idiolect.Experiment(idiolect.Choice("quadratics", {"clients": 4}), ["fedavg"], horizon=40.0)
        >>> run = idiolect.run(mine, out=tmp / "demo")
        >>> run = idiolect.open_run(tmp / "demo")
        >>> run.summary.metric, len(run.experiment.labels)
        ('loss', 1)
    """
    where, folder = Path(checked_value("path", Path, path)), None if data_dir is None else Path(data_dir)
    tables = saved_tables(where)
    if experiment is not None:
        whole = with_digests(completed(experiment), folder)
        if other := difference_to(where, whole):
            raise UserMistake(f"{where} holds a run of another experiment: {other}")
        return Run(where, whole, runnable=True, data_dir=folder)
    described = is_described(tables)
    found = from_tables(_without_descriptions(tables) if described else tables)
    return Run(where, found, runnable=not described, data_dir=folder)


def _without_descriptions(tables: dict[str, Any]) -> dict[str, Any]:
    """Tables that name what they cannot make: enough to read a run's results by."""
    lines = [
        {"name": line["name"], "label": line.get("label", line["name"])} if is_described(line) else line
        for line in tables.get("algorithms", [])
    ]
    kept = {key: value for key, value in tables.items() if not is_described(value)}
    problem = tables.get("problem", {})
    return {**kept, "problem": {"name": str(problem.get("name", "own"))}, "algorithms": lines}
