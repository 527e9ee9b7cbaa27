"""The skeletons of one's own objective, protocol, peer and so on are found by name, run, and obey the laws."""

import runpy
import sys
from pathlib import Path

import pytest

from idiolect.cli import main
from idiolect.registry import REGISTRIES

SKELETONS = Path(__file__).parents[2] / "examples" / "skeletons"
SHORT = ["seeds=[0]", "evaluation.points=1"]
DEMO = ["demo", *SHORT, "horizon=40.0", "problem.clients=6"]
PEERS = ["parspush-digits", *SHORT, "horizon=10", "problem.clients=6"]
RUNS = {
    "objective": [*DEMO, 'algorithms=[{name="shrunk+asynchronous",objective={strength=0.1}}]'],
    "protocol": [*DEMO, 'algorithms=[{name="moreau+cautious"}]'],
    "peer": [*PEERS, 'algorithms=[{name="plain+lazy_push"}]', "links.loss=0.0"],
    "problem": [str(SKELETONS / "recipe.toml"), *SHORT],
    "model": [*DEMO, 'problem.model={name="wide_and_shallow",width=20}', 'algorithms=[{name="fedasync"}]'],
    "partition": [*DEMO, 'problem.partition={name="odd_and_even"}', 'algorithms=[{name="fedasync"}]'],
    "topology": [*PEERS, 'topology={name="two_rings"}', 'algorithms=[{name="rasgp"}]'],
    "delay_law": [*DEMO, 'network.download={law="two_speeds"}', 'algorithms=[{name="fedasync"}]'],
}


@pytest.fixture(autouse=True)
def forgotten_afterwards(monkeypatch):
    """What a skeleton registers is gone when its test is over, and so is the module."""
    import idiolect.catalog  # which fills the registries

    assert idiolect.catalog
    before = set(sys.modules)
    for registry in REGISTRIES.values():
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    yield
    for name in set(sys.modules) - before:
        if name.startswith("idiolect_own_"):
            del sys.modules[name]


def test_every_skeleton_is_tried():
    assert {path.stem for path in SKELETONS.glob("*.py")} == set(RUNS)


# One by every change, all by `make slow`; that each obeys the laws is tried below.
@pytest.mark.parametrize("kind", [k if k == "protocol" else pytest.param(k, marks=pytest.mark.slow) for k in RUNS])
def test_a_skeleton_runs_from_the_command_line(kind, tmp_path, capsys):
    recipe, *settings = RUNS[kind]
    file = str(SKELETONS / f"{kind}.py")
    assert main(["run", recipe, "--with", file, "--set", *settings, "--out", str(tmp_path / "run")]) == 0
    assert f"importing {file}, which the command line names" in capsys.readouterr().err
    assert (tmp_path / "run" / "report.html").is_file()


@pytest.mark.parametrize("kind", ["objective", "protocol", "peer"])
def test_a_skeleton_obeys_the_laws(kind):
    runpy.run_path(str(SKELETONS / f"{kind}.py"), run_name="__main__")
