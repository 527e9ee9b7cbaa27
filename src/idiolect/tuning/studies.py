"""Trials of an experiment's algorithms on validation parts: the same number for each, kept in a journal, resumable.

Every algorithm has a study of its own (Optuna's tree-structured Parzen estimator, seeded). A trial runs the algorithm
with the suggested settings on the tuning seeds and is scored as the experiment's headline is: on validation parts,
never on test parts. The first trial is the algorithm as it is, where the search includes that. The journal holds every
finished trial, so that a study that was interrupted goes on.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomli_w

from idiolect.contracts import Params
from idiolect.engines import Workers
from idiolect.errors import Diverged, Refused, UserMistake
from idiolect.experiments.building import BuiltSeed
from idiolect.experiments.describing import describe, difference
from idiolect.experiments.evaluation_plan import headline_column, plan_evaluation
from idiolect.experiments.recipe_files import completed, read_toml
from idiolect.experiments.recipe_tables import Chosen, NamedAlgorithm
from idiolect.experiments.records import CellRecord
from idiolect.experiments.running import Services, run_cells
from idiolect.experiments.value import Experiment
from idiolect.files import write_atomically
from idiolect.interface import first_models
from idiolect.results.trained_models import identified
from idiolect.tuning.search_space import Search, searches_of, settings_of, with_settings
from idiolect.tuning.trial_journal import Judgement, try_settings

JOURNAL, TUNED = "journal.log", "tuned.toml"


class Trial(NamedTuple):
    """Settings that were tried, and their score; None where the run diverged or was refused."""

    settings: dict[str, Any]
    score: float | None


class Study(NamedTuple):
    """All trials of one algorithm."""

    label: str
    trials: list[Trial]
    higher_is_better: bool

    @property
    def best(self) -> Trial:
        """The trial with the best score; the first of equals."""
        sign = 1 if self.higher_is_better else -1
        scored = [trial for trial in self.trials if trial.score is not None]
        if not scored:
            raise UserMistake(
                f"none of the {len(self.trials)} trials of {self.label} came to its end; search elsewhere"
            )
        return max(scored, key=lambda trial: sign * (trial.score or 0.0))


def tune(
    experiment: Experiment,
    searches: Sequence[Search],
    *,
    trials: int,
    seeds: Sequence[int],
    out: str | Path,
    data_dir: Path | None = None,
    progress: Callable[[str, int, float | None], None] = lambda label, trial, best: None,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[Experiment, list[Study]]:
    """Choose settings for every algorithm of an experiment, on validation parts of seeds that are not scored later.

    Args:
        experiment: With named algorithms; its own seeds must not be among the tuning seeds.
        searches: What is searched. An algorithm that no search fits is run as it is, and has one trial.
        trials: For every algorithm alike.
        seeds: On which trials run; a score is the mean over them.
        out: A folder for the journal; trials that are in it are not run again.
        data_dir: Where data sets lie.
        progress: Hears of every trial: the algorithm, how many are done, and the best score so far.
        stop: If it says so, no further trial is begun and `Interrupted` is raised.

    Returns:
        The experiment with the best settings of each algorithm and how they were chosen, and all trials.

    Example:
        >>> import idiolect
        >>> from idiolect.tuning import read_search, tune
        >>> mine = idiolect.Experiment(idiolect.Choice("quadratics", {"clients": 4}), ["fedavg"], horizon=40.0)
        >>> tuned, studies = tune(
        ...     mine, [read_search("training.step_size=0.01|0.1")], trials=2, seeds=[5], out=tmp / "tuning"
        ... )
        >>> tuned.chosen.trials, len(studies[0].trials)
        (2, 2)
    """
    common = sorted(set(seeds) & set(experiment.seeds))
    if common:
        raise UserMistake(f"seed {common[0]} is both to choose settings and to be scored; tune on other seeds")
    experiment, folder = completed(experiment), Path(out)
    _check_folder(folder, {**describe(experiment), "tuning": {"seeds": list(seeds), "search": _told(searches)}})
    here = identified(experiment.replace(seeds=list(seeds)))
    starts = first_models(here, folder, notice=lambda sentence: None, data_dir=data_dir, stop=stop)
    studies, lines = [], []
    for line in experiment.lines:
        if not isinstance(line, NamedAlgorithm):
            raise UserMistake(f"{line.name} is a record of one's own, which has no options to search; name it")
        mine = searches_of(experiment, line, list(searches))
        judge = _Judge(here, line, starts, data_dir)
        study = _study(folder, judge, mine, trials if mine else 1, progress, stop)
        studies.append(study)
        lines.append(with_settings(line, study.best.settings))
    chosen = Chosen(
        split="validation",
        seeds=list(seeds),
        trials=trials,
        search=_told(searches),
        scores=_scores(studies),
    )
    return completed(experiment.replace(algorithms=lines, chosen=chosen)), studies


def _check_folder(folder: Path, tables: dict[str, Any]) -> None:
    """Note what is tuned, and refuse a folder that has trials of something else: they could not be compared."""
    noted = folder / TUNED
    if noted.is_file():
        if found := difference(read_toml(noted.read_text("utf-8"), str(noted)), tables):
            raise UserMistake(f"--out {folder} has trials of another experiment or search: {found}; name a new folder")
        return
    if (folder / JOURNAL).exists():
        raise UserMistake(f"--out {folder} has trials, but no {TUNED} that says of what; name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(noted, tomli_w.dumps(tables).encode())


class _Judge(NamedTuple):
    """Runs an algorithm with some settings, and scores it."""

    experiment: Experiment  # on the tuning seeds
    line: NamedAlgorithm
    starts: Callable[[BuiltSeed], Params | None]
    data_dir: Path | None

    @property
    def label(self) -> str:
        return self.line.label or self.line.name

    def run(self, settings: dict[str, Any]) -> Judgement | None:
        """The mean score over seeds, and whether more is better; None if the run came to nothing."""
        counted = plan_evaluation(self.experiment).times[-self.experiment.evaluation.last :]
        times = sorted({0.0, *counted})  # the start as well: of a run that ends early there must be something to show
        changes = {"split": "validation", "references": [], "times": times}
        evaluation = self.experiment.evaluation.model_copy(update=changes)
        trial = self.experiment.replace(
            algorithms=[with_settings(self.line, settings)], evaluation=evaluation, factory=None
        )
        try:
            with Workers() as workers:
                results = run_cells(completed(trial), Services(workers), data_dir=self.data_dir, starts=self.starts)
                found = [result.record for result in results]
        except (Diverged, Refused):
            return None
        if any(cell.ended for cell in found):
            return None
        return Judgement((float(np.mean([_score(trial, cell) for cell in found])),), found[0].higher_is_better)


def _score(experiment: Experiment, cell: CellRecord) -> float:
    """The headline score over the last evaluations that count."""
    column, last = headline_column(experiment), cell.points[-experiment.evaluation.last :]
    return float(np.mean([point.scores["participating"][column].mean for point in last]))


def _study(
    folder: Path,
    judge: _Judge,
    searches: list[Search],
    trials: int,
    progress: Callable[[str, int, float | None], None],
    stop: Callable[[], bool],
) -> Study:
    tried = try_settings(
        folder / JOURNAL,
        judge.label,
        searches,
        trials=trials,
        judge=judge.run,
        as_it_is=settings_of(judge.experiment, judge.line, searches),
        heard=lambda done, found: progress(judge.label, done, None if found is None else found.scores[0]),
        stop=stop,
    )
    higher = next((one.higher_is_better for one in tried if one.scores is not None), True)
    scored = [Trial(one.settings, None if one.scores is None else one.scores[0]) for one in tried]
    return Study(judge.label, scored, higher)


def _told(searches: Sequence[Search]) -> dict[str, str]:
    return {f"{search.label}.{search.name}": str(search) for search in searches}


def _scores(studies: Sequence[Study]) -> dict[str, float]:
    return {study.label: round(study.best.score or 0.0, 4) for study in studies}
