"""What the papers claim, decided by the numbers of the recipes (`make slow`).

Every comparison is of means over clients at the end of the virtual time, and must hold on average over the seeds.
"""

import json

import numpy as np
import pytest

from idiolect.errors import UserMistake
from idiolect.problems.datasets import load_images
from idiolect.recipes import load_recipe
from idiolect.runs import run_recipe

pytestmark = pytest.mark.slow


def personalized(summary, label, kind="personalized"):
    return summary["algorithms"][label]["participating"][kind]["mean"]


def spread_over_seeds(summary, label):
    return summary["algorithms"][label]["participating"]["personalized"]["std"]


@pytest.fixture
def mnist():
    try:
        load_images("mnist")
    except UserMistake as reason:
        pytest.skip(str(reason))


def test_demo_the_personalized_asynchronous_methods_lead(tmp_path):
    summary = run_recipe(load_recipe("demo"), tmp_path / "run")
    leaders = [personalized(summary, label) for label in ("persa_fl_maml", "persa_fl_me")]
    assert min(leaders) > max(personalized(summary, label) for label in ("fedavg", "fedasync", "per_fedavg"))


def test_persafl_fig_2b_the_order_on_mnist(mnist, tmp_path):
    """Within a fixed time both PersA-FL methods are above the other six, and the Moreau envelope is the stabler."""
    summary = run_recipe(load_recipe("persafl-mnist"), tmp_path / "run")
    scores = {label: personalized(summary, label) for label in summary["algorithms"]}
    ours = ("persa_fl_maml", "persa_fl_me")
    assert len(scores) == 8
    assert min(scores[label] for label in ours) > max(score for label, score in scores.items() if label not in ours)
    assert spread_over_seeds(summary, "persa_fl_me") < spread_over_seeds(summary, "persa_fl_maml")


def test_perfedavg_fig_1_the_order_on_mnist(mnist, tmp_path):
    """For two tau and two r: Per-FedAvg + 1 step > FedAvg + 1 step > FedAvg."""
    summary = run_recipe(load_recipe("perfedavg-mnist"), tmp_path / "run")
    for setting in ("tau4-half", "tau4-all", "tau10-half", "tau10-all"):
        meta, stepped = (personalized(summary, f"{name}-{setting}") for name in ("per_fedavg", "fedavg"))
        assert meta > stepped > personalized(summary, f"fedavg-{setting}", "global")


def points(folder, label):
    """The points of every seed of an algorithm."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    seeds = sorted({line["seed"] for line in lines})
    return [[line for line in lines if (line["algorithm"], line["seed"]) == (label, seed)] for seed in seeds]


def distances(folder, label, place):
    return np.array([seed[place]["reports"]["distance_to_optimum"] for seed in points(folder, label)])


def test_pars_push_fig_1_and_2_on_linear_regression(tmp_path):
    """After u personal steps the minimiser of F^(u) beats that of f; running sums converge where push-sum does not."""
    summary = run_recipe(load_recipe("parspush-linear"), tmp_path / "run")
    for u in range(1, 6):
        plain, meta = (
            np.array([seed[-1]["participating"][str(u)]["mean"] for seed in points(tmp_path / "run", label)])
            for label in ("rasgp", f"pars_push-{u}")
        )
        assert len(plain) >= 5
        assert meta.mean() < plain.mean(), f"u = {u}"
    for label in ("rasgp", *(f"pars_push-{u}" for u in range(1, 6))):
        assert distances(tmp_path / "run", label, -1).mean() < 1e-3 * distances(tmp_path / "run", label, 0).mean()
        assert abs(summary["algorithms"][label]["leaked_share"]["mean"]) < 1e-9
    assert len(summary["algorithms"]["sgp"]["ended"]) == len(summary["algorithms"]["sgp"]["seeds"])


def test_pars_push_fig_2_without_loss_both_converge(tmp_path):
    recipe = load_recipe("parspush-linear", ["links.loss=0", 'algorithms=[{name="rasgp"},{name="sgp"}]'])
    run_recipe(recipe, tmp_path / "run")
    for label in ("rasgp", "sgp"):
        assert distances(tmp_path / "run", label, -1).mean() < 1e-3 * distances(tmp_path / "run", label, 0).mean()


def test_pars_push_loses_no_accuracy_to_lost_messages_on_a_net(tmp_path):
    """Appendix B's setting, Gamma_w = 1: with 30 % loss as good as without, within the spread over seeds."""
    lossy, whole = (
        run_recipe(load_recipe("parspush-digits", settings), tmp_path / str(number))
        for number, settings in enumerate(([], ["links.loss=0"]))
    )
    for label in lossy["algorithms"]:
        noise = max(spread_over_seeds(lossy, label), spread_over_seeds(whole, label))
        assert abs(personalized(lossy, label) - personalized(whole, label)) < 2 * noise
        assert personalized(lossy, label) > 0.85
