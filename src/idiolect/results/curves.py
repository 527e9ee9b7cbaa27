"""The curves of a run as one tidy table: a score a row."""

from collections.abc import Iterator
from typing import NamedTuple

from idiolect.experiments.records import CellRecord, Point


class PointRow(NamedTuple):
    """One score of a run: an algorithm, a seed, a time, a group of clients, and a budget of adaptation."""

    algorithm: str
    seed: int
    time: float
    updates: int
    group: str
    budget: str  # a number of gradient steps, or "own"
    mean: float
    std: float
    worst_decile: float
    clients: int


def point_rows(cell: CellRecord, point: Point) -> Iterator[PointRow]:
    """Every score at one time."""
    for group, scores in point.scores.items():
        for budget, spread in scores.items():
            yield PointRow(cell.label, cell.seed, point.time, point.updates, group, budget, *spread)
