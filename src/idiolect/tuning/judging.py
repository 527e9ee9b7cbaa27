"""Runs an algorithm with some settings on validation parts and scores it, after all of the horizon or some of it."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from idiolect.contracts import Params
from idiolect.engines import Workers
from idiolect.errors import Diverged, Refused
from idiolect.experiments.building import BuiltSeed
from idiolect.experiments.evaluation_plan import headline_column, plan_evaluation
from idiolect.experiments.recipe_files import completed
from idiolect.experiments.recipe_tables import NamedAlgorithm
from idiolect.experiments.records import CellRecord, Point
from idiolect.experiments.running import Services, run_cells
from idiolect.experiments.value import Experiment
from idiolect.tuning.search_space import with_settings
from idiolect.tuning.trial_journal import Asked, Judgement


class _Enough(Exception):
    """A run has come to the rung at which it is scored."""


class Judge(NamedTuple):
    """Runs an algorithm of an experiment on the tuning seeds with some settings, and scores it."""

    experiment: Experiment
    starts: Callable[[BuiltSeed], Params | None]
    data_dir: Path | None

    def asked(self, label: str, one: Asked) -> Judgement | None:
        """What a study asks for, judged."""
        return self.judge(label, one.settings, one.share)

    def judge(self, label: str, settings: dict[str, Any], share: float) -> Judgement | None:
        """The mean score over seeds, and whether more is better; None if the run came to nothing."""
        line = self.experiment.lines[self.experiment.labels.index(label)]
        assert isinstance(line, NamedAlgorithm)
        try:
            return self._at_rung(line, settings, share) if share < 1 else self._at_end(line, settings)
        except (Diverged, Refused):
            return None

    def _at_end(self, line: NamedAlgorithm, settings: dict[str, Any]) -> Judgement | None:
        trial = self._trial(line, settings, plan_evaluation(self.experiment).times[-self.experiment.evaluation.last :])
        with Workers() as workers:
            results = run_cells(completed(trial), Services(workers), data_dir=self.data_dir, starts=self.starts)
            found = [result.record for result in results]
        if any(cell.ended for cell in found):
            return None
        return Judgement((float(np.mean([_score(trial, cell) for cell in found])),), found[0].higher_is_better)

    def _at_rung(self, line: NamedAlgorithm, settings: dict[str, Any], share: float) -> Judgement | None:
        """Seed by seed, each run until its rung and no further: the beginning of the whole run, to the byte."""
        rung, column = share * self.experiment.horizon, headline_column(self.experiment)
        trial, found = self._trial(line, settings, [rung]), list[tuple[Point, bool]]()
        for seed in trial.seeds:
            heard = self._until(completed(trial.replace(seeds=[seed])), rung)
            if heard is None:
                return None
            found.append(heard)
        scores = [point.scores["participating"][column].mean for point, _ in found]
        return Judgement((float(np.mean(scores)),), found[0][1])

    def _until(self, trial: Experiment, rung: float) -> tuple[Point, bool] | None:
        """The point of a run at a time, and whether more is better; None if it ended before."""
        heard, higher = list[Point](), list[bool]()

        def listen(label: str, seed: int, point: Point) -> None:
            if point.time >= rung:
                heard.append(point)
                raise _Enough

        def on_seed(built: BuiltSeed) -> None:
            higher.append(built.problem.metrics[0].higher_is_better)

        with Workers() as workers, suppress(_Enough):
            services = Services(workers, listen=listen)
            list(run_cells(trial, services, data_dir=self.data_dir, starts=self.starts, on_seed=on_seed))
        return (heard[0], higher[0]) if heard else None

    def _trial(self, line: NamedAlgorithm, settings: dict[str, Any], times: list[float]) -> Experiment:
        # The start as well: of a run that ends early there must be something to show.
        changes = {"split": "validation", "references": [], "times": sorted({0.0, *times})}
        evaluation = self.experiment.evaluation.model_copy(update=changes)
        lines = [with_settings(line, settings)]
        return self.experiment.replace(algorithms=lines, evaluation=evaluation, factory=None)


def _score(experiment: Experiment, cell: CellRecord) -> float:
    """The headline score over the last evaluations that count."""
    column, last = headline_column(experiment), cell.points[-experiment.evaluation.last :]
    return float(np.mean([point.scores["participating"][column].mean for point in last]))
