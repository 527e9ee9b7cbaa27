"""Flower's ServerApp and ClientApp through a grid of threads; slowly, a SuperLink and SuperNodes on loopback."""

import itertools
import json
import threading
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from idiolect.cli import main
from idiolect.deploy.assignment import assignment
from idiolect.engines.simulator.stepwise_server import run_stepwise
from idiolect.errors import UserMistake
from idiolect.experiments.recipe_files import load_recipe
from idiolect.network.timelines import read_timeline
from idiolect.trees import as_tensors, names_of
from tests.deploy.loopback import until
from tests.deploy.test_serve_commands import RECIPE

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'idiolect[flower]', or make test-flower")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from idiolect.deploy.flower.client_app import app as client_app
from idiolect.deploy.flower.flower_records import as_records, letter_in
from idiolect.deploy.flower.grid_carrier import GridCarrier
from idiolect.deploy.flower.server_app import app as server_app


@pytest.fixture(autouse=True)
def within_a_run(monkeypatch):
    """Flower asks of which run and node the process is that makes a message."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


class ThreadGrid:
    """What a ServerApp needs of a grid: every message is a ClientApp on a thread of its own."""

    def __init__(self, folders: dict[int, Path]) -> None:
        self._contexts = {
            node: Context(1, node, {"idiolect": str(folder)}, RecordDict(), {}) for node, folder in folders.items()
        }
        self._came: dict[str, Message] = {}
        self._numbers = itertools.count()
        self.fails = set[int]()  # the numbers of messages in whose place an error comes back

    def get_node_ids(self):
        return list(self._contexts)

    def push_messages(self, messages):
        return [self._push(message) for message in messages]

    def pull_messages(self, message_ids):
        return [self._came.pop(one) for one in list(message_ids) if one in self._came]

    def _push(self, message: Message) -> str:
        number = next(self._numbers)
        message.metadata.__dict__["_message_id"] = str(number)
        threading.Thread(target=self._carry, args=(number, message), daemon=True).start()
        return str(number)

    def _carry(self, number: int, message: Message) -> None:
        if number in self.fails:
            self._came[str(number)] = Message(Error(code=8, reason="the ClientApp was killed"), reply_to=message)
        else:
            self._came[str(number)] = client_app(message, self._contexts[message.metadata.dst_node_id])


def assert_replays(recipe: Path, out: Path) -> None:
    """The simulator makes the same model of the timeline that was written down."""
    work, table = assignment(load_recipe(recipe), None), read_timeline(out / "timelines" / "mine-seed0.csv")
    params, _ = run_stepwise(work.program, work.problem.clients, table, seed=0)
    found, expected = load_file(out / "params" / "mine-seed0.safetensors"), as_tensors(names_of("server", params))
    assert found.keys() == expected.keys()
    for name in found:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-5)


def test_flowers_own_apps_train_by_a_grid_of_threads_and_what_happened_replays(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("idiolect.deploy.flower.post_office._SHORTEST", 0.1)
    recipe, out = tmp_path / "recipe.toml", tmp_path / "out"
    recipe.write_text(RECIPE)
    folders = {11: tmp_path / "alice", 12: tmp_path / "bob", 13: tmp_path / "empty"}
    devices = []
    for place, node in enumerate([11, 12]):
        mine = ["--as", folders[node].name, "--data", f"recipe:{place}", "--state", str(folders[node])]
        words = ["join", "flower", "--recipe", str(recipe), *mine]
        devices.append(threading.Thread(target=main, args=(words,), daemon=True))
        devices[-1].start()
    until(lambda: all((folders[node] / "hatch.json").exists() for node in (11, 12)))
    grid = ThreadGrid(folders)
    grid.fails = {1, 5}
    config = {"recipe": str(recipe), "out": str(out), "updates": 8, "score-every": 4}
    server_app(grid, Context(1, 0, {}, RecordDict(), config))
    for device in devices:
        device.join(30)
        assert not device.is_alive()
    told = json.loads((out / "status.json").read_text())
    assert told["updates"] >= 8
    assert {name: device["number"] for name, device in told["devices"].items()} == {"node-11": 0, "node-12": 1}
    assert_replays(recipe, out)
    said = capsys.readouterr().out
    assert "alice: the server has ended the run" in said
    assert "bob: the server has ended the run" in said
    assert "Flower's error 8" in said
    assert "node-13 is called again in 0 seconds: there is no" in said  # nobody is at home there
    assert "idiolect: replay with: idiolect run" in said


def test_only_bytes_of_ours_are_taken_from_a_message_and_nothing_is_read_as_anything_else():
    assert letter_in(as_records(b"abc")) == b"abc"
    with pytest.raises(UserMistake, match="nobody is at home"):
        letter_in(as_records(b"", "nobody is at home"))
    raw = Array(dtype="uint8", shape=(3,), stype="numpy.ndarray", data=b"abc")
    for wrong in (
        RecordDict(),
        RecordDict({"letter": ConfigRecord({"letter": b"abc"})}),
        RecordDict({"letter": ArrayRecord({"letter": raw})}),
        RecordDict({"letter": ArrayRecord({"other": as_records(b"abc")["letter"]["letter"]})}),
    ):
        with pytest.raises(UserMistake, match="no letter"):
            letter_in(wrong)


def test_a_node_without_a_device_says_so_and_a_letter_that_cannot_be_sent_is_none(tmp_path):
    message = Message(as_records(b"abc"), 3, "train")
    context = Context(1, 3, {}, RecordDict(), {"idiolect": "/a/path/of/the/run"})  # not the node's own: never used
    with pytest.raises(UserMistake, match="this node has no device"):
        letter_in(client_app(message, context).content)

    class Full:
        def push_messages(self, messages):
            return []

    assert GridCarrier(Full(), 60.0).push(3, b"abc") is None


@pytest.mark.slow
def test_superlink_and_supernodes_train_a_killed_device_goes_on_and_so_does_a_second_run(tmp_path):
    from tests.deploy.flower_processes import FlowerDeployment

    with FlowerDeployment(tmp_path) as run:
        run.start_link()
        for name in run.names:
            run.start_device(name)
            run.start_node(name)
        first = run.run(updates=1000, **{"score-every": 3})
        until(lambda: run.status()["updates"] >= 3, 300)
        run.kill("bob")
        run.start_device("bob")
        before = run.status()["updates"]
        until(lambda: run.status()["updates"] >= before + 4, 300)
        run.flwr("stop", first, "here")
        until(lambda: run.state_of(first).startswith("finished"), 120)
        stopped = run.status()["updates"]
        second = run.run(updates=stopped + 4, **{"score-every": 3})
        for name in run.names:
            assert run.wait(name) == 0, run.said(name)
            assert "the server has ended the run" in run.said(name)
        until(lambda: run.state_of(second) == "finished:completed", 120)
        assert run.status()["updates"] >= stopped + 4
        assert run.status()["refusals"] == run.status()["turned_away"] == {}
        assert_replays(run.recipe, run.out)
        seconds = read_timeline(run.out / "timelines" / "mine-seed0.csv")
        taken = (seconds.arrived - seconds.offered)[seconds.delivered]
        print(f"{run.status()['updates']} updates; a turn took {np.median(taken):.1f} s (median of {len(taken)})")
