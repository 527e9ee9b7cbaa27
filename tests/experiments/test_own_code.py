"""One's own code by name: what the user names is imported, with a word on it; what a folder names never is."""

import sys
from pathlib import Path

import pytest

import idiolect
from idiolect import catalog
from idiolect.cli import main
from idiolect.own_code import reference_to
from tests.experiments.own import written

PROBLEM = """
from pathlib import Path
from typing import Annotated
from annotated_types import Ge
from idiolect.problems.synthetic import quadratics

(Path(__file__).parent / "imported").touch()

def make(*, clients: Annotated[int, Ge(1)] = 4, seed: int = 0):
    \"\"\"Quadratics of my own.\"\"\"
    return quadratics(clients=clients, dimension=3, samples=8, seed=seed)
"""
RECIPE = """
horizon = 20
seeds = [0]
[problem]
name = "{name}"
clients = 3
[training]
local_steps = 2
batch_size = 2
[evaluation]
points = 1
[[algorithms]]
name = "{algorithm}"
"""


def recipe(folder: Path, name: str, algorithm: str = "fedasync") -> str:
    return str(written(folder, RECIPE.format(name=name, algorithm=algorithm), "recipe.toml"))


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The last sentence of a command that was refused; those before it tell what is imported."""
    assert main([str(argument) for argument in arguments]) == 2
    output, error = capsys.readouterr()
    assert output == ""
    *imports, sentence = error.splitlines()
    assert all(line.startswith("idiolect: importing ") for line in imports)
    return sentence


def test_a_recipe_names_a_problem_in_a_file_and_its_import_is_told(tmp_path, capsys):
    name, out = f"{written(tmp_path, PROBLEM, 'mine.py')}:make", tmp_path / "out"
    assert main(["run", recipe(tmp_path, name), "--out", str(out)]) == 0
    assert f"idiolect: importing {name}, which the recipe names\n" in capsys.readouterr().err
    assert len((out / "clients.csv").read_text().splitlines()) == 1 + 3


def test_a_recipe_names_a_problem_in_a_module(tmp_path, capsys, monkeypatch):
    written(tmp_path, PROBLEM, "far_module.py")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["run", recipe(tmp_path, "far_module:make"), "--out", str(tmp_path / "out")]) == 0
    assert "idiolect: importing far_module:make, which the recipe names\n" in capsys.readouterr().err


def test_its_options_are_checked_as_those_of_any_problem(tmp_path, capsys):
    file = recipe(tmp_path, f"{written(tmp_path, PROBLEM, 'mine.py')}:make")
    sentence = said(capsys, "run", file, "--set", "problem.cleints=3", "--out", tmp_path / "out")
    assert "problem.cleints is not a known key (did you mean 'clients'?); known are clients" in sentence
    assert "problem.clients is 0" in said(capsys, "run", file, "--set", "problem.clients=0", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere.py:make", "file nowhere.py does not exist"),
        ("far_away:make", "module far_away cannot be imported"),
        ("mine.py:nothing", "mine.py has no function nothing"),
        ("mine.py:", "'mine.py:' is no reference; write package.module:function or file.py:function"),
        ("a b:make", "'a b' is neither a module's dotted name nor the path of a .py file"),
    ],
)
def test_code_that_is_not_there_is_one_sentence(tmp_path, capsys, monkeypatch, name, words):
    written(tmp_path, PROBLEM, "mine.py")
    monkeypatch.chdir(tmp_path)
    assert words in said(capsys, "run", recipe(tmp_path, name), "--out", "out")


def test_a_run_folder_s_recipe_never_imports_by_itself(tmp_path, capsys):
    file, out = written(tmp_path, PROBLEM, "mine.py"), tmp_path / "out"
    assert main(["run", recipe(tmp_path, f"{file}:make"), "--out", str(out)]) == 0
    forget_files(tmp_path)
    capsys.readouterr()
    for command in (["resume", out], ["export", out, "--client", 0, "--out", tmp_path / "model.safetensors"]):
        sentence = said(capsys, *command)
        assert f"{out} was made by {file}:make, which no run folder may have imported" in sentence
        assert sentence.endswith(f"allow it with --with {file}")
    assert main(["report", str(out)]) == 0  # results can be read without any code
    assert not (tmp_path / "imported").exists()
    assert main(["resume", str(out), "--with", str(file)]) == 0
    assert (tmp_path / "imported").exists()


def forget_files(folder: Path) -> None:
    """As in a new process."""
    for name in [name for name in sys.modules if name.startswith("idiolect_own_")]:
        del sys.modules[name]
    for name in [name for name in catalog.PROBLEMS if ":" in name]:
        del catalog.PROBLEMS._entries[name]
    (folder / "imported").unlink()


REGISTERING = """
from typing import Annotated
from annotated_types import Gt
import idiolect
from idiolect.protocols import asynchronous
from tests.experiments.own import towards

@idiolect.objective
def far_towards(*, weight: Annotated[float, Gt(0)] = 0.5):
    \"\"\"Lean towards the model as received.\"\"\"
    return towards(weight=weight)

@idiolect.protocol
def far_halfway(*, beta: Annotated[float, Gt(0)] = 0.5):
    \"\"\"Half of every update.\"\"\"
    return asynchronous(beta=beta)
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(written(tmp_path, REGISTERING, "my_file.py"))


@pytest.fixture
def one(tmp_path: Path) -> str:
    return recipe(tmp_path, "quadratics", "far_towards+far_halfway")


def test_a_file_registers_an_objective_and_a_protocol(file, one, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["run", one, "--with", file, "--out", str(out)]) == 0
    assert f"idiolect: importing {file}, which the command line names\n" in capsys.readouterr().err
    text = (out / "recipe.toml").read_text()
    assert "weight = 0.5" in text
    assert "beta = 0.5" in text


def test_without_the_file_its_names_are_not_known(one, tmp_path, capsys):
    assert "objective is 'far_towards'" in said(capsys, "run", one, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_list_says_where_names_come_from(file, capsys):
    assert main(["list", "--with", file]) == 0
    output, error = capsys.readouterr()
    assert error == f"idiolect: importing {file}, which the command line names\n"
    lines = {line.split()[0]: line for line in output.splitlines() if line.startswith("  ")}
    for name, text in (("far_towards", "Lean towards the model as received."), ("far_halfway", "Half of every")):
        assert text in lines[name]
        assert lines[name].endswith(f"[{file}]")
    assert not lines["moreau"].endswith("]")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("algorithms.0.objective.wieght=1", "objective.wieght is not a known key (did you mean 'weight'?); known are"),
        ("algorithms.0.objective.weight=-1", "objective.weight is -1, but input should be greater than 0"),
        ("algorithms.0.protocol.beta=half", "protocol.beta is 'half'"),
        ("algorithms.0.name=far_toward+local", "objective is 'far_toward' (did you mean 'far_towards'?)"),
        ("algorithms.0.name=plain+far_halfwa", "protocol is 'far_halfwa' (did you mean 'far_halfway'?)"),
    ],
)
def test_wrong_options_get_the_sentences_of_built_in_ones(file, one, tmp_path, capsys, setting, words):
    assert words in said(capsys, "run", one, "--with", file, "--set", setting, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_name_that_clashes_with_a_built_in_one_is_refused(tmp_path, capsys):
    text = "import idiolect\n\n@idiolect.objective\ndef moreau():\n    return None\n"
    file = written(tmp_path, text, "clash.py")
    sentence = said(capsys, "list", "--with", file)
    assert f"objective 'moreau' of {file} has the name of one that comes from idiolect" in sentence
    assert sentence.endswith("call it something else")


INSTALLED = """
from pathlib import Path
from tests.experiments.own import towards

(Path(__file__).parent / "imported").touch()

def lean(*, weight: float = 0.25):
    \"\"\"Lean as packages do.\"\"\"
    return towards(weight=weight)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an installed package in it, as pip leaves one."""
    place = tmp_path / "site"
    about = place / "far_package-1.0.dist-info"
    about.mkdir(parents=True)
    written(about, "Metadata-Version: 2.1\nName: far-package\nVersion: 1.0\n", "METADATA")
    points = "[idiolect.objectives]\nfar_lean = far_package:lean\n\n"
    written(about, points + "[idiolect.recipes]\nfar_recipe = far_package_recipes:PATH\n", "entry_points.txt")
    written(place, INSTALLED, "far_package.py")
    written(place, f"PATH = {str(tmp_path / 'far_recipe.toml')!r}\n", "far_package_recipes.py")
    text = f'description = "far away"\n{RECIPE.format(name="quadratics", algorithm="far_lean+local")}'
    written(tmp_path, text, "far_recipe.toml")
    monkeypatch.syspath_prepend(place)
    catalog.OBJECTIVES._installed = None  # as in a new process
    return place


def test_an_installed_package_s_objective_is_found_and_not_imported_until_asked_for(package):
    assert "far_lean" in catalog.OBJECTIVES
    assert "far_lean" in list(catalog.OBJECTIVES)
    assert catalog.OBJECTIVES.source("far_lean") == "package far-package"
    assert not (package / "imported").exists()
    assert catalog.OBJECTIVES["far_lean"].__name__ == "lean"
    assert (package / "imported").exists()
    assert catalog.OBJECTIVES.source("far_lean") == "package far-package"


def test_a_run_that_does_not_name_it_does_not_import_it(package, tmp_path):
    assert main(["run", recipe(tmp_path, "quadratics"), "--out", str(tmp_path / "out")]) == 0
    assert not (package / "imported").exists()


def test_an_installed_package_is_listed_by_its_name_and_its_recipe_runs(package, tmp_path, capsys):
    assert main(["list"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")}
    assert "Lean as packages do." in lines["far_lean"]
    assert lines["far_lean"].endswith("[package far-package]")
    assert lines["far_recipe"].endswith("[package far-package]")
    assert main(["run", "far_recipe", "--out", str(tmp_path / "out")]) == 0
    assert "weight = 0.25" in (tmp_path / "out" / "recipe.toml").read_text()


def test_a_package_cannot_take_the_name_of_a_built_in_objective(package):
    points = package / "far_package-1.0.dist-info" / "entry_points.txt"
    points.write_text("[idiolect.objectives]\nmoreau = far_package:lean\n")
    catalog.OBJECTIVES._installed = None
    assert catalog.OBJECTIVES.source("moreau") == "idiolect"
    assert catalog.OBJECTIVES["moreau"].__module__.startswith("idiolect.")
    assert not (package / "imported").exists()


def test_a_function_of_a_notebook_is_called_as_it_is(tmp_path):
    """Its cell is no file that another process could import, but this one has the function."""
    cell = "def make():\n    return idiolect.Experiment(idiolect.Choice('quadratics'), ['fedavg'], horizon=30.0)\n"
    names = {"__name__": "__main__", "idiolect": idiolect}
    exec(compile(cell, str(tmp_path / "cell.py"), "exec"), names)
    assert reference_to(names["make"]) is None
    assert idiolect.run(names["make"], out=tmp_path / "run").experiment.factory is None
