"""Runs made by hand: cells with the scores a test wants, as a run folder would have them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from idiolect.evaluation.scores import Spread
from idiolect.experiments.records import CellRecord, ClientRecord, Point, ReferenceRecord
from idiolect.papers.exhibit import Request
from idiolect.papers.trials import FinishedTrial, Trial, experiment_of
from idiolect.results.run import Run

SEEDS = (0, 1, 2)
Scores = Callable[[str, int], Mapping[str, float]]  # (label, seed) -> column -> score


def made(
    trial: Trial,
    scores: Scores,
    scale: str = "desk",
    clients: int = 1,
    references: Sequence[ReferenceRecord] = (),
) -> FinishedTrial:
    """A run of the trial in which every client and point of a cell has the scores that `scores` says."""
    labels = experiment_of(trial, scale, SEEDS).labels
    cells = [cell(label, seed, scores(label, seed), clients) for label in labels for seed in SEEDS]
    return finished(trial, cells, references, scale)


def finished(
    trial: Trial, cells: Sequence[CellRecord], references: Sequence[ReferenceRecord] = (), scale: str = "desk"
) -> FinishedTrial:
    """A run of the trial with these records, whose folder nobody looks at."""
    return FinishedTrial(MadeRun(trial, scale, cells, references))


class MadeRun(Run):
    """A run whose records are given and not read."""

    def __init__(
        self, trial: Trial, scale: str, cells: Sequence[CellRecord], references: Sequence[ReferenceRecord]
    ) -> None:
        super().__init__(Path("nowhere"), experiment_of(trial, scale, SEEDS), runnable=False)
        self.cells, self.references = list(cells), list(references)


def cell(
    label: str, seed: int, columns: Mapping[str, float], clients: int = 1, ended: str = "", reports=({}, {})
) -> CellRecord:
    points = [
        Point(
            time=float(place),
            updates=10 * place,
            scores={"participating": {column: Spread(score, 0.0, score, clients) for column, score in columns.items()}},
            clients={client: dict(columns) for client in range(clients)},
            reports=report,
            layers={},
        )
        for place, report in enumerate(reports)
    ]
    return CellRecord(
        label=label,
        seed=seed,
        metric="accuracy",
        higher_is_better=True,
        also={"top-1 accuracy": True},
        seconds=2.0,
        stopwatch=[],
        ended=ended,
        shares=True,
        points=points,
        clients=[client(number, columns) for number in range(clients)],
    )


def client(number: int, columns: Mapping[str, float]) -> ClientRecord:
    return ClientRecord(number, "participating", 10, dict(columns), {"top-1 accuracy": dict(columns)}, 32.0, 4)


def noise(seed: int) -> float:
    """A little, and not the same on every seed."""
    return (0.001, -0.002, 0.0015)[seed]


def verdicts(claims):
    """How they were decided, in their order."""
    return [claim.verdict for claim in claims]


def perform(monkeypatch, module, exhibit, *runs):
    """An exhibit's findings on these runs instead of real ones, in the order in which it asks for them."""
    waiting = list(runs)
    monkeypatch.setattr(module, "carry_out", lambda trial, request: waiting.pop(0))
    return exhibit.perform(Request("desk", exhibit.scales["desk"].seeds, None))
