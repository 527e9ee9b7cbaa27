"""QuPeL's Tables 1 to 3 on CIFAR-10 at desk scale, decided by the numbers of the recipes (`make slow`)."""

import pytest

from idiolect.errors import UserMistake
from idiolect.problems.datasets import load_images
from idiolect.recipes import load_recipe
from idiolect.runs import run_recipe

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def cifar():
    try:
        load_images("cifar10")
    except UserMistake as reason:
        pytest.skip(str(reason))


def own(recipe, folder):
    summary = run_recipe(load_recipe(recipe), folder / "run")
    return summary, {label: entry["participating"]["own"]["mean"] for label, entry in summary["algorithms"].items()}


def test_table_1_learned_levels_beat_proxquant_beats_rounding_at_one_bit(tmp_path):
    _, scores = own("quantize-cifar10", tmp_path)
    assert scores["learned-1"] > scores["proxquant-1"] > scores["post-training-1"]


def test_table_2_the_order_at_every_width(tmp_path):
    _, scores = own("qupel-cifar10", tmp_path)
    assert scores["qupel-32"] > scores["local-32"] > scores["fedavg"]
    for width in ("3", "2_75", "2_5", "2_25", "2"):
        assert scores[f"qupel-{width}"] > scores[f"local-{width}"]
    assert scores["qupel-3"] > scores["qupel-32"] - 0.015


def test_table_3_is_told_with_its_spread(tmp_path):
    """The paper's gain is 0.6 points; here it is whatever it is (docs/results.md)."""
    summary, _ = own("qupel-resources", tmp_path)
    gain = summary["groups"]["control"]["algorithms"]["beside-3"]["gain"]
    assert abs(gain["mean"]) < 0.05
    assert gain["std"] > 0
