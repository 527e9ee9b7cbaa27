"""Who gains most, on numbers made by hand."""

import pytest

from idiolect.experiments.schema import parse_recipe
from idiolect.results.gains import gains_by_size

RECIPE = parse_recipe({"seeds": [0, 1], "algorithms": [{"name": "local"}, {"name": "fedavg"}]})


def cell(label: str, seed: int, sizes: list[int], scores: list[float]) -> dict:
    clients = [
        {"client": k, "group": "participating", "samples": size, "scores": {"1": score}}
        for k, (size, score) in enumerate(zip(sizes, scores, strict=True))
    ]
    stranger = {"client": 9, "group": "unseen", "samples": 1000, "scores": {"1": 99.0}}
    return {"label": label, "seed": seed, "clients": [*clients, stranger]}


def test_few_and_many_are_thirds_and_gains_are_paired():
    sizes = [[10, 50, 30, 20, 60, 40, 35], [60, 10, 20, 30, 40, 50, 35]]
    alone = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    cells = []
    for seed in (0, 1):
        shared = [score + size / 100 * (seed + 1) for score, size in zip(alone, sizes[seed], strict=True)]
        cells += [cell("local", seed, sizes[seed], alone), cell("fedavg", seed, sizes[seed], shared)]
    found = gains_by_size(RECIPE, cells)
    assert found["over"] == "local"
    few, many = found["algorithms"]["fedavg"]["few"], found["algorithms"]["fedavg"]["many"]
    assert few["mean"] == pytest.approx((0.15 + 0.30) / 2)  # clients with 10 and 20 samples
    assert many["mean"] == pytest.approx((0.55 + 1.10) / 2)
    assert few["std"] == pytest.approx(0.15 / 2**0.5)


def test_nothing_is_told_where_all_clients_are_alike_or_alone():
    cells = [cell(label, 0, [5, 5, 5], [0.1, 0.2, 0.3]) for label in ("local", "fedavg")]
    assert gains_by_size(RECIPE, cells) == {}
    assert gains_by_size(RECIPE, cells[:1]) == {}
    assert gains_by_size(RECIPE, [cell(label, 0, [5, 6], [0.1, 0.2]) for label in ("local", "fedavg")]) == {}
