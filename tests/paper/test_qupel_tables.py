"""QuPeL, Tables 1 to 3, in small: what methods score on scikit-learn's digits, over eight seeds."""

import pytest

import idiolect

pytestmark = pytest.mark.slow


def run(recipe: str, folder):
    summary = idiolect.run(recipe, "evaluation.points=1", out=folder / recipe).summary
    scores = {label: entry.participating["own"].mean for label, entry in summary.algorithms.items()}
    return summary, scores


@pytest.fixture(scope="module")
def clients(tmp_path_factory):
    return run("qupel-digits", tmp_path_factory.mktemp("runs"))


def test_table_1_few_bits_cost_little_where_they_are_trained_and_much_where_they_are_not(tmp_path):
    summary, scores = run("quantize-digits", tmp_path)
    trained = [label for label in scores if label not in ("full-precision", "post-training-1")]
    assert len(trained) == 7
    for label in trained:
        assert scores["full-precision"] + 0.005 > scores[label] > scores["post-training-1"], label
    assert summary.algorithms["learned-1"].bits.mean == 1
    assert "fedavg has after 40" in summary.began


def test_table_2_with_others_is_better_than_alone_at_every_width_and_alone_than_one_model_for_all(clients):
    _, scores = clients
    assert scores["qupel-32"] > scores["local-32"] > scores["fedavg"]
    for bits in (2, 3):
        assert scores[f"qupel-{bits}"] > scores[f"local-{bits}"]
    assert scores["qupel-3"] > scores["qupel-32"] - 0.015


def test_table_3_the_gain_of_control_clients_is_told_with_its_spread(clients):
    summary, _ = clients
    group = summary.groups["control"]
    assert group.clients == list(range(10))
    assert group.algorithms["qupel-2"].gain == (0.0, 0.0)
    beside = group.algorithms["qupel-2-beside-3"]
    assert beside.gain.mean == pytest.approx(beside.mean - group.algorithms["qupel-2"].mean)
    assert beside.gain.std > 0
