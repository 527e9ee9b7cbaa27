"""Servers that hold out against a fifth of lying clients, decided by the numbers of `robust-digits` (`make slow`)."""

import pytest

from idiolect.experiments.recipe_files import load_recipe
from idiolect.results.execute import run_recipe

pytestmark = pytest.mark.slow


def test_a_fifth_of_flipped_updates_ruins_the_mean_and_not_the_robust_combinations(tmp_path):
    algorithms = run_recipe(load_recipe("robust-digits"), tmp_path / "run")["algorithms"]
    for name in ("fedavg", "fedbuff", "per_fedavg"):
        ruined = algorithms[f"{name}-mean"]
        assert len(ruined["ended"]) == 3 or ruined["participating"]["global"]["mean"] < 0.5
        clean = algorithms[name]["participating"]["personalized"]
        for kind in ("median", "trimmed", "clipped"):
            held = algorithms[f"{name}-{kind}"]["participating"]["personalized"]
            assert held["mean"] > clean["mean"] - max(2 * clean["std"], 2 * held["std"], 0.03), f"{name}-{kind}"
