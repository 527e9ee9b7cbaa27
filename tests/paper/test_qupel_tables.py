"""QuPeL, Tables 1 to 3, in small: the order of methods on scikit-learn's digits, over three seeds."""

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


def test_table_1_learned_levels_beat_fixed_ones_beat_rounding_at_the_end(tmp_path):
    summary, scores = run("quantize-digits", tmp_path)
    assert scores["full-precision"] > scores["learned-1"] > scores["proxquant-1"] > scores["post-training-1"]
    assert scores["learned-2"] > scores["learned-1"] - 0.01
    assert scores["binary-relax-1"] > scores["post-training-1"]
    assert summary.algorithms["learned-1"].bits.mean == 1


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
