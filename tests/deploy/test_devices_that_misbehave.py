"""Devices with valid certificates that lie, do not read, or whose certificates end (`make real`)."""

import datetime as dt
import json
import os
import signal
import time

import numpy as np
import pytest
from safetensors.numpy import load_file

from idiolect.deploy import certificates, keys
from tests.deploy.loopback import PATIENCE, until
from tests.deploy.processes import RECIPE, Deployment
from tests.deploy.slow_reader import start_reader
from tests.deploy.test_deployment import assert_replays
from tests.deploy.test_matrix import ledger

pytest.importorskip("zenoh")
pytestmark = pytest.mark.slow
FIVE = ("alice", "bob", "carol", "dave", "eve")
SECONDS = int(150 * PATIENCE)  # that a certificate lasts; starting a device may take long


def test_a_fifth_of_the_devices_lies_and_is_refused_counted_and_put_off_and_the_others_learn(tmp_path):
    recipe = RECIPE.replace("clients = 3", "clients = 5").replace("local_steps = 2", "local_steps = 10")
    with Deployment(tmp_path, recipe, FIVE) as run:
        run.serve(updates=150, rules={"score_every": 40})
        for name in FIVE:
            run.join(name, **({"lies": -1e6} if name == "eve" else {}))
        for who in ("server", *FIVE[:4]):
            assert run.wait(who, 400) == 0, run.said(who)
        refusals = run.status()["refusals"]
        assert set(refusals) == {"eve"}, "nobody else is refused"
        assert sum(refusals["eve"].values()) >= 4, "more than are forgiven"
        assert "puts this device off" in run.said("eve")
        assert "was not absorbed: " in run.said("eve")
        model = load_file(run.out / "params" / "mine-seed0.safetensors")
        assert all(np.abs(array).max() < 10 for array in model.values())
        assert accuracy(run) > 0.6
        ledger(run)


def accuracy(run: Deployment) -> float:
    """Of the honest ones, as they told it last."""
    lines = (run.out / "scores" / "mine-seed0.jsonl").read_text().splitlines()
    last = {one["name"]: one["scores"]["0"] for one in map(json.loads, lines)}
    return float(np.mean([last[name] for name in FIVE[:4]]))


def test_a_certificate_ends_while_its_device_is_connected_and_a_new_one_goes_on(tmp_path, monkeypatch):
    with Deployment(tmp_path) as run:
        run.serve(updates=10_000)
        for name in ("alice", "bob"):
            run.join(name)
        run.until_updates(1)
        ends = dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(seconds=SECONDS)
        with monkeypatch.context() as patched:
            for module in (certificates, keys):
                patched.setattr(module, "now", lambda: ends - dt.timedelta(days=1))
            keys.revoke(run.keys, "carol")
            keys.issue(run.keys, "carol", days=1)
        run.join("carol")
        until(lambda: run.status()["devices"].get("carol", {}).get("last") is not None, SECONDS)
        until(lambda: dt.datetime.now(dt.UTC) > ends, 2 * SECONDS)
        until(lambda: "nobody answers carol" in run.said("carol"), 200)
        time.sleep(3)
        before = run.status()["devices"]["carol"]["last"]
        run.until_updates(run.status()["updates"] + 20)
        assert run.status()["devices"]["carol"]["last"] == before, "she is shut out, and the others go on"
        run.kill("carol")
        keys.issue(run.keys, "carol")
        run.join("carol")
        until(lambda: run.status()["devices"]["carol"]["last"] != before, 200)
        for who in ("server", *run.names):
            os.kill(run.processes[who].pid, signal.SIGTERM)
        for who in ("server", *run.names):
            assert run.wait(who, 100) == 0, run.said(who)
        ledger(run)
        assert_replays(run)


def test_a_device_that_does_not_read_holds_up_nobody(tmp_path):
    """It asks for models of half a megabyte again and again, and lets them lie on the way."""
    recipe = RECIPE.replace("hidden = [8]", "hidden = [1800]")
    with Deployment(tmp_path, recipe) as run:
        run.serve(updates=10_000)
        run.join("alice")
        run.until_updates(3)
        run.processes["reader"] = start_reader(run, "carol", 300)
        until(lambda: "does not read" in run.status()["turned_away"].get("carol", {}), 200)
        assert run.processes["server"].is_alive()
        run.join("bob")
        until(lambda: run.status()["devices"].get("bob", {}).get("last") is not None, 200)
        run.until_updates(run.status()["updates"] + 10)
        keys.issue(run.keys, "dave")  # the server opens a new session for that, and the old one cannot end well
        until(lambda: "dave may connect" in run.said("server"), 200)
        run.until_updates(run.status()["updates"] + 10)
        for who in ("server", "alice", "bob"):
            os.kill(run.processes[who].pid, signal.SIGTERM)
        for who in ("server", "alice", "bob"):
            assert run.wait(who, 100) == 0, run.said(who)
        assert run.status()["devices"]["carol"]["last"] is None
        assert_replays(run)
