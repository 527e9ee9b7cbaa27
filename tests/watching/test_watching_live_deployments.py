"""`idiolect watch` on a live server with real devices, and on live peers (`make real`)."""

import json
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

import numpy as np
import pytest

from idiolect.network.topologies import ring
from tests.deploy.loopback import until
from tests.deploy.peer_network import PeerNetwork
from tests.deploy.processes import Deployment

pytest.importorskip("zenoh")
pytestmark = pytest.mark.slow


@contextmanager
def watched(folder):
    """What the page asks for, from a process of its own."""
    command = [sys.executable, "-m", "idiolect", "watch", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().split(": ", 1)[1].split()[0]

            def look():
                with urllib.request.urlopen(address + "state.json", timeout=60) as page:
                    return json.load(page)

            yield look
        finally:
            process.kill()


def row_of(view, name: str) -> dict[str, str]:
    (table,) = (one for one in view["tables"] if one["title"] in ("Devices", "Peers"))
    (row,) = (one for one in table["rows"] if one[0] == name)
    return dict(zip(table["columns"], row, strict=True))


def test_the_page_of_a_live_server_shows_who_works_now_and_that_it_went(tmp_path):
    with Deployment(tmp_path) as run:
        run.serve(updates=10_000)
        run.join("alice")
        run.join("bob", dies="before send", occurrence=2, how=19)  # it has a turn, and stands still
        until(lambda: run.status()["devices"].get("bob", {}).get("last") is not None, 300)
        run.until_updates(5)
        with watched(run.out) as look:
            assert look()["state"] == "listening"
            until(lambda: row_of(look(), "bob")["now"].startswith("computes turn "), 60)
            before = look()["status"]
            until(lambda: look()["status"] != before, 60)
            assert int(row_of(look(), "alice")["last turn"]) >= 0
            run.kill("server")
            until(lambda: look()["state"] == "silent", 60)
            assert "it has ended, or is dead" in look()["status"]


def test_the_page_of_live_peers_shows_rounds_weights_and_who_is_gone(tmp_path):
    network = PeerNetwork(tmp_path, ring(directed=False)(3, np.random.default_rng(0)), horizon=400, secure=False)
    try:
        network.up("--pace", "0.1")
        network.wait(3, seconds=300)
        with watched(network.state) as look:
            seen = look()
            assert seen["state"] == "under way"
            assert seen["status"].startswith("3 of 3 peers live")
            first = int(row_of(seen, "a0")["round"])
            until(lambda: int(row_of(look(), "a0")["round"]) > first, 60)
            assert "a1" in row_of(look(), "a0")["last heard"]
            network.kill("a1")
            until(lambda: look()["status"].startswith("2 of 3 peers live"), 60)
    finally:
        network.down()
