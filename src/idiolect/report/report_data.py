"""The data of a report: the cells, references, timelines and traits of one run, or of several side by side.

Of several runs, labels carry the run's name in front. Every cell is told which of its scores are the model as received
(`before`) and the personalized one (`after`), since experiments differ in that.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from idiolect.errors import UserMistake
from idiolect.experiments.evaluation_plan import headline_column
from idiolect.experiments.records import CellRecord, ReferenceRecord
from idiolect.experiments.value import Experiment
from idiolect.network.round_tables import Rounds
from idiolect.network.timelines import Timeline
from idiolect.report.client_traits import Traits, traits_of
from idiolect.results.export_files import Measured
from idiolect.results.run import Run, open_run
from idiolect.results.summary import Summary


class PageRun(NamedTuple):
    """One of the runs of a page."""

    name: str  # in front of its labels; empty if it is the only one
    path: Path
    experiment: Experiment
    summary: Summary
    missing: int  # cells that are not finished
    real: bool  # whether its times are seconds

    @property
    def unit(self) -> str:
        """What its times are counted in."""
        if self.real:
            return "seconds"
        return "virtual time" if self.experiment.rounds is None else "rounds"

    def label(self, own: str) -> str:
        """What the page calls one of its algorithms, or references."""
        return f"{self.name}: {own}" if self.name else own


class PageCell(NamedTuple):
    """A cell under the page's name for its algorithm, and which of its scores the page shows."""

    label: str
    record: CellRecord
    before: str  # the column of the model as received
    after: str  # and of the personalized one

    @property
    def curve(self) -> list[float]:
        """The personalized score at every point, mean over participating clients."""
        return [point.scores["participating"][self.after].mean for point in self.record.points]


class ReportData(NamedTuple):
    """All that a page shows."""

    runs: list[PageRun]
    labels: list[str]
    cells: list[PageCell]
    references: list[ReferenceRecord]
    tables: dict[str, Timeline | Rounds]  # of each algorithm's first finished seed
    traits: dict[tuple[str, int], dict[int, Traits]]  # by algorithm and seed, for each participating client
    exports: dict[tuple[str, int], list[Measured]]  # by algorithm and seed, where models were exported

    @property
    def metric(self) -> str:
        """The headline metric."""
        return self.cells[0].record.metric

    @property
    def higher_is_better(self) -> bool:
        """Whether more of it is better."""
        return self.cells[0].record.higher_is_better

    @property
    def time(self) -> str:
        """What the axis of time is called."""
        clocks = dict.fromkeys(run.unit for run in self.runs)
        return ", or ".join(clocks)

    @property
    def horizon(self) -> float:
        """Until when the longest run goes."""
        return max(run.experiment.horizon for run in self.runs)

    @property
    def seeds(self) -> str:
        """How many seeds there are, in words."""
        count = len({cell.record.seed for cell in self.cells})
        return f"{count} seed{'s' if count > 1 else ''}"

    def of(self, label: str, *, ended: bool = True) -> list[PageCell]:
        """The cells of an algorithm, with or without those that ended before their time."""
        return [cell for cell in self.cells if cell.label == label and (ended or not cell.record.ended)]


def read_report_data(paths: Sequence[Path]) -> ReportData:
    """Read the run folders; a sentence if one of them is none, has nothing to show, or cannot be compared."""
    return report_data_of([open_run(path) for path in paths])


def report_data_of(runs: Sequence[Run]) -> ReportData:
    """What a page shows of these runs; a sentence if one has nothing to show, or they cannot be compared."""
    data = ReportData([], [], [], [], {}, {}, {})
    for run, name in zip(runs, _names([run.path for run in runs]), strict=True):
        _add(data, run, name)
    metrics = {cell.record.metric: cell.label for cell in data.cells}
    if len(metrics) > 1:
        told = " and ".join(f"{metric} ({label})" for metric, label in metrics.items())
        raise UserMistake(f"the runs have different metrics, {told}, and cannot share a page; report them one by one")
    return data


def _add(data: ReportData, run: Run, name: str) -> None:
    if not run.cells:
        raise UserMistake(run.nothing_to_show)
    experiment = run.experiment
    shown = PageRun(name, run.path, experiment, run.summary, run.missing, run.clock == "real")
    before, after = str(experiment.evaluation.steps[0]), headline_column(experiment)
    data.runs.append(shown)
    data.labels.extend(shown.label(label) for label in experiment.labels)
    data.references.extend(record._replace(name=shown.label(record.name)) for record in run.references)
    noted = {seed: run.traits(seed) for seed in experiment.seeds}
    for cell in run.cells:
        label, table = shown.label(cell.label), run.timeline(cell.label, cell.seed)
        data.tables.setdefault(label, table)
        data.traits[label, cell.seed] = traits_of(cell, table, noted[cell.seed])
        data.cells.append(PageCell(label, cell, before, after))
        if measured := run.exports(cell.label, cell.seed):
            data.exports[label, cell.seed] = measured


def _names(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that tell them apart; nothing if there is only one."""
    if len(paths) == 1:
        return [""]
    places = [path.resolve() for path in paths]
    if len(set(places)) < len(places):
        raise UserMistake("RUN names the same run folder twice; name each once")
    for length in range(1, max(len(place.parts) for place in places) + 1):
        names = ["/".join(place.parts[-length:]) for place in places]
        if len(set(names)) == len(names):
            break
    return names
