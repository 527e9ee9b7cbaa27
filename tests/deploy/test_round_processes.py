"""Rounds with real processes on loopback with TLS: kills at every durable write, and a device that is late."""

import json
import os
import signal

import pytest

from idiolect.cli import main
from tests.deploy.loopback import free_endpoint, until
from tests.deploy.processes import RECIPE, Deployment
from tests.deploy.test_deployment import assert_replays
from tests.deploy.test_matrix import DEVICE, SERVER, finish, ledger

pytest.importorskip("zenoh")
pytestmark = pytest.mark.slow
SMALL = RECIPE.replace("hidden = [8]", "hidden = []").replace("clients = 3", "clients = 2")
QUICK = {"deadline": 3.0, "quorum": 2}


@pytest.fixture
def run(tmp_path):
    with Deployment(tmp_path, RECIPE.replace("plain+asynchronous", "plain+synchronous")) as deployment:
        yield deployment


@pytest.mark.parametrize("moment", SERVER)
def test_the_server_is_killed_in_a_round(run, moment):
    run.serve(updates=24, rules=QUICK, dies=moment, occurrence=1 if "checkpoint" in moment else 6)
    for name in run.names:
        run.join(name)
    assert run.wait("server", 300) == -9
    finish(run, 24, rules=QUICK)


@pytest.mark.parametrize("moment", DEVICE)
def test_a_device_is_killed_in_a_round(run, moment):
    run.serve(updates=24, rules=QUICK)
    for name in run.names:
        run.join(name, **({"dies": moment, "occurrence": 3} if name == "bob" else {}))
    assert run.wait("bob", 300) == -9
    finish(run, 24, rules=QUICK)


def test_a_device_that_freezes_in_a_round_is_late_and_takes_the_next_model(run):
    run.serve(updates=60, rules=QUICK)
    for name in run.names:
        frozen = {"dies": "before send", "occurrence": 2, "how": signal.SIGSTOP}
        run.join(name, **(frozen if name == "bob" else {}))
    run.until_updates(1)
    until(lambda: "without bob" in run.said("server"), 300)
    os.kill(run.processes["bob"].pid, signal.SIGCONT)
    until(lambda: "was refused: late" in run.said("bob"), 300)
    for who in ("server", *run.names):
        assert run.wait(who, 300) == 0, run.said(who)
    assert run.status()["turned_away"] == {"bob": {"late": 1}}
    ledger(run)
    assert_replays(run)


def test_a_server_and_its_devices_are_started_shown_and_ended_by_the_command_line(tmp_path, capsys):
    recipe = tmp_path / "mine.toml"
    recipe.write_text(SMALL)
    try:
        assert main(["network", "up", str(recipe), "--clients", "2", "--listen", free_endpoint()]) == 0
        said = capsys.readouterr().out
        assert [line.partition(":")[0] for line in said.splitlines()[:3]] == ["server", "c0", "c1"]
        status = tmp_path / "mine-state" / "server" / "out" / "status.json"
        until(lambda: status.exists() and json.loads(status.read_text())["updates"] > 4, 300)
        assert main(["network", "status", str(recipe)]) == 0
        assert "3 of 3 live" in capsys.readouterr().out
    finally:
        assert main(["network", "down", str(recipe)]) == 0
    assert "0 of 3 live" in capsys.readouterr().out
