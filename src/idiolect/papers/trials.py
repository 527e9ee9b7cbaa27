"""The runs that exhibits are made from: ordinary run folders, which exhibits share, of built-in recipes at a scale."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from idiolect.experiments.evaluation_plan import headline_column
from idiolect.experiments.recipe_files import completed, load_recipe
from idiolect.experiments.records import CellRecord, ReferenceRecord
from idiolect.experiments.running import Progress
from idiolect.experiments.value import Experiment
from idiolect.interface import check_end, run
from idiolect.papers.exhibit import Request, Scale
from idiolect.papers.experiment_changes import Change, unchanged
from idiolect.papers.provenance import note_start
from idiolect.papers.wording import listed
from idiolect.results.beginning import check_folder
from idiolect.results.folder import RunFolder
from idiolect.results.run import Run, open_run


class Size(NamedTuple):
    """A built-in recipe at one scale, and how its experiment is changed for it."""

    words: str
    seeds: tuple[int, ...]
    recipe: str
    change: Change = unchanged


class Trial(NamedTuple):
    """One run that an exhibit needs."""

    name: str
    sizes: Mapping[str, Size]

    def scales(self) -> dict[str, Scale]:
        """What an exhibit made from this run says of its scales."""
        return {name: Scale(size.words, size.seeds) for name, size in self.sizes.items()}


class FinishedTrial(NamedTuple):
    """A finished run, and the numbers that claims are about."""

    run: Run

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self.run.path

    @property
    def experiment(self) -> Experiment:
        """What was run."""
        return self.run.experiment

    @property
    def cells(self) -> list[CellRecord]:
        """Every algorithm on every seed."""
        return self.run.cells

    @property
    def references(self) -> list[ReferenceRecord]:
        """What the references score on every seed."""
        return self.run.references

    @property
    def labels(self) -> list[str]:
        """The algorithms."""
        return self.experiment.labels

    @property
    def seeds(self) -> list[int]:
        """The seeds, in the order of every list of numbers below."""
        return list(self.experiment.seeds)

    @property
    def seconds(self) -> float:
        """What its cells and references took when they were run."""
        return float(sum([*(cell.seconds for cell in self.cells), *(one.seconds for one in self.references)]))

    def of(self, label: str) -> list[CellRecord]:
        """An algorithm's cells, one for each seed."""
        found = {cell.seed: cell for cell in self.cells if cell.label == label}
        return [found[seed] for seed in self.seeds]

    def scores(self, label: str, column: str | None = None, metric: str | None = None) -> list[float]:
        """Mean over participating clients for each seed; of the headline and first metric if not named.

        The first metric is the mean over the last evaluations if the experiment asks for that, others are at the end.
        """
        column, last = column or headline_column(self.experiment), self.experiment.evaluation.last
        return [_score(cell, column, metric, last) for cell in self.of(label)]

    def of_clients(self, label: str, column: str | None = None) -> list[dict[int, float]]:
        """The same of every participating client, for claims whose clients are nested in seeds."""
        column, last = column or headline_column(self.experiment), self.experiment.evaluation.last
        return [_scores_of(cell, column, last) for cell in self.of(label)]

    def referred(self, name: str, metric: str) -> list[dict[int, float]]:
        """What a reference scores for each client, seed by seed."""
        found = {record.seed: record.scores[metric] for record in self.references if record.name == name}
        return [found[seed] for seed in self.seeds]

    def reference(self, name: str, metric: str) -> list[float]:
        """What a reference scores, mean over clients, for each seed."""
        return [float(np.mean(list(scores.values()))) for scores in self.referred(name, metric)]


def _scores_of(cell: CellRecord, column: str, last: int) -> dict[int, float]:
    mine = {client.client for client in cell.participating}
    return {client: score for client, score in cell.scores_over(last, column).items() if client in mine}


def _score(cell: CellRecord, column: str, metric: str | None, last: int) -> float:
    if metric is None or metric == cell.metric:
        if last == 1:
            return float(cell.end.scores["participating"][column].mean)
        return float(np.mean(list(_scores_of(cell, column, last).values())))
    return float(np.mean([client.also[metric][column] for client in cell.participating]))


def experiment_of(trial: Trial, scale: str, seeds: Sequence[int] | None = None) -> Experiment:
    """The experiment that a trial runs at this scale, with every option written out."""
    size = trial.sizes[scale]
    return completed(size.change(load_recipe(size.recipe)).replace(seeds=list(seeds or size.seeds)))


def folder_of(trial: Trial, request: Request) -> Path:
    """Where a trial lies; other seeds than the scale's own are another run."""
    return request.out / "runs" / named(trial.name, request, trial.sizes[request.scale].seeds)


def named(name: str, request: Request, usual: Sequence[int]) -> str:
    """The folder of something at a scale, and on which seeds if they are not the usual ones."""
    other = "" if tuple(request.seeds) == tuple(usual) else f"-seeds{listed(request.seeds, to='-', between=',')}"
    return f"{name}-{request.scale}{other}"


def carry_out(trial: Trial, request: Request) -> FinishedTrial:
    """Run a trial, or what is missing of it; a finished one is only read, and needs no data."""
    experiment, out = experiment_of(trial, request.scale, request.seeds), folder_of(trial, request)
    if _finished(experiment, out):
        return FinishedTrial(check_end(open_run(out, experiment)))
    cells = [(label, seed) for seed in experiment.seeds for label in experiment.labels]

    def show(state: Progress) -> None:
        done = cells.index((state.label, state.seed)) + min(state.time / experiment.horizon, 1.0)
        request.progress(f"{trial.name}: {state.label}, seed {state.seed}", done / len(cells))

    note_start(out)
    found = run(experiment, out=out, data_dir=request.data_dir, progress=show, stop=request.stop)
    return FinishedTrial(check_end(found))


def _finished(experiment: Experiment, out: Path) -> bool:
    if not (out / "summary.json").is_file():
        return False
    check_folder(out, experiment)  # which refuses a folder of another experiment
    folder, seeds = RunFolder(out), experiment.seeds
    known = all(folder.has_reference(name, seed) for name in experiment.evaluation.references for seed in seeds)
    return known and all(folder.has(label, seed) for label in experiment.labels for seed in seeds)
