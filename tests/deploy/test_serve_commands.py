"""`idiolect serve` and `idiolect join` by the command line, without TLS on loopback; and what they say of mistakes."""

import json
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from idiolect import __version__
from idiolect.cli import main
from idiolect.deploy.joining.line import Line
from idiolect.deploy.wire import Message
from idiolect.errors import UserMistake
from tests.deploy.loopback import free_endpoint, issue_all
from tests.deploy.small_world import small_work

pytest.importorskip("zenoh")
RECIPE = """
[problem]
name = "quadratics"
clients = 3
dimension = 3
samples = 12

[training]
local_steps = 2
step_size = 0.05
batch_size = 2

[evaluation]
points = 1

[[algorithms]]
name = "plain+asynchronous"
label = "mine"
"""


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    return str(tmp_path / "recipe.toml")


def test_a_served_run_ends_when_it_has_its_updates_and_replays_by_the_command_line(tmp_path, recipe, capsys):
    where, out = free_endpoint("tcp"), tmp_path / "out"
    asked = [
        "serve",
        recipe,
        "--listen",
        where,
        "--insecure",
        "--out",
        str(out),
        "--updates",
        "8",
        "--score-every",
        "3",
    ]
    server = threading.Thread(target=main, args=(asked,))
    server.start()
    common = ["join", where, "--recipe", recipe, "--insecure"]
    carol = ["--as", "carol", "--data", "recipe:2", "--state", str(tmp_path / "carol"), "--turns", "2"]
    alice = ["--as", "alice", "--data", "recipe:0", "--state", str(tmp_path / "alice")]
    assert main([*common, *carol]) == 0
    assert main([*common, *alice]) == 0
    carol[-1] = "1"
    assert main([*common, *carol]) == 0  # it comes back, and hears that the run is over
    server.join(60)
    assert not server.is_alive()
    said = capsys.readouterr()
    assert "carol: 2 turns are done" in said.out
    assert "alice: the server has ended the run" in said.out
    assert json.loads((out / "status.json").read_text())["updates"] == 8
    assert {json.loads(line)["name"] for line in (out / "scores" / "mine-seed0.jsonl").read_text().splitlines()}
    (replay,) = (line for line in said.out.splitlines() if line.startswith("Replay with: idiolect "))
    words = replay.removeprefix("Replay with: idiolect ").split()
    assert main([*words, "--out", str(tmp_path / "replay")]) == 0
    served = load_file(out / "params" / "mine-seed0.safetensors")
    replayed = load_file(tmp_path / "replay" / "params" / "mine-seed0.safetensors")
    for name, array in served.items():
        np.testing.assert_allclose(replayed[name], array, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def keys_folder(tmp_path_factory) -> Path:
    return issue_all(tmp_path_factory.mktemp("keys"), ["alice"])


MISTAKES = {
    "a plain endpoint": (["serve", "R", "--listen", "tcp/127.0.0.1:1", "--out", "O"], "without TLS"),
    "insecure elsewhere": (
        ["serve", "R", "--listen", "tcp/0.0.0.0:1", "--insecure", "--out", "O"],
        "only taken",
    ),
    "no keys": (["serve", "R", "--listen", "tls/127.0.0.1:1", "--keys", "nowhere", "--out", "O"], "cannot be read"),
    "another's name": (["join", "tls/127.0.0.1:1", "--as", "bob", "--keys", "K", "--data", "recipe:0"], "is alice's"),
    "no client": (
        ["join", "tls/127.0.0.1:1", "--as", "alice", "--keys", "K", "--data", "recipe:9"],
        "recipe:0",
    ),
    "more devices than clients": (["network", "up", "R", "--clients", "4"], "--clients is 4, but 3 clients take part"),
    "a network that never was": (["network", "status", "R"], "has no processes; start them by"),
    "a quorum without rounds": (
        ["serve", "R", "--listen", "tls/127.0.0.1:1", "--quorum", "2", "--out", "O"],
        "--quorum is for protocols with rounds",
    ),
    "no function": (["join", "tls/127.0.0.1:1", "--as", "alice", "--keys", "K", "--data", "data"], "is no reference"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_sentence(tmp_path, recipe, keys_folder, capsys, mistake):
    words, said = MISTAKES[mistake]
    places = {"R": recipe, "O": str(tmp_path / "out"), "K": str(keys_folder / "alice")}
    words = [places.get(word, word) for word in words]
    words += ["--recipe", recipe, "--state", str(tmp_path / "state")] if words[0] == "join" else []
    assert main(words) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_without_the_extra_one_sentence_says_what_to_install(tmp_path, recipe, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "zenoh", None)
    assert main(["serve", recipe, "--listen", "tls/127.0.0.1:1", "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == "idiolect: real devices need Zenoh; pip install 'idiolect[zenoh]'\n"
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert main(["keys", "init", "--folder", str(tmp_path / "keys")]) == 2
    assert capsys.readouterr().err == "idiolect: keys need cryptography; pip install 'idiolect[zenoh]'\n"


def test_another_version_of_messages_is_refused_and_another_version_of_idiolect_is_told(monkeypatch):
    work, said = small_work(), list[str]()
    line = Line(None, "alice", "tcp/127.0.0.1:1", notice=said.append)
    for changes, sentence in [({"format": 2}, "speaks another version of messages"), ({"identity": "x"}, "serves")]:
        monkeypatch.setattr(line, "_until_answered", lambda *_, it=changes: Message({**work.about(), **it}, {}))
        with pytest.raises(UserMistake, match=sentence):
            line.greet(work)
    monkeypatch.setattr(line, "_until_answered", lambda *_: Message({**work.about(), "version": "0.0.9"}, {}))
    line.greet(work)
    assert said == [f"the server has idiolect 0.0.9, and this device {__version__}"]
