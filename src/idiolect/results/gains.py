"""Gains by personalization: clients with few samples against clients with many."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from idiolect.experiments.evaluation_plan import headline_column
from idiolect.experiments.records import CellRecord
from idiolect.experiments.value import Experiment
from idiolect.results.statistics import MeanStd, mean_std


class GainBySize(NamedTuple):
    """Gains of the third of the clients with the fewest samples, and of the third with the most."""

    few: MeanStd
    many: MeanStd


class Gains(NamedTuple):
    """Every algorithm's gain over the first one."""

    over: str
    algorithms: dict[str, GainBySize]


def gains_by_size(experiment: Experiment, cells: Sequence[CellRecord]) -> Gains | None:
    """Every algorithm's headline score minus the first one's, for clients with few samples and for those with many.

    Differences are taken client by client, and their mean over clients seed by seed. None where there is nothing to
    compare, or clients are all of one size.
    """
    first, column = experiment.labels[0], headline_column(experiment)
    scores = {(cell.label, cell.seed): cell.scores_over(experiment.evaluation.last, column) for cell in cells}
    sizes = {cell.seed: {c.client: c.samples for c in cell.participating} for cell in cells if cell.label == first}
    thirds = {seed: ends for seed, mine in sizes.items() if (ends := _thirds(mine)) is not None}
    found = {}
    for label in experiment.labels[1:]:
        seeds = [seed for seed in thirds if (label, seed) in scores]
        if seeds:
            gains = [_gains(scores[label, seed], scores[first, seed], thirds[seed]) for seed in seeds]
            few, many = zip(*gains, strict=True)
            found[label] = GainBySize(mean_std(few), mean_std(many))
    return Gains(first, found) if found else None


def _thirds(sizes: dict[int, int]) -> tuple[list[int], list[int]] | None:
    """The clients with the fewest and with the most samples, if that can be told."""
    ordered = sorted(sizes, key=lambda client: sizes[client])
    few, many = ordered[: len(ordered) // 3], ordered[len(ordered) - len(ordered) // 3 :]
    return (few, many) if few and sizes[few[-1]] < sizes[many[0]] else None


def _gains(mine: dict[int, float], first: dict[int, float], thirds: tuple[list[int], list[int]]) -> list[float]:
    return [float(np.mean([mine[client] - first[client] for client in part])) for part in thirds]
