"""Runs on policies: rewards beside the best there is, and maps of where the policies go."""

import json
from pathlib import Path

import numpy as np
import pytest

from idiolect.cli import main
from idiolect.problems.worlds import navigation
from idiolect.problems.worlds.environments import MOVES
from tests.report.drawn import drawings

RECIPE = """
seeds = [3]
horizon = 30.0

[problem]
name = "navigation"
clients = 2
size = 3
horizon = 5
episodes = 12
goals = [[0, 0], [2, 1]]

[training]
local_steps = 1
batch_size = 4

[evaluation]
points = 2
steps = [0]
batch_size = 4
headline = "own"
references = ["best"]

[[algorithms]]
name = "pfedme"
objective = { lambda = 1.0, iterations = 2, inner_step_size = 0.5 }
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("policies")
    (place / "walk.toml").write_text(RECIPE)
    assert main(["run", str(place / "walk.toml"), "--out", str(place / "run")]) == 0
    return place / "run"


def test_the_best_there_is_is_that_of_the_shortest_ways_from_the_scored_starts(finished):
    problem = navigation(clients=2, size=3, horizon=5, episodes=12, goals=[[0, 0], [2, 1]], seed=3)
    cell = json.loads((finished / "cells" / "pfedme-seed3.json").read_text())
    (best,) = json.loads((finished / "references" / "best-seed3.json").read_text())["scores"].values()
    assert {client["client"]: best[str(client["client"])] >= client["scores"]["own"] for client in cell["clients"]} == {
        0: True,
        1: True,
    }
    (row,) = problem.references["best"](problem.clients.test)
    assert list(best.values()) == pytest.approx(row.tolist())
    summary = json.loads((finished / "summary.json").read_text())
    assert summary["references"]["best"]["reward"]["mean"] == pytest.approx(row.mean())


def test_every_evaluation_tells_every_client(finished):
    for line in (finished / "metrics.jsonl").read_text().splitlines():
        point = json.loads(line)
        scores = [scores["own"] for scores in point["clients"].values()]
        assert np.mean(scores) == pytest.approx(point["participating"]["own"]["mean"])


def test_a_scene_is_a_walk_on_the_grid_that_stays_where_it_should_go(finished):
    scenes = json.loads((finished / "cells" / "pfedme-seed3.json").read_text())["scenes"]
    assert [moment["time"] for moment in scenes] == [0.0, 30.0]
    for scene in scenes[-1]["adapted"].values():
        paths = np.array(scene["paths"])
        assert paths.shape == (10, 6, 2)
        steps = np.diff(paths, axis=1)
        assert {tuple(step) for step in steps.reshape(-1, 2).tolist()} <= {(0, 0), *map(tuple, MOVES.tolist())}
        there = (paths[:, :-1] == scene["goal"]).all(-1)
        assert (steps[there] == 0).all()
        assert not (paths[:, 0] == scene["goal"]).all(-1).any()


def test_the_page_has_a_map_and_a_panel_for_each_client(finished):
    page = (finished / "report.html").read_text()
    for needle in ("Where policies go", "Reward of each client over virtual time"):
        assert needle in page
    assert "client 1, time 30" in json.dumps(drawings(page))


def test_an_unknown_reference_is_refused_before_anything_is_written(finished, tmp_path, capsys):
    recipe = tmp_path / "walk.toml"
    recipe.write_text(RECIPE.replace('"best"', '"worst"'))
    assert main(["run", str(recipe), "--out", str(tmp_path / "run")]) == 2
    assert "evaluation.references has 'worst', but the problem navigation knows best" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
