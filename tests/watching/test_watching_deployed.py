"""Servers of real devices and peers on this machine, watched from the status that they write."""

import json
import os
import time

import pytest

from idiolect.cli import main
from idiolect.errors import UserMistake
from idiolect.processes import began, lives
from idiolect.watching import watcher

STATUS = {
    "experiment": "mine",
    "algorithm": "fedasync",
    "seed": 0,
    "listens": "tls/127.0.0.1:7447",
    "updates": 7,
    "turns": 8,
    "seconds": 12.5,
    "devices": {
        "a<1>": {"number": 0, "incarnation": "x", "past": 0, "open": 3, "last": 2, "refused": "", "heard": None},
        "b": {"number": 1, "incarnation": "y", "past": 1, "open": None, "last": 1, "refused": "stale", "heard": 1.0},
    },
    "refusals": {"b": {"stale": 2}},
    "turned_away": {},
}
PEER = {
    "name": "a0",
    "pid": 1,
    "running": True,
    "incarnation": 0,
    "round": 12,
    "horizon": 100,
    "y": 0.75,
    "scores": {"0": 0.5, "own": 0.25},
    "resting": False,
    "waiting": False,
    "hears": {"a1": {"round": 11, "silent": 3.0, "alive": True}},
    "refused": {"a1": 2},
}


@pytest.fixture
def server(tmp_path):
    (tmp_path / "recipe.toml").write_text("")
    (tmp_path / "serving").mkdir()
    return tmp_path


@pytest.fixture
def network(tmp_path):
    me = os.getpid()
    (tmp_path / "network.json").write_text(json.dumps({"a0": [me, began(me)], "a1": [me, 1.0], "a2": [me, 1.0]}))
    for name, running in (("a0", True), ("a1", True)):
        (tmp_path / name).mkdir()
        told = {**PEER, "name": name, "running": running, "written": time.time() - 40}
        (tmp_path / name / "status.json").write_text(json.dumps(told))
    return tmp_path


def test_a_server_shows_its_devices_what_came_and_what_was_refused(server):
    look = watcher(server)
    assert look().state == "starting"
    path = server / "status.json"
    path.write_text(json.dumps(STATUS))
    view = look()
    assert (view.title, view.state, view.over) == ("mine: fedasync, seed 0", "listening", False)
    assert view.status == (
        "7 updates of 2 devices in 12 s; 1 have the model and compute; listening at tls/127.0.0.1:7447"
    )
    devices, refused = view.tables
    assert [row[0] for row in devices.rows] == ["a<1>", "b"]
    assert [row[3] for row in devices.rows] == ["computes turn 3", "idle"]
    assert refused.rows == [["b", "refusals", "stale", "2"]]
    path.write_text(json.dumps({**STATUS, "updates": 9, "seconds": 14.0}))
    assert look().figures[0].data[0]["y"] == [7, 9]
    os.utime(path, (time.time() - 100,) * 2)
    view = look()
    assert (view.state, view.over) == ("silent", True)
    assert "nothing for 2 min: it has ended, or is dead" in view.status


def test_a_network_shows_who_lives_and_what_each_weighs(network):
    view = watcher(network)()
    assert view.status == "1 of 3 peers live; y with peers 1.500000 of 3, the rest is on its way"
    (table,) = view.tables
    assert [row[:4] for row in table.rows] == [
        ["a0", "lives", "12", "0.7500"],
        ["a1", "dead since 40 s", "12", "0.7500"],
        ["a2", "never ran", "", ""],
    ]
    assert table.rows[0][4:] == ["0.2500", "a1 3 s", "0", "2"]
    assert [trace["name"] for trace in view.figures[0].data] == ["a0", "a1"]


DAMAGED = ["", "null", "[]", "{", "[" * 50_000, '{"updates": ' + "9" * 5000 + "}", json.dumps({"updates": 1})]


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_status_is_one_sentence(server, tmp_path_factory, content):
    (server / "status.json").write_text(content)
    with pytest.raises(UserMistake, match=r"status\.json is damaged: it is no status of a server"):
        watcher(server)()
    peers = tmp_path_factory.mktemp("peers")
    (peers / "a0").mkdir()
    (peers / "network.json").write_text(json.dumps({"a0": [1, 1.0]}))
    (peers / "a0" / "status.json").write_text(content)
    with pytest.raises(UserMistake, match=r"status\.json is damaged: it does not say its .* as a peer does"):
        watcher(peers)()
    (peers / "network.json").write_text(content)
    with pytest.raises(UserMistake, match=r"network\.json is damaged: it is no table of processes"):
        watcher(peers)()


@pytest.mark.parametrize("field", [name for name in PEER if name not in ("name", "pid")])
def test_every_field_of_a_peer_is_checked(network, field, capsys):
    path = network / "a0" / "status.json"
    path.write_text(json.dumps({**PEER, "written": 0.0, field: "x"}))
    assert main(["watch", str(network)]) == 2
    assert capsys.readouterr().err == f"idiolect: {path} is damaged: it does not say its {field} as a peer does\n"


def test_a_process_is_known_by_its_number_and_its_beginning():
    me = os.getpid()
    assert lives(me, began(me))
    assert not lives(me, began(me) + 1)
    assert not lives(2**22 + 1, 0.0)
    assert began(2**22 + 1) == 0.0
