"""Runs without a server, from a recipe to a folder, and what is said when something is wrong."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from idiolect.cli import main
from idiolect.experiments.building import build_seed
from idiolect.experiments.recipe_files import load_recipe
from idiolect.experiments.records import DISTANCE
from idiolect.experiments.serialization import read_cell
from idiolect.network.round_files import load_rounds

RECIPE = """
seeds = [0, 1]
horizon = 500

[problem]
name = "quadratics"
clients = 5
dimension = 3
noise = 0.2
heterogeneity = 0.3

[topology]
name = "ring"

[links]
loss = 0.5
gamma_f = 3

[training]
step_size = 0.01
batch_size = 4

[evaluation]
points = 10
steps = [0]

[[algorithms]]
name = "pars_push"
objective = { steps = 1, step_size = 0.05 }

[[algorithms]]
name = "pars_push"
label = "three_steps"
objective = { steps = 3, step_size = 0.05 }

[[algorithms]]
name = "sgp"

[[algorithms]]
name = "fedavg"
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("recipe") / "serverless.toml"
    path.write_text(RECIPE)
    return str(path)


@pytest.fixture(scope="module")
def finished(recipe, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "out"
    assert main(["run", recipe, "--out", str(out)]) == 0
    return out


def points(folder: Path, label: str, seed: int = 0) -> list[dict]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["algorithm"] == label and line["seed"] == seed]


def test_algorithms_with_and_without_a_server_share_a_run(finished):
    summary = json.loads((finished / "summary.json").read_text())
    assert list(summary["algorithms"]) == ["pars_push", "three_steps", "sgp", "fedavg"]
    assert summary["algorithms"]["pars_push"]["leaked_share"]["mean"] == pytest.approx(0, abs=1e-12)
    assert "leaked_share" not in summary["algorithms"]["fedavg"]
    assert {path.suffix for path in (finished / "timelines").iterdir()} == {".csv", ".npz"}
    page = (finished / "report.html").read_text()
    for title in ("Without a server", "Where the mass is", "The graph, and what its links lose", "Without waiting"):
        assert f">{title}</h" in page


def test_every_point_has_a_ledger_that_adds_up(finished):
    for label in ("pars_push", "three_steps", "sgp"):
        for point in points(finished, label):
            parts = [point["reports"][f"y_{where}"] for where in ("with_agents", "under_way", "recoverable", "leaked")]
            assert sum(parts) == pytest.approx(5)
            assert {"consensus_gap", "smallest_y", DISTANCE} <= point["reports"].keys()
    assert any(point["reports"]["y_recoverable"] > 0 for point in points(finished, "pars_push")), "lost for now"


def test_it_learns_the_minimiser_of_what_it_minimises(finished):
    first, *_, last = (point["reports"][DISTANCE] for point in points(finished, "pars_push"))
    assert last < 0.3 * first


def test_push_sum_under_loss_says_that_its_mass_leaks(finished, recipe, tmp_path, capsys):
    reports = points(finished, "sgp")[-1]["reports"]
    assert reports["y_leaked"] > 1
    assert main(["run", recipe, "--out", str(finished)]) == 0  # shows the table again
    said = " ".join(capsys.readouterr().out.split())
    assert "sgp, seed 0, ended before its time" in said or "sgp leaks:" in said
    assert "of the mass" in said


def test_without_loss_push_sum_keeps_its_mass(recipe, tmp_path, capsys):
    settings = ["links.loss=0", 'algorithms=[{name="sgp"}]']
    assert main(["run", recipe, "--set", *settings, "--seed", "0", "--out", str(tmp_path / "out")]) == 0
    assert abs(points(tmp_path / "out", "sgp")[-1]["reports"]["y_leaked"]) < 1e-12
    assert "leaks" not in capsys.readouterr().out


def test_a_run_that_leaks_until_it_breaks_ends_early_and_the_others_go_on(recipe, tmp_path, capsys):
    two = 'algorithms=[{name="sgp"},{name="rasgp"}]'
    settings = ["horizon=2000", "evaluation.times=[5,2000]", "problem.noise=2", two]
    assert main(["run", recipe, "--set", *settings, "--seed", "0", "--out", str(tmp_path / "out")]) == 0
    assert "sgp, seed 0, ended before its time" in " ".join(capsys.readouterr().out.split())
    assert [point["time"] for point in points(tmp_path / "out", "sgp")] == [5.0]
    assert [point["time"] for point in points(tmp_path / "out", "rasgp")] == [5.0, 2000.0]
    assert "ended" in json.loads((tmp_path / "out" / "summary.json").read_text())["algorithms"]["sgp"]


def test_a_saved_table_of_rounds_gives_the_same_run_again(finished, recipe, tmp_path):
    table = finished / "timelines" / "pars_push-seed0.npz"
    alone = ["--set", 'algorithms=[{name="pars_push",objective={steps=1,step_size=0.05}}]', "--seed", "0"]
    assert main(["run", recipe, *alone, "--timeline", str(table), "--out", str(tmp_path / "out")]) == 0
    one, other = (folder / "params" / "pars_push-seed0.safetensors" for folder in (finished, tmp_path / "out"))
    for name, tensor in load_file(one).items():
        np.testing.assert_allclose(load_file(other)[name], tensor, rtol=1e-6)  # alone, or beside seed 1 and three steps
    assert load_rounds(table).length == 500


def test_algorithms_that_differ_in_numbers_only_are_of_one_kind(recipe):
    alike = '{name="pars_push",objective={steps=1,step_size=0.05}}'
    others = [
        '{name="pars_push",objective={steps=3,step_size=0.02},training={step_size=0.1}}',
        '{name="pars_push",objective={steps=1,derivative="first_order"}}',
        '{name="pars_push",objective={steps=1,step_size=0.05},training={batch_size=2}}',
        '{name="maml+push_sum",objective={steps=1,batches="shared"}}',
        '{name="rasgp"}',
    ]
    kinds = []
    for number, table in enumerate([alike, *others]):
        labelled = table[:-1] + f',label="a{number}"}}'
        (cell,) = build_seed(load_recipe(recipe, [f"algorithms=[{labelled}]"]), 0).cells.values()
        kinds.append(cell.kind)
    assert [other == kinds[0] for other in kinds] == [True, True, False, False, False, False]


def hand_made(path: Path, rows: list[str]) -> str:
    path.write_text("\n".join(["round,agent,to,arrives", *rows]) + "\n")
    return str(path)


def test_wake_ups_and_arrivals_can_be_written_by_hand(recipe, tmp_path):
    rows = [f"{t},{agent},{(agent + 1) % 5},{t + 1}" for t in range(20) for agent in range(5)]
    arguments = ["--set", "horizon=20", 'algorithms=[{name="sgp"}]', "--seed", "0", "--out", str(tmp_path / "out")]
    assert main(["run", recipe, *arguments, "--timeline", hand_made(tmp_path / "mine.csv", rows)]) == 0
    last = points(tmp_path / "out", "sgp")[-1]
    assert last["updates"] == 100
    assert last["reports"]["y_leaked"] == pytest.approx(0, abs=1e-12)


ALONE = 'algorithms=[{name="rasgp"}]'


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["links.gamma_w=0"], "links.gamma_w"),
        (["links.gamma_f=-1"], "links.gamma_f"),
        (["links.gamma_d=0"], "links.gamma_d is 0, below links.least_delay, which is 1"),
        (["links.loss=1"], "links.loss is 1"),
        (["links.los=0.1"], "links.los is not a known key (did you mean 'loss'?)"),
        (['topology={name="edges",edges=[[0,1],[1,0],[2,3],[3,4],[4,2]]}'], "its components are {0, 1}, {2, 3, 4}"),
        (['topology={name="moebius"}'], "topology is 'moebius'"),
        (['topology={name="file",path="/nowhere/graph.txt"}'], "/nowhere/graph.txt"),
        (["algorithms.pars_push.objective.step_size=0.6"], "objective.step_size is 0.6, but the MAML cost"),
        (["horizon=12.5"], "horizon is 12.5, but pars_push works in rounds, and needs a whole number"),
        (['algorithms=[{name="dpsgd"}]'], "dpsgd averages along links that go both ways"),
        (
            ['algorithms=[{name="fedavg",training={step_rule={name="horizon"}}}]'],
            "training.step_rule is 'horizon', which is for a known number of rounds without a server",
        ),
        (['training.step_rule={name="decreasing",offset=0}'], "training.step_rule.offset is 0"),
    ],
)
def test_mistakes_get_one_sentence_and_leave_nothing_behind(recipe, tmp_path, capsys, settings, said):
    assert main(["run", recipe, "--set", *settings, "--out", str(tmp_path / "out")]) == 2
    complaint = capsys.readouterr().err
    assert said in complaint
    assert complaint.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["0,0,1,1", "0,7,,"], "line 3 has agent 7 in round 0, but there are 5 agents and 500 rounds"),
        (["499,0,1,500", "500,0,,"], "line 3 has agent 0 in round 500, but there are 5 agents and 500 rounds"),
        (["0,0,2,1"], "a message goes from agent 0 to agent 2, but the graph has no such link"),
        (["3,0,1,1"], "a message sent in round 3 arrives in round 1, before that"),
        (["zero,0,,"], "line 2 is ['zero', '0', '', ''], not whole numbers"),
        (["0,0,,", "1"], "line 3 is ['1', None, None, None], not whole numbers"),
    ],
)
def test_a_hand_made_table_that_makes_no_sense_is_refused(recipe, tmp_path, capsys, rows, said):
    table = hand_made(tmp_path / "mine.csv", rows)
    assert main(["run", recipe, "--set", ALONE, "--timeline", table, "--out", str(tmp_path / "out")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_table_of_another_size_is_refused(finished, recipe, tmp_path, capsys):
    table = str(finished / "timelines" / "pars_push-seed0.npz")
    arguments = ["--set", ALONE, "problem.clients=4", "--timeline", table, "--out", str(tmp_path / "out")]
    assert main(["run", recipe, *arguments]) == 2
    assert "has 500 rounds of 5 agents, but this run needs 500 rounds of 4" in capsys.readouterr().err


def test_a_weight_that_would_reach_zero_is_told(recipe, tmp_path, capsys):
    """Agent 0 sends in every round, and nobody else ever wakes."""
    table = hand_made(tmp_path / "mine.csv", [f"{t},0,," for t in range(200)])
    assert main(["run", recipe, "--set", ALONE, "--timeline", table, "--out", str(tmp_path / "out")]) == 2
    assert "agent 0's weight y falls to 9.09e-13 in round 39 and would reach zero" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_without_weights_of_that_kind_a_silent_network_is_no_mistake(recipe, tmp_path):
    """Gossip has no weight that could vanish: an agent that hears nobody just learns alone."""
    table = hand_made(tmp_path / "mine.csv", [f"{t},0,," for t in range(500)])
    settings = ['algorithms=[{name="dpsgd"}]', 'topology={name="ring",directed=false}']
    arguments = ["--set", *settings, "--seed", "0", "--timeline", table, "--out", str(tmp_path / "out")]
    assert main(["run", recipe, *arguments]) == 0
    assert points(tmp_path / "out", "dpsgd")[-1]["reports"]["y_leaked"] == 0


def test_runs_that_called_a_squared_distance_a_distance_can_be_read(finished):
    record = json.loads((finished / "cells" / "pars_push-seed0.json").read_text())
    before = [point["reports"][DISTANCE] for point in record["points"]]
    for point in record["points"]:
        point["reports"]["distance_to_optimum"] = point["reports"].pop(DISTANCE)
    assert [point.reports[DISTANCE] for point in read_cell(record).points] == before
