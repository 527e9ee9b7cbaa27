"""When and how the runs of an experiment are scored, and what its headline numbers are, in words."""

from typing import NamedTuple

import numpy as np

from idiolect.evaluation.scores import OWN, Budget
from idiolect.experiments.value import Experiment


class EvaluationPlan(NamedTuple):
    """When a run is scored, with which budgets, which of them is the headline, and whether scenes are kept."""

    times: list[float]
    budget: Budget
    headline: str
    scenes: bool = True  # what models do at the start and at the end, for pictures


class Meaning(NamedTuple):
    """What the headline numbers are, in words, for whoever reads a summary later."""

    received: str  # the model that is called global
    personalized: str
    scored_on: str
    spread: str


def plan_evaluation(experiment: Experiment) -> EvaluationPlan:
    """How the experiment wants its runs scored."""
    table = experiment.evaluation
    budget = Budget(tuple(table.steps), table.step_size, table.batch_size, table.split, table.at_most)
    if table.times is None:
        times = np.linspace(0, experiment.horizon, table.points + 1).tolist()
    else:
        times = sorted({*table.times, experiment.horizon})
    return EvaluationPlan(times, budget, headline_column(experiment))


def headline_column(experiment: Experiment) -> str:
    """Which scores are "the personalized model": after the most steps of the common budget, or after each one's own."""
    return OWN if experiment.evaluation.headline == "own" else str(experiment.evaluation.steps[-1])


def steps_in_words(count: int, size: float) -> str:
    """How a model was adapted."""
    return f"{count} gradient step{'' if count == 1 else 's'} of size {size:g}"


def meaning(experiment: Experiment) -> Meaning:
    """What is scored, and on what."""
    evaluation = experiment.evaluation
    first, last, count = evaluation.steps[0], evaluation.steps[-1], evaluation.last
    when = "at the end of the run" if count == 1 else f"mean over the last {count} evaluations of the run"
    return Meaning(
        "the model as received, 0 adaptation steps"
        if first == 0
        else f"after {steps_in_words(first, evaluation.step_size)}",
        "after the adaptation that each objective prescribes"
        if evaluation.headline == "own"
        else f"after {steps_in_words(last, evaluation.step_size)} on the client's adaptation part",
        f"each client's {evaluation.split} part, {when} (no round is picked)",
        "std over seeds of the mean over clients; worst decile: mean over the worst tenth of clients",
    )
