"""MEMRL's Fig. 1, decided by the numbers of the recipe (`make slow`).

A policy is optimal for a task if its reward is within 5 % of the best possible path's, from the same starts.
"""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from idiolect.recipes import Recipe, load_recipe
from idiolect.runs import run_recipe

pytestmark = pytest.mark.slow
OPTIMAL = 0.95


def best_possible(recipe: Recipe, folder: Path) -> dict[tuple[int, int], float]:
    """(seed, task) -> the reward of the shortest ways."""
    found = {}
    for seed in recipe.seeds:
        record = json.loads((folder / "references" / f"best-seed{seed}.json").read_text())
        found |= {(seed, int(task)): score for task, score in record["scores"]["reward"].items()}
    return found


def shares(recipe: Recipe, folder: Path) -> dict[tuple[str, str], np.ndarray]:
    """(algorithm, column) -> the share of the best reward, one row for each seed and one column for each task."""
    best, found = best_possible(recipe, folder), {}
    with (folder / "clients.csv").open() as file:
        rows = list(csv.DictReader(file))
    for label in recipe.labels:
        for column in ("after_0_steps", "after_10_steps", "own"):
            scores = {
                (int(row["seed"]), int(row["client"])): float(row[column]) for row in rows if row["algorithm"] == label
            }
            flat = [scores[place] / best[place] for place in sorted(best)]
            found[label, column] = np.reshape(flat, (len(recipe.seeds), -1))
    return found


def untrained(recipe: Recipe, folder: Path) -> np.ndarray:
    """The share of the best reward, all tasks together, after MEMRL's adaptation of its first policy, for each seed."""
    best = best_possible(recipe, folder)
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    start = {line["seed"]: line for line in lines if line["algorithm"] == "memrl" and line["time"] == 0}
    total = {seed: np.mean([score for (of, _), score in best.items() if of == seed]) for seed in recipe.seeds}
    return np.array([start[seed]["participating"]["own"]["mean"] / total[seed] for seed in recipe.seeds])


@pytest.mark.parametrize("trajectories", [10, 100])  # the paper's, and enough to tell more exactly
def test_fig_1_by_iteration_120_every_adapted_policy_is_optimal_and_no_common_one_is(trajectories, tmp_path):
    recipe = load_recipe("memrl-navigation", [f"problem.episodes={trajectories}"])
    run_recipe(recipe, tmp_path / "run")
    share = shares(recipe, tmp_path / "run")
    assert share["memrl", "own"].shape == (5, 3)
    assert (share["memrl", "own"] >= OPTIMAL).all(), "every task and every seed"
    for common in (share["memrl", "after_0_steps"], share["multi_task", "after_0_steps"]):
        assert (common.min(axis=1) < 0.8).all(), "in every seed some task is far from served"
        assert common.mean() < 0.85
    assert share["multi_task", "after_10_steps"].mean() < share["memrl", "own"].mean() - 0.05
    assert untrained(recipe, tmp_path / "run").max() < OPTIMAL, "adapting is not all: it takes the meta-policy"
    assert (share["persa_fl_me", "own"] >= OPTIMAL).all(), "nor does it take rounds"
    assert (share["pars_push_me", "own"].mean(axis=0) >= OPTIMAL).all(), "or a server, on average over seeds"
