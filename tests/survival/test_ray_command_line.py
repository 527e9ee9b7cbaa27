"""Ray on the command line: one sentence for what is missing, does not answer or cannot run there."""

import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from idiolect.cli import main
from idiolect.experiments.describing import write_experiment
from idiolect.experiments.places import Place, opened
from idiolect.experiments.running import Execution
from idiolect.experiments.sources import source_of
from tests.survival.ray_runs import experiment_of


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one sentence of a command that the user got wrong."""
    assert main(["run", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], str]:
    def write(name: str) -> str:
        (tmp_path / f"{name}.toml").write_text(write_experiment(experiment_of(name)))
        return str(tmp_path / f"{name}.toml")

    return write


def test_ray_that_is_not_installed_is_one_sentence(monkeypatch, capsys, file, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    out = tmp_path / "run"
    line = command(capsys, file("fedbuff"), "--engine", "ray", "--out", str(out))
    assert line == "idiolect: --engine is 'ray', but Ray is not installed; pip install 'idiolect[ray]'"
    assert not out.exists(), "nothing is written for nothing"


def test_an_address_that_does_not_answer_is_one_sentence(capsys, file):
    pytest.importorskip("ray", reason="Ray is not installed; pip install -e '.[test]'")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, but nobody listens
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        line = command(capsys, file("fedbuff"), "--engine", "ray", "--address", address)
    assert line.startswith(f"idiolect: --address {address} does not answer: ")
    for wrong in ("nowhere", "host:port", "ray://"):
        assert "must be HOST:PORT" in command(capsys, file("fedbuff"), "--engine", "ray", "--address", wrong)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("fedavg", ["--engine", "ray", "--clock", "real"], "fedavg works in rounds; take an asynchronous"),
        ("sgp", ["--engine", "ray", "--clock", "real"], "sgp has no server, whose clock it would be"),
        ("fedbuff", ["--address", "localhost:6379"], "--address is localhost:6379, which needs --engine ray"),
        ("fedbuff", ["--clock", "real"], "--clock is real, which needs --engine ray"),
        ("fedbuff", ["--engine", "ray", "--clock", "real", "--timeline", "x.csv"], "only a virtual clock can replay"),
    ],
)
def test_what_cannot_run_there_is_refused(capsys, file, name, options, words):
    assert words in command(capsys, file(name), *options)


def test_the_simulator_is_the_default():
    with opened(Place(), source_of(experiment_of("sgp"))) as execution:
        assert execution == Execution()
