"""The summary of a run: per algorithm, over seeds, the numbers at the end of the virtual time."""

import platform
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from idiolect.evaluation.scores import Spread, spread
from idiolect.experiments.evaluation_plan import Meaning, headline_column, meaning
from idiolect.experiments.pretraining import pretraining
from idiolect.experiments.recipe_tables import Chosen
from idiolect.experiments.records import DISTANCE, CellRecord, Point, ReferenceRecord
from idiolect.experiments.value import Experiment
from idiolect.results.gains import Gains, gains_by_size
from idiolect.results.statistics import MeanStd, mean_std

_AT_THE_END = (DISTANCE, "consensus_gap", "smallest_y")
_ON_AVERAGE = ("residual", "capped")
_REPORTED = ("idiolect", "jax", "numpy", "optax")


class OverSeeds(NamedTuple):
    """A metric over clients and seeds."""

    mean: float
    std: float  # over seeds, of the mean over clients
    std_over_clients: float
    worst_decile: MeanStd
    clients: int


class AlgorithmSummary(NamedTuple):
    """What one algorithm came to."""

    seeds: list[int]
    scores: dict[str, dict[str, OverSeeds]]  # group -> "global", "personalized", "own"
    also: dict[str, dict[str, OverSeeds]]  # further metrics of participating clients
    bits: MeanStd
    bytes: MeanStd
    updates: MeanStd
    wall_clock_seconds: MeanStd
    averages: dict[str, float]  # over all points, of what clients reported of their inner problems
    at_the_end: dict[str, MeanStd]  # what was measured of the network and of known minimisers
    leaked_share: MeanStd | None  # of the weight y; None where there is a server
    at_end: dict[
        str, MeanStd
    ]  # the same scores of participating clients at the end alone, where more evaluations count
    server_steps: MeanStd  # versions of the shared model; without a server, rounds
    refusals: dict[int, Mapping[int, dict[str, int]]]  # by seed and client
    refused_messages: dict[int, Mapping[int, dict[int, int]]]  # by seed, sender and receiver
    ended: dict[int, str]  # by seed, why it ended before its time

    @property
    def participating(self) -> dict[str, OverSeeds]:
        """The scores of those who took part in training."""
        return self.scores["participating"]


class GroupScore(NamedTuple):
    """The headline score of a group of clients under one algorithm, and its gain over the first algorithm."""

    mean: float
    std: float
    gain: MeanStd


class GroupSummary(NamedTuple):
    """A named group of clients."""

    clients: list[int]
    algorithms: dict[str, GroupScore]


class Summary(NamedTuple):
    """What a whole run came to."""

    recipe: str
    metric: str
    higher_is_better: bool
    what: Meaning
    virtual_time: float
    algorithms: dict[str, AlgorithmSummary]
    groups: dict[str, GroupSummary]
    gains: Gains | None
    references: dict[str, dict[str, OverSeeds]]  # name -> metric
    versions: dict[str, str]
    clock: str
    advice: list[str]
    chosen: Chosen | None  # how the settings were found, where the experiment says so
    began: str = ""  # with which trained models, and what training them took; empty where models were drawn
    unscored: Mapping[str, dict[int, str]] = {}  # by algorithm and seed, why a cell has no score, not even a first one
    rounds: int | None = None  # where time is counted in them

    @property
    def when(self) -> str:
        """At what time its numbers are, in words."""
        return when_ended(self.virtual_time, self.rounds, self.clock)


def summarize(
    experiment: Experiment,
    cells: Sequence[CellRecord],
    references: Sequence[ReferenceRecord],
    *,
    clock: str = "virtual",
    advice: Sequence[str] = (),
    versions: dict[str, str] | None = None,
    unscored: Sequence[CellRecord] = (),
) -> Summary:
    """Sum up the finished cells of a run; there must be one. Without `versions`, those of this process are noted."""
    columns = {
        "global": str(experiment.evaluation.steps[0]),
        "personalized": headline_column(experiment),
        "own": "own",
    }
    algorithms = {}
    for label in experiment.labels:
        mine = [cell for cell in cells if cell.label == label]
        if mine:
            algorithms[label] = _algorithm(experiment, mine, columns)
    first, groups = cells[0], experiment.evaluation.groups
    return Summary(
        experiment.name,
        first.metric,
        first.higher_is_better,
        meaning(experiment),
        experiment.horizon,
        algorithms,
        {name: _group(experiment, cells, members) for name, members in groups.items()},
        gains_by_size(experiment, cells),
        _references(experiment, references, first) if references else {},
        versions_here() if versions is None else versions,
        clock,
        list(advice),
        experiment.chosen,
        _began(experiment),
        {label: ends for label in experiment.labels if (ends := _ends(unscored, label))},
        experiment.rounds,
    )


def _ends(cells: Sequence[CellRecord], label: str) -> dict[int, str]:
    """By seed, why cells of an algorithm ended."""
    return {cell.seed: cell.ended for cell in cells if cell.label == label and cell.ended}


def versions_here() -> dict[str, str]:
    """Of Python and of what computes."""
    return {"python": platform.python_version(), **{name: version(name) for name in _REPORTED}}


def averaged(cell: CellRecord, last: int, group: str, column: str) -> Spread:
    """The spread of a score over clients, averaged over the last evaluations."""
    spreads = [point.scores[group][column] for point in cell.points[-last:]]
    mean, std, worst = (float(np.mean([one[k] for one in spreads])) for k in range(3))
    return Spread(mean, std, worst, spreads[0].clients)


def _algorithm(experiment: Experiment, cells: list[CellRecord], columns: dict[str, str]) -> AlgorithmSummary:
    ends, last = [cell.end for cell in cells], experiment.evaluation.last
    groups: list[str] = [group for group in ("participating", "unseen") if group in ends[0].scores]
    scores = {
        group: {
            name: _over_seeds([averaged(cell, last, group, column) for cell in cells])
            for name, column in columns.items()
        }
        for group in groups
    }
    also = {
        metric: {
            name: _over_seeds([_of_clients(cell, metric, column, higher) for cell in cells])
            for name, column in columns.items()
        }
        for metric, higher in cells[0].also.items()
    }
    reported = {
        name: [point.reports[name] for cell in cells for point in cell.points if name in point.reports]
        for name in _ON_AVERAGE
    }
    leaked = [_leaked_share(end.reports) for end in ends] if "y_leaked" in ends[0].reports else None
    return AlgorithmSummary(
        [cell.seed for cell in cells],
        scores,
        also,
        mean_std([_over_participating(cell, lambda client: client.bits) for cell in cells]),
        mean_std([_over_participating(cell, lambda client: client.bytes) for cell in cells]),
        mean_std([end.updates for end in ends]),
        mean_std([cell.seconds for cell in cells]),
        {name: float(np.mean(values)) for name, values in reported.items() if values},
        {name: mean_std([end.reports[name] for end in ends]) for name in _AT_THE_END if name in ends[0].reports},
        None if leaked is None else mean_std(leaked),
        _at_end(ends, columns) if last > 1 else {},
        mean_std([cell.server_steps for cell in cells]),
        {cell.seed: cell.refusals for cell in cells if cell.refusals},
        {cell.seed: cell.refused_messages for cell in cells if cell.refused_messages},
        _ends(cells, cells[0].label),
    )


def _at_end(ends: Sequence[Point], columns: dict[str, str]) -> dict[str, MeanStd]:
    return {name: mean_std([end.scores["participating"][k].mean for end in ends]) for name, k in columns.items()}


def _group(experiment: Experiment, cells: Sequence[CellRecord], members: list[int]) -> GroupSummary:
    """The headline scores of some clients, and how much more they are than with the experiment's first algorithm.

    Differences are taken seed by seed, so that their spread is not that of the seeds themselves.
    """
    column = headline_column(experiment)
    scores = {(cell.label, cell.seed): cell.scores_over(experiment.evaluation.last, column) for cell in cells}
    means = {
        key: float(np.mean(found))
        for key, mine in scores.items()
        if (found := [score for client, score in mine.items() if client in members])
    }
    group, first = {}, experiment.labels[0]
    for label in experiment.labels:
        seeds = [seed for seed in experiment.seeds if (label, seed) in means]
        both = [seed for seed in seeds if (first, seed) in means]
        if both:
            gain = mean_std([means[label, seed] - means[first, seed] for seed in both])
            group[label] = GroupScore(*mean_std([means[label, seed] for seed in seeds]), gain)
    return GroupSummary(members, group)


def _of_clients(cell: CellRecord, metric: str, column: str, higher_is_better: bool) -> Spread:
    """A further metric over the participating clients at the end."""
    return spread([client.also[metric][column] for client in cell.participating], higher_is_better)


def _references(
    experiment: Experiment, records: Sequence[ReferenceRecord], cell: CellRecord
) -> dict[str, dict[str, OverSeeds]]:
    """Every reference's scores over participating clients and seeds, by metric."""
    metrics = {cell.metric: cell.higher_is_better, **cell.also}
    return {
        name: {
            metric: _over_seeds([spread(list(r.scores[metric].values()), higher) for r in records if r.name == name])
            for metric, higher in metrics.items()
        }
        for name in experiment.evaluation.references
    }


def _over_participating(cell: CellRecord, number: Callable[[Any], float]) -> float:
    return float(np.mean([number(client) for client in cell.participating]))


def _leaked_share(reports: dict[str, float]) -> float:
    """The share of the weight y that no agent has, or will ever get."""
    found = reports["y_with_agents"] + reports["y_under_way"] + reports["y_recoverable"]
    return reports["y_leaked"] / (found + reports["y_leaked"])


def _over_seeds(spreads: list[Spread]) -> OverSeeds:
    return OverSeeds(
        *mean_std([one.mean for one in spreads]),
        float(np.mean([one.std for one in spreads])),
        mean_std([one.worst_decile for one in spreads]),
        spreads[0].clients,
    )


def _began(experiment: Experiment) -> str:
    start = experiment.start
    if start is None:
        return ""
    if start.pretrain is None:
        return f"every algorithm begins with the model of {start.label} in the run {start.run}"
    name, before = start.pretrain.label or start.pretrain.name, pretraining(experiment)
    when = when_ended(before.horizon, before.rounds)
    return f"every algorithm begins with the model that {name} has {when}, trained beside the budget shown"


def when_ended(horizon: float, rounds: int | None, clock: str = "virtual") -> str:
    """The end of a run, in words."""
    return f"at {clock} time {horizon:g}" if rounds is None else f"after {rounds} round{'s' if rounds > 1 else ''}"
