"""An experiment before training: its problem, how different its clients are, and what a run will take."""

from pathlib import Path
from typing import NamedTuple

from idiolect.experiments.building import build_seed
from idiolect.experiments.least_sizes import check_size
from idiolect.experiments.recipe_files import completed
from idiolect.experiments.value import Experiment
from idiolect.inspection.bridge_trial import bridge_advice
from idiolect.inspection.cost_estimate import Estimate, estimate
from idiolect.inspection.inspection_page import may_write, write_page
from idiolect.inspection.problem_inspection import Inspection, inspect_problem


class Inspected(NamedTuple):
    """The problem of an experiment's first seed, and an estimate of what a run will take."""

    problem: Inspection
    cost: Estimate


def inspect_experiment(
    experiment: Experiment, *, page: str | Path | None = None, data_dir: Path | None = None
) -> Inspected:
    """Look at an experiment before it is run: who holds what, how heterogeneous that is, and what a run will take.

    Args:
        experiment: The experiment; its first seed is looked at.
        page: Where a page with pictures is written, if anywhere.
        data_dir: Where data sets lie.

    Returns:
        What was found, for programs; `idiolect inspect` prints the same.

    Example:
        >>> from idiolect import Choice, Experiment, inspect_experiment
        >>> found = inspect_experiment(Experiment(Choice("quadratics", {"clients": 4}), ["fedavg"], horizon=40.0))
        >>> len(found.problem.participating)
        4
    """
    out = None if page is None else may_write(Path(page))
    experiment = completed(experiment)
    check_size(experiment, yes=True)  # to look at a long run takes no longer than to look at a short one
    built = build_seed(experiment, experiment.seeds[0], data_dir)
    cost = estimate(experiment, built)  # first, so that the memory it tells is that of a run
    batch_size = experiment.training.batch_size
    found = inspect_problem(built.problem, batch_size=batch_size, seed=built.seed)
    first = next(iter(built.cells.values())).algorithm
    found = found._replace(notes=[*found.notes, *bridge_advice(built.problem, first)])
    if out is not None:
        write_page(out, experiment, found, cost)
    return Inspected(found, cost)
