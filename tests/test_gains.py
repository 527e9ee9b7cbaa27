"""Who gains most, on numbers made by hand."""

import pytest

from idiolect.experiments.records import CellRecord, ClientRecord
from idiolect.experiments.value import Experiment
from idiolect.results.gains import gains_by_size

EXPERIMENT = Experiment(algorithms=["local", "fedavg"], seeds=[0, 1])


def cell(label: str, seed: int, sizes: list[int], scores: list[float]) -> CellRecord:
    clients = [
        ClientRecord(k, "participating", size, {"1": score}, {}, 32.0, 4)
        for k, (size, score) in enumerate(zip(sizes, scores, strict=True))
    ]
    stranger = ClientRecord(9, "unseen", 1000, {"1": 99.0}, {}, 32.0, 4)
    return CellRecord(label, seed, "accuracy", True, {}, 0.0, [], "", True, [], [*clients, stranger])


def test_few_and_many_are_thirds_and_gains_are_paired():
    sizes = [[10, 50, 30, 20, 60, 40, 35], [60, 10, 20, 30, 40, 50, 35]]
    alone = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    cells = []
    for seed in (0, 1):
        shared = [score + size / 100 * (seed + 1) for score, size in zip(alone, sizes[seed], strict=True)]
        cells += [cell("local", seed, sizes[seed], alone), cell("fedavg", seed, sizes[seed], shared)]
    found = gains_by_size(EXPERIMENT, cells)
    assert found is not None
    assert found.over == "local"
    few, many = found.algorithms["fedavg"]
    assert few.mean == pytest.approx((0.15 + 0.30) / 2)  # clients with 10 and 20 samples
    assert many.mean == pytest.approx((0.55 + 1.10) / 2)
    assert few.std == pytest.approx(0.15 / 2**0.5)


def test_nothing_is_told_where_all_clients_are_alike_or_alone():
    cells = [cell(label, 0, [5, 5, 5], [0.1, 0.2, 0.3]) for label in ("local", "fedavg")]
    assert gains_by_size(EXPERIMENT, cells) is None
    assert gains_by_size(EXPERIMENT, cells[:1]) is None
    assert gains_by_size(EXPERIMENT, [cell(label, 0, [5, 6], [0.1, 0.2]) for label in ("local", "fedavg")]) is None
