"""What cannot fit, or takes for ever, is told before any work is done."""

import pytest

from idiolect.cli import main

SMALL = '[problem]\nname = "quadratics"\n'
SERVER, PEERS = '[[algorithms]]\nname = "fedavg"\n', '[[algorithms]]\nname = "sgp"\n'


@pytest.mark.parametrize(
    ("algorithm", "setting", "said"),
    [
        (SERVER, "problem.clients=1000000000", "GiB of memory, and this machine has"),
        (SERVER, "evaluation.points=1000000000", "are scores (evaluation.points, problem.clients)"),
        (PEERS, "horizon=1000000000", "are timelines (horizon, problem.clients)"),
        (SERVER, "horizon=1e18", "are timelines (horizon, problem.clients)"),
        (PEERS, "horizon=1e18", "are timelines (horizon, problem.clients)"),
    ],
)
def test_what_cannot_fit_is_one_sentence_before_anything_is_written(tmp_path, capsys, algorithm, setting, said):
    (tmp_path / "mine.toml").write_text(SMALL + algorithm)
    for command in ("run", "inspect"):
        assert main([command, str(tmp_path / "mine.toml"), "--set", setting, "--out", str(tmp_path / "out")]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
    assert not (tmp_path / "out").exists()


def test_what_takes_very_long_must_be_asked_for(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("idiolect.experiments.least_sizes.LONGEST", 1e-6)
    (tmp_path / "mine.toml").write_text("horizon = 40\n" + SMALL + SERVER)
    command = ["run", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "out"), "--set", "problem.clients=3"]
    assert main(command) == 2
    assert "run it with --yes, or make horizon (40) or problem.clients (3) smaller" in capsys.readouterr().err
    assert main([*command, "--yes"]) == 0


def test_a_device_is_no_timeline(tmp_path, capsys):
    (tmp_path / "mine.toml").write_text(SMALL + SERVER)
    assert main(["run", str(tmp_path / "mine.toml"), "--timeline", "/dev/zero", "--out", str(tmp_path / "out")]) == 2
    assert "/dev/zero cannot be read: it is no file" in capsys.readouterr().err


def test_what_is_said_has_one_line_each_and_moves_no_cursor(tmp_path, capsys):
    name = "\\u001b[2J\\nidiolect: all is well" + "x" * 5000
    (tmp_path / "mine.toml").write_text(f'[problem]\nname = "{name}"\n{SERVER}')
    assert main(["run", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "out")]) == 2
    notice, line = capsys.readouterr().err.splitlines()
    assert "\\x1b[2J\\nidiolect: all is well" in notice
    assert notice.isprintable()
    assert line.isprintable()
    assert len(line) < 1300
