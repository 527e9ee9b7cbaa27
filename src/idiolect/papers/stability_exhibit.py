"""PersA-FL, Fig. 2, stability: the sentence that the Moreau envelope is more stable than MAML.

The figure has one run of each method, so what its reader sees to be stable is a curve. Here a run's number is how far
its accuracy strays, over the last third of the time, from the straight line through it: what a method still learns
there is the line's slope and does not count. It is measured on seeds of its own, with Fig. 2b's and 2c's settings.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from idiolect.experiments.evaluation_plan import headline_column
from idiolect.experiments.records import CellRecord
from idiolect.experiments.value import Experiment
from idiolect.papers import persa_fl_exhibits
from idiolect.papers.exhibit import Claim, Exhibit, Findings, Request, Scale, Table
from idiolect.papers.experiment_changes import Change, changed, keeping
from idiolect.papers.figures import curves
from idiolect.papers.findings import at_the_desk
from idiolect.papers.trials import FinishedTrial, Size, Trial, carry_out
from idiolect.papers.verdicts import above, spread
from idiolect.report.page import Picture

NAME = "persa-fl-fig-2-stability"
ENVELOPE, MAML = "persa_fl_me", "persa_fl_maml"
_EVALUATIONS = 13  # over the last third
_QUARTER = 0.0025  # the smallest difference that would matter, stated before the runs: a quarter of a point of accuracy
_SEEDS = {"quick": (0, 1), "desk": tuple(range(40, 52)), "paper": tuple(range(40, 52))}


def _watched(change: Change, experiment: Experiment) -> Experiment:
    """The two methods alone, scored again and again over the last third of the time."""
    two = keeping(change(experiment), (ENVELOPE, MAML))
    times = np.linspace(2 / 3 * two.horizon, two.horizon, _EVALUATIONS).round(6).tolist()
    return two.replace(evaluation=changed(two.evaluation, times=times))


def _trial(figure: Trial) -> Trial:
    sizes = {
        scale: Size(size.words, _SEEDS[scale], size.recipe, partial(_watched, size.change))
        for scale, size in figure.sizes.items()
    }
    return Trial(f"{figure.name}-stability", sizes)


TRIALS: Mapping[str, Trial] = {
    "MNIST": _trial(persa_fl_exhibits.MNIST),
    "CIFAR-10": _trial(persa_fl_exhibits.CIFAR),
}


def stray(cell: CellRecord, column: str) -> float:
    """How far a run's accuracy strays from the straight line through it: the residual standard deviation."""
    times = np.array([point.time for point in cell.points])
    scores = np.array([point.scores["participating"][column].mean for point in cell.points])
    line = np.polynomial.Polynomial.fit(times, scores, 1)
    return float(np.sqrt(((scores - line(times)) ** 2).sum() / (len(times) - 2)))


def _strays(ran: FinishedTrial, label: str) -> list[float]:
    return [stray(cell, headline_column(ran.experiment)) for cell in ran.of(label)]


def _claim(data: str, ran: FinishedTrial, finding: str) -> Claim:
    return above(
        f"On {data} PersA-FL-ME is stabler than PersA-FL-MAML: over the last third of a run its accuracy strays less "
        "from a straight line",
        _strays(ran, ENVELOPE),
        _strays(ran, MAML),
        ran.seeds,
        paper="more stable, without a number",
        finding=finding,
        size=_QUARTER,
        lower=True,
    )


def _table(runs: Mapping[str, FinishedTrial]) -> Table:
    rows = [
        [data, label, spread(_strays(ran, label)), spread(ran.scores(label))]
        for data, ran in runs.items()
        for label in (ENVELOPE, MAML)
    ]
    title = "How far a run strays within itself, and how its last accuracies spread, ± standard deviation over seeds"
    return Table(title, ["data", "method", "strays by", "accuracy"], rows)


def _perform(request: Request) -> Findings:
    runs = {data: carry_out(trial, request) for data, trial in TRIALS.items()}
    found = at_the_desk(NAME, request, _SEEDS["desk"])
    claims = [_claim(data, ran, found(data)) for data, ran in runs.items()]
    pictures = [
        Picture(curves(ran, f"Accuracy over the last third, {data}"), "Mean and standard deviation over seeds.")
        for data, ran in runs.items()
    ]
    folders, seconds = [ran.folder for ran in runs.values()], sum(ran.seconds for ran in runs.values())
    return Findings(claims, pictures, [_table(runs)], folders, seconds)


EXHIBIT = Exhibit(
    NAME,
    "PersA-FL, Fig. 2, stability",
    "Which accuracy is the calmer one within a run: the Moreau envelope's or MAML's.",
    {
        scale: Scale("; ".join(trial.sizes[scale].words for trial in TRIALS.values()), seeds)
        for scale, seeds in _SEEDS.items()
    },
    _perform,
)
