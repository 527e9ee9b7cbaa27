"""Trials of an experiment's algorithms on validation parts: the same number for each, kept in a journal, resumable.

Every algorithm has a study of its own (Optuna's tree-structured Parzen estimator, seeded). A trial runs the algorithm
with the suggested settings on the tuning seeds and is scored as the experiment's headline is: on validation parts,
never on test parts. The first trial is the algorithm as it is, where the search includes that. The journal holds every
finished trial, so that a study that was interrupted goes on. With halving, most trials are cut at rungs of the horizon
(`idiolect.tuning.halving`), by the same rule for each algorithm, so that each has the same budget.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from idiolect.errors import UserMistake
from idiolect.experiments.describing import describe, difference
from idiolect.experiments.recipe_files import completed, read_toml
from idiolect.experiments.recipe_tables import Chosen, NamedAlgorithm
from idiolect.experiments.sources import source_of
from idiolect.experiments.value import Experiment
from idiolect.files import write_atomically
from idiolect.interface import first_models
from idiolect.results.beginning import alone_in
from idiolect.results.trained_models import identified
from idiolect.tuning.halving import Halving, read_halving
from idiolect.tuning.judging import Judge
from idiolect.tuning.search_space import Search, searches_of, settings_of, with_settings
from idiolect.tuning.trial_journal import TrialStudy, Tried, judge_in_order
from idiolect.tuning.trial_processes import judge_side_by_side

JOURNAL, TUNED = "journal.log", "tuned.toml"


class Trial(NamedTuple):
    """Settings that were tried, and their score; None where the run diverged or was refused.

    `share` is the share of the horizon after which it was scored last: below 1, it was cut there. `spent` is what was
    run of it in all, rung by rung, in runs of the whole horizon.
    """

    settings: dict[str, Any]
    score: float | None
    share: float = 1.0
    spent: float = 1.0

    @property
    def ended(self) -> bool:
        """Did it come to its end, so that it can be chosen?"""
        return self.score is not None and self.share == 1.0

    @property
    def cut(self) -> bool:
        """Was it stopped at a rung, since others were better there?"""
        return self.score is not None and self.share < 1.0


class Study(NamedTuple):
    """All trials of one algorithm."""

    label: str
    trials: list[Trial]
    higher_is_better: bool

    @property
    def best(self) -> Trial:
        """The trial with the best score at its end; the first of equals."""
        sign = 1 if self.higher_is_better else -1
        scored = [trial for trial in self.trials if trial.ended]
        if not scored:
            raise UserMistake(
                f"none of the {len(self.trials)} trials of {self.label} came to its end; search elsewhere"
            )
        return max(scored, key=lambda trial: sign * (trial.score or 0.0))

    @property
    def cut(self) -> int:
        """How many trials were stopped at a rung."""
        return sum(trial.cut for trial in self.trials)

    @property
    def failed(self) -> int:
        """How many came to nothing."""
        return sum(trial.score is None for trial in self.trials)

    @property
    def spent(self) -> float:
        """What was run, in runs of the whole horizon."""
        return sum(trial.spent for trial in self.trials)


def tune(
    experiment: Experiment,
    searches: Sequence[Search],
    *,
    trials: int,
    seeds: Sequence[int],
    out: str | Path,
    data_dir: Path | None = None,
    halving: int = 0,
    jobs: int = 1,
    code: Sequence[str] = (),
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
        halving: If it is 3, trials come in cohorts of nine, of which the best third goes on after a ninth of the
            horizon, and the best of those after a third; 0 cuts none. The rule is the same for every algorithm.
        jobs: Trials that are run at once, each in a process of its own, to the same results. A script that asks for
            more than one must do so below `if __name__ == "__main__":`, since each process imports it.
        code: Modules and files that register what a recipe names, for those processes.
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
    rungs = read_halving(halving)
    how: dict[str, Any] = {"seeds": list(seeds), "search": _told(searches)}
    how |= {"halving": halving, "trials": trials} if halving else {}  # without it, more trials can be added later
    with _begun(folder, {**describe(experiment), "tuning": how}):
        here = identified(experiment.replace(seeds=list(seeds)))
        starts = first_models(here, folder, notice=lambda sentence: None, data_dir=data_dir, stop=stop)
        asked = _Asked(folder, rungs, trials, progress)
        found = {line.label or line.name: asked.study(experiment, line, searches) for line in _named(experiment)}
        if jobs > 1:
            source = source_of(experiment, tuple(code), data_dir, who=f"--jobs is {jobs}, whose processes")
            judge_side_by_side(found, jobs, source, tuple(seeds), folder, stop)
        else:
            judge = Judge(here, starts, data_dir)
            for label, study in found.items():
                judge_in_order(study, partial(judge.asked, label), stop)
    studies = [_study(label, study.tried()) for label, study in found.items()]
    lines = [with_settings(line, one.best.settings) for line, one in zip(_named(experiment), studies, strict=True)]
    chosen = Chosen(
        split="validation",
        seeds=list(seeds),
        trials=trials,
        search=_told(searches),
        scores=_scores(studies),
        note=spent_in_words(studies, halving) if halving else "",
    )
    return completed(experiment.replace(algorithms=lines, chosen=chosen)), studies


@contextmanager
def _begun(folder: Path, tables: dict[str, Any]) -> Iterator[None]:
    """The folder of these trials, made if it is not there, while no other process can try anything in it."""
    _check_folder(folder, tables)  # before anything is left in a folder of somebody else's
    folder.mkdir(parents=True, exist_ok=True)
    with alone_in(folder):
        _check_folder(folder, tables)  # what was seen before may have changed
        write_atomically(folder / TUNED, tomli_w.dumps(tables).encode())
        yield


def _check_folder(folder: Path, tables: dict[str, Any]) -> None:
    """Refuse a folder that has trials of something else: they could not be compared."""
    noted = folder / TUNED
    if noted.is_file():
        if found := difference(read_toml(noted.read_text("utf-8"), str(noted)), tables):
            raise UserMistake(f"--out {folder} has trials of another experiment or search: {found}; name a new folder")
    elif (folder / JOURNAL).exists():
        raise UserMistake(f"--out {folder} has trials, but no {TUNED} that says of what; name a new folder")


def _named(experiment: Experiment) -> list[NamedAlgorithm]:
    """The algorithms, all of which must have options to search."""
    found = []
    for line in experiment.lines:
        if not isinstance(line, NamedAlgorithm):
            raise UserMistake(f"{line.name} is a record of one's own, which has no options to search; name it")
        found.append(line)
    return found


class _Asked(NamedTuple):
    """What is asked of every algorithm's study alike."""

    folder: Path
    halving: Halving
    trials: int
    progress: Callable[[str, int, float | None], None]

    def study(self, experiment: Experiment, line: NamedAlgorithm, searches: Sequence[Search]) -> TrialStudy:
        """The study of an algorithm; one that no search fits has one trial, and is cut nowhere."""
        mine, label = searches_of(experiment, line, list(searches)), line.label or line.name
        return TrialStudy(
            self.folder / JOURNAL,
            label,
            mine,
            trials=self.trials if mine else 1,
            as_it_is=settings_of(experiment, line, mine),
            halving=self.halving if mine else Halving(),
            heard=lambda done, found: self.progress(label, done, None if found is None else found.scores[0]),
        )


def _study(label: str, tried: Sequence[Tried]) -> Study:
    higher = next((one.higher_is_better for one in tried if one.scores is not None), True)
    scored = [Trial(one.settings, one.scores[0] if one.scores else None, one.share, one.spent) for one in tried]
    return Study(label, scored, higher)


def spent_in_words(studies: Sequence[Study], halving: int) -> str:
    """How trials were cut, and what each algorithm spent."""
    each = "; ".join(
        f"{one.label}: {one.cut} of {len(one.trials)} cut, {one.failed} failed, {one.spent:.3g} runs" for one in studies
    )
    return (
        f"Of {halving**2} trials at a time, one in {halving} went on after 1/{halving**2} of the horizon, and one in "
        f"{halving} of those after 1/{halving}. Spent, in runs of the whole horizon: {each}."
    )


def _told(searches: Sequence[Search]) -> dict[str, str]:
    return {f"{search.label}.{search.name}": str(search) for search in searches}


def _scores(studies: Sequence[Study]) -> dict[str, float]:
    return {study.label: round(study.best.score or 0.0, 4) for study in studies}
