"""The fault matrix of a server and its devices, each row with real processes on loopback with TLS (`make real`)."""

import json
import os
import shutil
import signal
import time

import pytest

from idiolect.deploy import keys
from idiolect.deploy.access import device_config
from idiolect.deploy.wire import unpack
from tests.deploy.loopback import free_endpoint, issue_all, session, until
from tests.deploy.processes import Deployment
from tests.deploy.test_deployment import assert_replays

pytest.importorskip("zenoh")
pytestmark = pytest.mark.slow
SERVER = ["before log", "after log", "before checkpoint", "after checkpoint", "before reply", "after reply"]
DEVICE = ["before commit", "after commit", "before send", "after send", "after taken", "after settle"]


@pytest.fixture
def run(tmp_path):
    with Deployment(tmp_path) as deployment:
        yield deployment


def ledger(run: Deployment) -> None:
    """What devices hold against what the server has: every id that is taken is there, and nothing is there twice."""
    status, (timeline,) = run.status(), (run.out / "timelines").glob("*.csv")
    rows = [line.split(",") for line in timeline.read_text().splitlines()[1:]]
    delivered = [number for number, row in enumerate(rows) if row[5] == "True"]
    assert len(delivered) == status["updates"]
    for name, device in status["devices"].items():
        mine = [number for number in delivered if int(rows[number][0]) == device["number"]]
        assert device["last"] == (mine[-1] if mine else None)
        held = unpack((run.folder / f"state-{name}" / "record").read_bytes(), limit=2**30).header
        if held["incarnation"] == device["incarnation"] and held["stage"] != "committed":
            assert held["last"] == device["last"]


def finish(run: Deployment, updates: int, **settings) -> None:
    """Start again whoever is dead, until the run is over."""
    for who in ("server", *run.names):
        if run.processes[who].exitcode is not None:
            run.serve(updates=updates, **settings) if who == "server" else run.join(who)
    for who in ("server", *run.names):
        assert run.wait(who, 300) == 0, run.said(who)
    ledger(run)
    assert_replays(run)


@pytest.mark.parametrize("moment", SERVER)
def test_the_server_is_killed(run, moment):
    run.serve(updates=40, dies=moment, occurrence=2 if "checkpoint" in moment else 11)
    for name in run.names:
        run.join(name)
    assert run.wait("server", 300) == -9
    finish(run, 40)


@pytest.mark.parametrize("moment", DEVICE)
def test_a_device_is_killed(run, moment):
    run.serve(updates=40)
    run.join("bob", dies=moment, occurrence=4)
    assert run.wait("bob", 300) == -9
    for name in run.names:
        run.join(name)
    finish(run, 40)


def test_everybody_is_killed_again_and_again(run):
    run.serve(updates=60)
    for name in run.names:
        run.join(name)
    for who in ("server", "alice", "server", "bob", "carol", "server"):
        before = run.status()["updates"]
        until(lambda seen=before: run.status()["updates"] > seen or run.processes["server"].exitcode == 0, 300)
        if run.processes[who].exitcode is None:
            run.kill(who)
            run.serve(updates=60) if who == "server" else run.join(who)
    finish(run, 60)


def test_a_revoked_device_is_shut_out_while_the_others_go_on(run):
    run.serve(updates=400)
    for name in run.names:
        run.join(name)
    until(lambda: len(run.status()["devices"]) == 3, 300)
    keys.revoke(run.keys, "carol")
    until(lambda: "the roster has changed" in run.said("server"), 60)
    time.sleep(3)
    last = run.status()["devices"]["carol"]["last"]
    run.until_updates(run.status()["updates"] + 20, 300)
    assert run.status()["devices"]["carol"]["last"] == last
    assert run.processes["carol"].is_alive()


def test_strangers_are_not_let_in_and_nobody_notices(run, tmp_path):
    other = issue_all(tmp_path / "others", ["alice"])
    run.serve(updates=20)
    run.join("alice")
    stranger = run.join("alice", who="stranger", keys=str(other / "alice"), state=str(tmp_path / "elsewhere"))
    run.join("bob")
    run.join("carol")
    for who in ("server", *run.names):
        assert run.wait(who, 300) == 0
    assert stranger.is_alive()
    until(lambda: "nobody answers alice" in run.said("stranger"), 60)
    ledger(run)


def test_a_flood_of_garbage_from_one_device_is_counted_and_the_others_train(run):
    run.serve(updates=30, rules={"rate": 50.0, "burst": 50.0})
    for name in ("alice", "bob"):
        run.join(name)
    until(lambda: run.status()["updates"] >= 1, 300)
    carol, seen = keys.read_identity(run.keys / "carol"), run.status()["identity"][:16]
    with session(device_config(carol, run.endpoint, "carol")) as flood:
        for _ in range(400):
            for _answer in flood.get(f"idiolect/{seen}/carol/upload", payload=os.urandom(2000), timeout=1.0):
                pass
            if run.processes["server"].exitcode is not None:
                break
    for who in ("server", "alice", "bob"):
        assert run.wait(who, 300) == 0, run.said(who)
    assert run.status()["turned_away"]["carol"]["malformed"] >= 3
    assert set(run.status()["devices"]) == {"alice", "bob"}
    assert_replays(run)


def test_a_server_moves_to_another_address(run):
    run.serve(updates=40)
    for name in run.names:
        run.join(name)
    run.until_updates(3, 300)
    for who in ("server", *run.names):
        run.kill(who)
    shutil.move(run.out, run.folder / "elsewhere")
    run.out, run.endpoint = run.folder / "elsewhere", free_endpoint()
    run.serve(updates=40)
    for name in run.names:
        run.join(name)
    finish(run, 40)


def test_half_of_the_devices_are_gone_for_good_and_the_run_ends(run):
    run.serve(updates=25)
    for name in run.names:
        run.join(name)
    until(lambda: len(run.status()["devices"]) == 3, 300)
    for name in ("bob", "carol"):
        run.kill(name)
    assert run.wait("alice", 300) == 0
    assert run.wait("server", 300) == 0
    assert run.status()["updates"] >= 25
    assert_replays(run)


def test_who_is_asked_to_stop_stops_and_goes_on_later(run):
    run.serve(updates=10_000)  # nobody has ended before they are asked
    for name in run.names:
        run.join(name)
    run.until_updates(3, 300)
    for who in ("server", *run.names):
        os.kill(run.processes[who].pid, signal.SIGTERM)
    for who in ("server", *run.names):
        assert run.wait(who, 60) == 0, run.said(who)
    finish(run, run.status()["updates"] + 20)


def test_a_device_frozen_for_longer_than_a_lease_comes_back(run):
    run.serve(updates=10_000)
    for name in run.names:
        run.join(name)
    until(lambda: run.status()["devices"].get("bob", {}).get("last") is not None, 300)
    os.kill(run.processes["bob"].pid, signal.SIGSTOP)
    time.sleep(25)
    before = run.status()["devices"]["bob"]["last"]
    os.kill(run.processes["bob"].pid, signal.SIGCONT)
    until(lambda: run.status()["devices"]["bob"]["last"] > before, 120)


def test_another_recipe_on_the_device_is_one_sentence(run):
    run.serve()
    other = run.folder / "other.toml"
    other.write_text(run.recipe.read_text().replace("step_size = 0.1", "step_size = 0.2"))
    run.join("alice", recipe=str(other))
    assert run.wait("alice", 300) == 2
    assert "but not as this recipe has it; give both the same recipe" in run.said("alice")


def test_a_second_process_with_the_same_disk_is_refused(run):
    run.serve(updates=10_000)
    run.join("alice")
    until(lambda: "alice" in run.status()["devices"], 300)
    first = run.processes["alice"]
    run.join("alice")
    assert run.wait("alice", 300) == 2
    assert "is in use by another process" in run.said("alice")
    assert first.is_alive()
    first.kill()
    assert json.loads((run.out / "status.json").read_text())["refusals"] == {}
