"""A server whose devices are reached by letters: nothing is lost or doubled, and a turn is one journey."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from idiolect.deploy.flower.envelopes import unpack_questions
from idiolect.deploy.flower.post_office import Reply
from idiolect.deploy.serving.turned_away import Rules
from idiolect.engines.simulator.stepwise_server import run_stepwise
from idiolect.network.timelines import read_timeline
from idiolect.trees import as_tensors, names_of
from tests.deploy.post_riders import NODES, Network
from tests.deploy.small_world import small_work


@pytest.fixture
def network(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("idiolect.deploy.flower.post_office._SHORTEST", 0.1)  # nobody has to be left alone for long
    found = Network(tmp_path, small_work())
    yield found
    found.stop()


def assert_replays(network: Network, timeline: Path | None) -> None:
    """The simulator makes the same model of the timeline that was written down, in which each update is once."""
    assert timeline is not None
    table = read_timeline(timeline)
    assert status(network)["updates"] == int(np.sum(table.delivered))
    params, _ = run_stepwise(network.work.program, network.work.problem.clients, table, seed=0)
    (file,) = (network.folder / "out" / "params").glob("*.safetensors")
    found, expected = load_file(file), as_tensors(names_of("server", params))
    assert found.keys() == expected.keys()
    for name in found:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-6)


def status(network: Network) -> dict:
    return json.loads((network.folder / "out" / "status.json").read_text())


def each(period: int):
    """Whether it is the turn of every third, say."""
    return lambda number: number % period == period - 1


def test_devices_learn_by_letters_score_themselves_and_what_happened_replays(network):
    network.start_residents()
    timeline = network.serve(15, rules=Rules(score_every=5))
    assert_replays(network, timeline)
    told = status(network)
    assert told["updates"] >= 15
    assert {name: device["number"] for name, device in told["devices"].items()} == {
        f"node-{node}": place for place, node in enumerate(NODES)
    }
    network.stop()
    assert all(ended == ["the server has ended the run"] for ended in network.ended.values())
    # Called once, then one letter for each turn, and a last one that says that the run is over.
    assert len(network.riders.letters) <= told["turns"] + 2 * len(NODES)
    scores = (network.folder / "out" / "scores" / "plain+asynchronous-seed0.jsonl").read_text().splitlines()
    assert {json.loads(line)["name"] for line in scores} == {f"node-{node}" for node in NODES}


def test_models_in_chunks_are_one_journey_too(network, monkeypatch):
    for module in ("wire", "serving.reception"):
        monkeypatch.setattr(f"idiolect.deploy.{module}.CHUNK_BYTES", 100)
    monkeypatch.setattr("idiolect.deploy.joining.device.MESSAGE_BYTES", 2**17 + 50)
    network.start_residents()
    assert_replays(network, network.serve(6))
    # A letter for every chunk would be many more; a server that is slow may have somebody ask once more.
    assert len(network.riders.letters) <= status(network)["turns"] + 3 * len(NODES)
    verbs = [[one.verb for one in unpack_questions(reply, 2**20).asked] for reply in network.riders.replies]
    assert any(asked[-1:] == ["upload"] and asked.count("chunk") > 2 for asked in verbs)
    assert not any("model" in asked for asked in verbs)  # it was foreseen that they would want it


def test_letters_and_replies_that_are_lost_or_doubled_cost_nothing_but_time(network):
    riders = network.riders
    riders.loses, riders.loses_reply, riders.doubles = each(5), each(4), each(3)
    network.start_residents()
    assert_replays(network, network.serve(12, patience=0.3))
    assert status(network)["refusals"] == status(network)["turned_away"] == {}


LONG = [pytest.param(moment, marks=pytest.mark.slow) for moment in ("after log", "before reply", "after taken")]


@pytest.mark.parametrize("moment", ["before log", "after commit", *LONG])
def test_whoever_is_killed_goes_on_from_its_disk(network, moment):
    seen = 0

    def every_third(name: str) -> bool:  # of the first dozen, so that a server lives to say that the run is over
        nonlocal seen
        seen += name == moment
        return name == moment and seen % 3 == 2 and seen < 12

    network.start_residents(every_third)
    assert_replays(network, network.serve(8, every_third, patience=2.0))
    assert seen >= 3
    assert status(network)["refusals"] == {}
    # What a device was told is in the log: nobody finds that the other has forgotten something.
    assert not [said for said in network.said if "forgotten" in said or "incarnation" in said]


def test_what_is_no_letter_is_counted_under_the_name_of_the_node_that_it_came_from(network):
    class Liar:
        """Whatever node 9 is sent, it replies with a pickle."""

        def nodes(self):
            return NODES

        def push(self, node, letter):
            return "lie" if node == 9 else riders.push(node, letter)

        def pull(self, sent):
            return [*riders.pull(sent), *(Reply("lie", b"\x80\x04K\x01." * 40) for one in sent if one == "lie")]

    network.start_residents()
    riders, network.riders = network.riders, Liar()
    assert_replays(network, network.serve(8))
    told = status(network)
    assert set(told["devices"]) == {"node-7", "node-8"}
    assert told["turned_away"]["node-9"]["malformed"] >= 1
