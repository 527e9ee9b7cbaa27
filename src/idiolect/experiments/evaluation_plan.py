"""When and how the runs of an experiment are scored, and what its headline numbers are, in words."""

from typing import NamedTuple

import numpy as np

from idiolect import catalog
from idiolect.contracts import Algorithm, Sharing
from idiolect.errors import UserMistake
from idiolect.evaluation.neighbours import NEIGHBOURS
from idiolect.evaluation.scores import OWN, Budget
from idiolect.experiments.building import sharing_of
from idiolect.experiments.recipe_tables import Evaluation
from idiolect.experiments.value import Experiment, Line
from idiolect.protocols import ifca


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
    unseen: str = ""  # what clients that took no part have where others keep or choose something; else empty


def plan_evaluation(experiment: Experiment) -> EvaluationPlan:
    """How the experiment wants its runs scored."""
    table = experiment.evaluation
    budget = Budget(
        tuple(table.steps),
        table.step_size,
        table.batch_size,
        table.split,
        table.at_most,
        tuple(table.tunes or ()),
        table.neighbours,
    )
    if table.times is None:
        times = np.linspace(0, experiment.horizon, table.points + 1).tolist()
        if experiment.rounds is not None:  # between two of them, nothing changes
            times = sorted({float(round(time)) for time in times})
    else:
        times = sorted({*table.times, experiment.horizon})
    return EvaluationPlan(times, budget, headline_column(experiment))


def headline_column(experiment: Experiment) -> str:
    """Which scores are "the personalized model": after the most steps of the common budget, or another column."""
    named = experiment.evaluation.headline
    return str(experiment.evaluation.steps[-1]) if named == "steps" else named


def column_in_words(evaluation: Evaluation, column: str) -> str:
    """How a model was adapted whose scores stand in this column."""
    if column == OWN:
        return "the adaptation that each objective prescribes"
    if column == NEIGHBOURS:
        return "mixing it with the nearest neighbours in the client's adaptation part (kNN-Per)"
    count, layers = int(column), f" of {', '.join(evaluation.tunes)} alone" if evaluation.tunes else ""
    return f"{count} gradient step{'' if count == 1 else 's'}{layers} of size {evaluation.step_size:g}"


def meaning(experiment: Experiment) -> Meaning:
    """What is scored, and on what."""
    evaluation = experiment.evaluation
    first, column, count = evaluation.steps[0], headline_column(experiment), evaluation.last
    when = "at the end of the run" if count == 1 else f"mean over the last {count} evaluations of the run"
    return Meaning(
        "the model as received, 0 adaptation steps"
        if first == 0
        else f"after {column_in_words(evaluation, str(first))}",
        f"after {column_in_words(evaluation, column)}"
        + (" on the client's adaptation part" if evaluation.headline == "steps" else ""),
        f"each client's {evaluation.split} part, {when} (no round is picked){_of_whom(evaluation)}",
        "std over seeds of the mean over clients; worst decile: mean over the worst tenth of clients",
        "; ".join(filter(None, map(_unseen_in_words, experiment.labels, experiment.lines))),
    )


def _of_whom(evaluation: Evaluation) -> str:
    """Who is scored, if not everybody is."""
    if evaluation.at_most is None:
        return ""
    return f"; of each group a random choice of at most {evaluation.at_most:,} clients, the same at every point"


def _unseen_in_words(label: str, line: Line) -> str:
    """What a client that took no part has in place of an algorithm's private layers, or of a choice it never made."""
    if _chooses(line):
        return f"with {label} everybody takes the model whose loss is lowest on its own adaptation part"
    sharing = _sharing(line)
    if not sharing.private:
        return ""
    named = "some" if callable(sharing.private) else ", ".join(sharing.private)
    tuned = f"tuned by {sharing.tune_steps} steps on the adaptation part" if sharing.tune_steps else "not tuned"
    return f"{label} keeps {named} private: drawn as everybody's were, for the column own {tuned}"


def _chooses(line: Line) -> bool:
    """Whether a server has several models, of which each client takes one."""
    try:
        return not isinstance(line, Algorithm) and catalog.cell(line.name).protocol == ifca.__name__
    except UserMistake:
        return False


def _sharing(line: Line) -> Sharing:
    try:
        return line.sharing if isinstance(line, Algorithm) else sharing_of(line)
    except UserMistake:  # a run's folder may name what is known where it was run, and not here
        return Sharing()
