"""Advice on bit widths for budgets of bytes, memory and time: tried out, and judged on validation data."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from idiolect import catalog
from idiolect.errors import UserMistake
from idiolect.experiments.building import build_problem
from idiolect.experiments.recipe_tables import NamedAlgorithm
from idiolect.experiments.records import CellRecord
from idiolect.experiments.running import Progress
from idiolect.experiments.value import Experiment
from idiolect.interface import check_end, run
from idiolect.results.run import Run


class Candidate(NamedTuple):
    """What one width came to: bytes of a client's model, mean score over clients and seeds, and its standard error.

    Where somebody has measured it, also the memory that the model takes while it runs, and milliseconds for a sample.
    """

    bits: int
    bytes: int
    score: float
    error: float
    memory: int | None = None
    milliseconds: float | None = None


class Limits(NamedTuple):
    """What a device has for a model that runs there, whatever its file takes; None where it does not matter."""

    memory: int | None = None
    milliseconds: float | None = None

    def admit(self, candidate: Candidate) -> bool:
        """Whether a measured model stays within them."""
        pairs = ((candidate.memory, self.memory), (candidate.milliseconds, self.milliseconds))
        return all(most is None or (found is not None and found <= most) for found, most in pairs)


Running: TypeAlias = Callable[[Run, str], tuple[int | None, float]]
"""(run, label) -> memory and milliseconds of a model of this algorithm where it runs."""


class Advice(NamedTuple):
    """All widths tried, and the one chosen for each byte budget (None: as many as it takes); None where none fits."""

    candidates: list[Candidate]
    chosen: dict[int | None, int | None]


def advise_widths(
    experiment: Experiment,
    budgets: Sequence[int | None],
    widths: Sequence[int] = (1, 2, 3, 4),
    *,
    out: str | Path,
    limits: Limits = Limits(),
    running: Running | None = None,
    label: str | None = None,
    data_dir: Path | None = None,
    progress: Callable[[Experiment], AbstractContextManager[Callable[[Progress], None]]] | None = None,
) -> Advice:
    """Run an algorithm at every width, score it on validation data, and choose a width for every budget.

    Of the widths that fit the narrowest is chosen whose score is within one standard error of the best. The runs go
    into the folder `out`, and go on there if they were interrupted.

    Args:
        experiment: One with an algorithm of the catalog that has bit widths.
        budgets: Bytes of a client's model: one for all, or one for each client; None for as many as it takes.
        widths: Bits to try.
        out: The run folder.
        limits: What a model may take where it runs.
        running: Measures that, for every width.
        label: Which algorithm, if the experiment has several with bit widths.
        data_dir: Where data sets lie.
        progress: Makes a progress bar for the runs.

    Returns:
        What every width came to, and the choice for every budget.

    Example:
        >>> from idiolect import Choice, Experiment, NamedAlgorithm, advise_widths
        >>> line = NamedAlgorithm(name="qupel", objective={"keep": [], "lambda_p": 0.5})
        >>> problem = Choice("quadratics", {"clients": 4, "samples": 40})
        >>> advice = advise_widths(Experiment(problem, [line], horizon=30.0), [50], (1, 2), out=tmp / "widths")
        >>> [candidate.bits for candidate in advice.candidates]
        [1, 2]
    """
    widths = sorted(widths)
    trial = _trial(experiment, _choose(experiment, label), widths)
    if len(budgets) > 1:
        _check_budgets(trial, budgets, data_dir)
    watched = progress(trial) if progress is not None else nullcontext(lambda state: None)
    with watched as report:
        done = check_end(run(trial, out=out, data_dir=data_dir, progress=report))
    candidates = [_candidate(width, name, done.cells) for width, name in zip(widths, trial.labels, strict=True)]
    if running is not None:
        taken = [running(done, name) for name in trial.labels]
        candidates = [one._replace(memory=m, milliseconds=t) for one, (m, t) in zip(candidates, taken, strict=True)]
    return Advice(candidates, {budget: choose_width(candidates, budget, limits) for budget in budgets})


def choose_width(candidates: Sequence[Candidate], budget: int | None, limits: Limits = Limits()) -> int | None:
    """The narrowest width that fits, and is within one standard error of the best that does."""
    fitting = [one for one in candidates if (budget is None or one.bytes <= budget) and limits.admit(one)]
    if not fitting:
        return None
    best = max(fitting, key=lambda candidate: candidate.score)
    return min(c.bits for c in fitting if c.score >= best.score - best.error)


def _check_budgets(trial: Experiment, budgets: Sequence[int | None], data_dir: Path | None) -> None:
    clients = build_problem(trial, trial.seeds[0], data_dir).clients.total
    if len(budgets) != clients:
        raise UserMistake(f"--bytes has {len(budgets)} budgets, but must have 1 for all or {clients}, one per client")


def _choose(experiment: Experiment, label: str | None) -> NamedAlgorithm:
    wide = {
        name: line
        for name, line in zip(experiment.labels, experiment.lines, strict=True)
        if isinstance(line, NamedAlgorithm) and "bits" in catalog.options_of(line.name, line.objective, {})[0]
    }
    if label is None and len(wide) == 1:
        return next(iter(wide.values()))
    if label not in wide:
        said = "is missing" if label is None else f"is '{label}'"
        raise UserMistake(f"--algorithm {said}; with bit widths the recipe has {', '.join(wide) or 'none'}")
    return wide[label]


def _trial(experiment: Experiment, line: NamedAlgorithm, widths: Sequence[int]) -> Experiment:
    """The experiment with this algorithm alone, once for every width, judged on validation data."""
    if len(set(widths)) != len(widths) or not widths:
        raise UserMistake(f"--widths are {list(widths)}, but must be some different numbers of bits")
    options = {key: value for key, value in line.objective.items() if key not in ("bits", "levels")}
    name = line.label or line.name
    trials = [
        line.model_copy(update={"label": f"{name}-{width}bit", "objective": {**options, "bits": width}, "attack": None})
        for width in widths
    ]
    evaluation = experiment.evaluation.model_copy(update={"split": "validation", "headline": "own"})
    return experiment.replace(name=f"{experiment.name}-widths", evaluation=evaluation, algorithms=trials, factory=None)


def _candidate(width: int, label: str, cells: Sequence[CellRecord]) -> Candidate:
    clients = [client for cell in cells if cell.label == label for client in cell.participating]
    scores = [client.scores["own"] for client in clients]
    sign = 1 if cells[0].higher_is_better else -1
    error = float(np.std(scores, ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else 0.0
    return Candidate(width, max(client.bytes for client in clients), sign * float(np.mean(scores)), error)
