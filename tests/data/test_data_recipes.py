"""Recipes that name files of data: runs, digests, folders for data, and nothing that is ever imported."""

import json
import tomllib

import numpy as np
import pytest

import idiolect
from idiolect.cli import main
from idiolect.experiments.building import build_problem
from idiolect.experiments.recipe_files import parse_recipe
from tests.data.tables import USERS, write_visits
from tests.tiny_run import SETUP

RECIPE = f"""
horizon = 20
{SETUP}
[problem]
name = "table"
file = "visits.csv"
by = "user"
features = ["age", "pages"]
target = "bought"
model = {{ name = "linear" }}

[[algorithms]]
name = "fedavg"
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A finished run of a table in the working folder of the time."""
    folder = tmp_path_factory.mktemp("run")
    write_visits(folder)
    (folder / "mine.toml").write_text(RECIPE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["run", "mine.toml", "--out", "out"]) == 0
    return folder


@pytest.fixture
def inside(ran, monkeypatch):
    monkeypatch.chdir(ran)
    return ran


def test_a_run_of_a_table_has_all_that_runs_have(inside):
    run = idiolect.open_run("out")
    assert run.summary.metric == "accuracy"
    assert (inside / "out" / "report.html").is_file()
    assert len(run.clients) == len(USERS)
    assert tuple(traits.name for traits in run.traits(0).values()) == USERS
    assert run.model(1)[0]["weight"].shape == (2, 2)
    assert any("standardized by the mean and deviation" in line for line in run.summary.advice)


def test_the_run_notes_what_the_file_held_and_goes_on_with_nothing_else(inside, capsys):
    saved = tomllib.loads((inside / "out" / "recipe.toml").read_text())["problem"]
    assert len(saved["digest"]) == 16
    assert main(["resume", "out"]) == 0
    content = (inside / "visits.csv").read_text()
    try:
        (inside / "visits.csv").write_text(content.replace("yes", "no", 1))
        assert main(["resume", "out"]) == 2
        assert "visits.csv has other content than problem.digest" in capsys.readouterr().err
        assert main(["run", "mine.toml", "--out", "out"]) == 2
        assert "problem.digest" in capsys.readouterr().err
    finally:
        (inside / "visits.csv").write_text(content)


def test_an_experiment_of_python_opens_the_same_folder(inside):
    with open("mine.toml", "rb") as file:
        experiment = parse_recipe({"name": "mine", **tomllib.load(file)})
    assert idiolect.open_run("out", experiment).model(0)[0]["weight"].shape == (2, 2)


def test_models_of_tables_are_exported_as_bundles_and_refused_as_graphs(inside, tmp_path, capsys):
    bundle = tmp_path / "mine.safetensors"
    assert main(["export", "out", "--client", "0", "--out", str(bundle)]) == 0
    assert bundle.is_file()
    assert main(["export", "out", "--client", "0", "--out", str(tmp_path / "mine.onnx")]) == 2
    assert "table is no image problem" in capsys.readouterr().err


def test_files_are_found_in_the_folder_for_data(inside, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    experiment = parse_recipe(tomllib.loads(RECIPE))
    with pytest.raises(
        idiolect.UserMistake, match=r"problem.file is 'visits.csv', but there is no such file in .*--data-dir"
    ):
        build_problem(experiment, 0)
    assert build_problem(experiment, 0, inside).clients.names == USERS


def test_a_file_named_by_a_recipe_is_never_code(tmp_path, capsys):
    (tmp_path / "evil.py").write_text("raise SystemExit('run!')")
    (tmp_path / "mine.toml").write_text(RECIPE.replace("visits.csv", str(tmp_path / "evil.py")))
    assert main(["run", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "out")]) == 2
    assert "evil.py must end in one of .csv" in capsys.readouterr().err


def problem_of(text, folder, seed=0):
    return build_problem(parse_recipe(tomllib.loads(f'{text}\n[[algorithms]]\nname = "fedavg"')), seed, folder)


def test_other_problems_by_recipe(tmp_path):
    (tmp_path / "talk.csv").write_text("who,said\n" + "".join(f"{'ab'[k % 2]},to be or not {k}\n" for k in range(8)))
    talk = '[problem]\nname = "text"\nfile = "talk.csv"\ncolumn = "said"\nby = "who"\nlength = 7\n'
    assert problem_of(f'{talk}model = {{ name = "transformer", width = 8 }}', tmp_path).clients.names == ("a", "b")
    for k in range(12):
        folder = tmp_path / "pets" / ("cat", "dog")[k % 2]
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{k}.npy", np.full((6, 6), k, np.uint8))
    pets = '[problem]\nname = "images"\nfile = "pets"\nclients = 3\nmodel = { name = "linear" }'
    assert problem_of(pets, tmp_path).clients.total == 3
    data = {user: {"x": [[0.5] * 784] * 4, "y": [0, 1, 2, 61]} for user in ("f1", "f2")}
    (tmp_path / "femnist.json").write_text(json.dumps({"users": list(data), "user_data": data}))
    leaf = '[problem]\nname = "femnist"\nfile = "femnist.json"\nmodel = { name = "linear" }'
    assert problem_of(leaf, tmp_path).clients.names == ("f1", "f2")
    line = "To be, or not to be: that is the question. " * 4
    data = {"HAMLET": {"x": [line[k : k + 80] for k in range(80)], "y": list(line[80:160])}}
    (tmp_path / "plays.json").write_text(json.dumps({"users": ["HAMLET"], "user_data": data}))
    play = '[problem]\nname = "shakespeare"\nfile = "plays.json"\nlength = 19'
    assert problem_of(play, tmp_path).clients.names == ("HAMLET",)


def test_seeds_change_the_parts_but_no_shape(inside):
    experiment = parse_recipe(tomllib.loads(RECIPE))
    one, other = (build_problem(experiment, seed).clients for seed in (0, 1))
    assert not np.array_equal(one.train.rows["features"], other.train.rows["features"])
    assert one.train.rows["features"].shape == other.train.rows["features"].shape
    np.testing.assert_array_equal(one.train.starts, other.train.starts)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("problem.file=3", "problem.file"),
        ("problem.by=3", "problem.by is 3, but"),
        ("problem.task=guess", "problem.task is 'guess', but"),
        ("problem.smallest=1", "problem.smallest is 1, but"),
        ("problem.standardise=none", "problem.standardise is not a known key (did you mean 'standardize'?)"),
    ],
)
def test_options_are_checked_as_everywhere(inside, setting, said, capsys):
    assert main(["run", "mine.toml", "--out", "other", "--set", setting]) == 2
    assert said in capsys.readouterr().err
    assert not (inside / "other").exists()
