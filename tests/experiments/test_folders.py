"""The run folder of an experiment made in Python: it goes on, it is refused to others, and resume says what to do."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import idiolect
from idiolect import UserMistake
from idiolect.cli import main
from idiolect.experiments import running
from tests.experiments.own import leaning, mine, written


def content(folder: Path) -> dict[str, Any]:
    """Every file of a run, but for what the wall clock said."""
    found: dict[str, Any] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "report.html"):
        name = str(path.relative_to(folder))
        if path.suffix == ".json":
            found[name] = without_clocks(json.loads(path.read_text()))
        else:
            found[name] = path.read_bytes()
    return found


def without_clocks(value: Any) -> Any:
    if isinstance(value, dict):
        clocks = ("seconds", "stopwatch", "wall_clock_seconds")
        return {key: without_clocks(inner) for key, inner in value.items() if key not in clocks}
    return [without_clocks(inner) for inner in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("own") / "out"
    assert idiolect.run(mine(), out=out).missing == 0
    return out


def test_what_is_missing_is_made_again_to_the_same_bytes(finished):
    before = content(finished)
    for kind, ending in (("cells", "json"), ("params", "safetensors"), ("timelines", "csv")):
        (finished / kind / f"leaning-seed1.{ending}").unlink()
    run = idiolect.run(mine(), out=finished)
    assert run.missing == 0
    assert content(finished) == before


def test_nothing_is_run_again(finished, monkeypatch):
    def nothing_to_do(*args: Any, **options: Any) -> None:
        raise AssertionError("this cell was finished")

    monkeypatch.setattr(running, "run_together", nothing_to_do)
    before = content(finished)
    idiolect.run(mine(), out=finished)
    assert content(finished) == before


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"horizon": 21.0}, "horizon is 20.0 there and 21.0 here"),
        ({"algorithms": [leaning(0.25), "fedavg"]}, "weight is 0.5 there and 0.25 here"),
        ({"algorithms": [leaning()]}, "algorithms is "),
        ({"problem": "quadratics"}, "problem."),
    ],
)
def test_another_experiment_is_refused_with_the_difference_named(finished, other, words):
    before = content(finished)
    with pytest.raises(UserMistake) as mistake:
        idiolect.run(mine(**other), out=finished)
    assert f"--out {finished} holds a run of another experiment: " in str(mistake.value)
    assert words in str(mistake.value)
    assert str(mistake.value).endswith("; name a new folder")
    assert content(finished) == before


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one sentence of a command that was refused."""
    assert main([str(argument) for argument in arguments]) == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert error.count("\n") == 1
    return error


def test_resume_says_what_to_call(finished, capsys):
    sentence = said(capsys, "resume", finished)
    assert "belongs to an experiment that was made in Python" in sentence
    assert f"idiolect.run(experiment, out='{finished}')" in sentence


FACTORY = """
from pathlib import Path
from idiolect import Experiment
from tests.experiments.own import mine

(Path(__file__).parent / "imported").touch()

def make():
    return mine(seeds=[0])

def wrong():
    return 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path, FACTORY, "my_file.py")


def forget(file: Path) -> None:
    """As in a new process: the file is not imported yet."""
    for name in [name for name, module in sys.modules.items() if getattr(module, "__file__", None) == str(file)]:
        del sys.modules[name]
    (file.parent / "imported").unlink()


def test_a_run_that_a_function_made_goes_on_only_with_the_code_that_the_command_line_names(file, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["run", f"{file}:make", "--out", str(out)]) == 0
    assert f"importing {file}:make, which the command line names" in capsys.readouterr().err
    before = content(out)
    (out / "cells" / "leaning-seed0.json").unlink()
    forget(file)
    sentence = said(capsys, "resume", out)
    assert f"{out} was made by {file}:make, which no run folder may have imported" in sentence
    assert f"allow it with --with {file}" in sentence
    assert f"allow it with --with {file}" in said(capsys, "export", out, "--client", 0, "--out", tmp_path / "model")
    assert not (tmp_path / "imported").exists()
    assert main(["resume", str(out), "--with", str(file)]) == 0
    assert f"importing {file}, which the command line names" in capsys.readouterr().err
    assert (tmp_path / "imported").exists()
    assert content(out) == before


def test_models_of_such_a_run_are_exported_with_its_code(file, tmp_path, capsys):
    out, model = tmp_path / "out", tmp_path / "model.safetensors"
    assert main(["run", f"{file}:make", "--out", str(out)]) == 0
    chosen = ["--algorithm", "leaning", "--client", "0", "--out", str(model), "--with", str(file)]
    assert main(["export", str(out), *chosen]) == 0
    assert model.is_file()


def test_a_factory_that_makes_something_else_is_told(file, tmp_path, capsys):
    assert main(["run", f"{file}:wrong", "--out", str(tmp_path / "out")]) == 2
    assert "wrong gives int, but must give an idiolect.Experiment" in capsys.readouterr().err
    assert main(["run", f"{file}:nothing", "--out", str(tmp_path / "out")]) == 2
    assert f"{file} has no function nothing" in capsys.readouterr().err
    assert main(["run", f"{file}:make", "--set", "horizon=3", "--out", str(tmp_path / "out")]) == 2
    assert "--set and --seeds change recipes, but" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_function_that_is_run_is_known_to_the_folder_by_its_name(file, tmp_path):
    from idiolect.own_code import import_reference
    from idiolect.results.folder import saved_tables

    idiolect.run(import_reference(f"{file}:make"), out=tmp_path / "out")
    assert saved_tables(tmp_path / "out")["factory"] == f"{file}:make"
    idiolect.run(mine(seeds=[0]), out=tmp_path / "out")  # who made it changes nothing of what it is


@pytest.mark.parametrize("change", ['name = "../../outside"', 'label = "a/b"', "references"])
def test_no_name_in_a_folder_leads_out_of_it(change, tmp_path):
    lines = '[[algorithms]]\nname = "fedavg"\n' if change == "references" else f"[[algorithms]]\n{change}\n"
    lines = lines if "name =" in lines else lines + 'name = "fedavg"\n'
    evaluation = '[evaluation]\nreferences = ["../outside"]\n' if change == "references" else ""
    (tmp_path / "recipe.toml").write_text(evaluation + lines)
    with pytest.raises(UserMistake, match="must begin with a letter or a digit"):
        idiolect.open_run(tmp_path)
