"""graph.toml and the commands of peers: what is wrong with them is one sentence."""

import sys
from pathlib import Path

import pytest

from idiolect.cli import main
from idiolect.deploy.peers.graph_files import read_graph
from idiolect.deploy.peers.peer_status import PeerStatus
from idiolect.errors import UserMistake

GOOD = """
name = "office"
[peers]
a0 = "tls/192.0.2.10:7447"
a1 = "tls/192.0.2.11:7447"
a2 = "tls/192.0.2.12:7447"
[links]
a0 = ["a1"]
a1 = ["a2"]
a2 = ["a0", "a1"]
"""


def written(tmp_path: Path, text: str) -> Path:
    (tmp_path / "graph.toml").write_text(text)
    return tmp_path / "graph.toml"


def test_a_graph_says_who_hears_and_tells_whom(tmp_path):
    graph = read_graph(written(tmp_path, GOOD))
    place = graph.place("a1")
    assert (place.number, place.agents, place.hears, place.tells) == (1, 3, ("a0", "a2"), ("a2",))
    assert graph.topology.links == 4


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[peers]", "[peer]", "peer is not a known key; known are name, peers, links"),
        ("a2 = [", "a9 = [", "links has 'a9', which is not among the peers"),
        ('a1 = ["a2"]', "a1 = []", "links.a1 must be a list of peers that a1 sends to, at least one"),
        ('a1 = ["a2"]', "", "links.a1 must be a list"),
        ('["a0", "a1"]', '["a0", "a0"]', r"links.a2\[1\] is 'a0', for the second time"),
        ('["a0", "a1"]', '["a2", "a1"]', r"links.a2\[0\] is 'a2', itself"),
        ('["a0", "a1"]', '["a0", "b"]', r"links.a2\[1\] is 'b', which is not among the peers"),
        ('["a0", "a1"]', '["a1"]', "strongly connected|reach"),
        ("tls/192.0.2.12:7447", "tls/192.0.2.12", "endpoint is 'tls/192.0.2.12', but must be like"),
        ("tls/192.0.2.12:7447", "tcp/192.0.2.12:7447", "without TLS"),
        ("192.0.2.12", "192.0.2.11", "twice, but every peer listens at one of its own"),
        ('a2 = "tls', 'A2 = "tls', "name is 'A2', but must be small letters"),
        ("name = ", "name : ", "is no TOML"),
    ],
)
def test_a_mistake_in_a_graph_is_one_sentence(tmp_path, old, new, said):
    assert old in GOOD
    with pytest.raises(UserMistake, match=said):
        read_graph(written(tmp_path, GOOD.replace(old, new)))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"--as": "a9"}, "--as is 'a9', but the graph has a0, a1, a2"),
        ({"--keys": None}, "--keys is missing"),
        ({"recipe": "demo"}, "say which to run with --algorithm"),
        ({"--algorithm": "sgp"}, "--algorithm is 'sgp', but the recipe has"),
        ({"--set": ['algorithms=[{name="fedavg"}]']}, "fedavg has a server; peers need an algorithm without one"),
        ({"--set": ["problem.clients=5"]}, "the graph has 3 peers, but 5 clients take part in training"),
        ({"--set": ["horizon=7.5"]}, "horizon is 7.5, but peers work in rounds"),
        ({"--set": ['algorithms=[{name="dpsgd"}]']}, "averages along links that go both ways"),
        ({"--impair": "loss=2"}, "--impair has loss=2, which must be 0 to 1"),
        ({"--keys": "nowhere"}, "certificate nowhere/cert.pem"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_sentence(tmp_path, capsys, changes, said):
    pytest.importorskip("zenoh")
    (tmp_path / "recipe.toml").write_text(
        '[problem]\nname = "quadratics"\nclients = 3\n[evaluation]\npoints = 1\n[[algorithms]]\nname = "rasgp"\n'
    )
    options = {
        "recipe": str(tmp_path / "recipe.toml"),
        "--as": "a0",
        "--graph": str(written(tmp_path, GOOD)),
        "--state": str(tmp_path / "state"),
        "--keys": str(tmp_path),
    } | changes
    arguments = ["peer", options.pop("recipe")]
    for name, value in options.items():
        if value is not None:
            arguments += [name, *([value] if isinstance(value, str) else value)]
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told


def test_without_zenoh_it_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "zenoh", None)
    graph = str(written(tmp_path, GOOD))
    assert main(["peer", "demo", "--as", "a0", "--graph", graph, "--state", str(tmp_path / "s"), "--keys", "k"]) == 2
    assert "real devices need Zenoh; pip install 'idiolect[zenoh]'" in capsys.readouterr().err


def test_status_of_a_network_that_never_ran(tmp_path, capsys):
    assert main(["network", "status", str(written(tmp_path, GOOD))]) == 0
    assert "a0: never ran" in capsys.readouterr().out


def test_status_tells_whom_a_peer_has_heard_just_now_and_not_whom_it_never_heard():
    hears = {"a1": {"silent": 0.0}, "a2": {"silent": None}, "a3": {"silent": 7.0}}
    assert PeerStatus("a0", True, {"hears": hears}).silent == {"a1": 0.0, "a3": 7.0}
