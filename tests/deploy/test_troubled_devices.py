"""Devices with a full disk, with a server that talks nonsense, and between two versions of what is their own."""

import numpy as np
import pytest

from idiolect.deploy.joining.device import Over
from idiolect.deploy.wire import Message
from idiolect.errors import UserMistake
from tests.deploy.small_world import World, same, small_work


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_a_device_without_room_on_its_disk_sends_nothing_and_goes_on_when_there_is_room(world, monkeypatch):
    world.step("alice")

    def full(path, content):
        raise UserMistake(f"{path} cannot be written: No space left on device")

    monkeypatch.setattr("idiolect.deploy.joining.device_record.write_atomically", full)
    sent, updates = len(world.sent), world.open_server().desk.updates
    with pytest.raises(UserMistake, match="No space left"):
        world.step("alice")
    assert [content for content in world.sent[sent:] if b"weight" in content] == []
    monkeypatch.undo()
    world.devices.clear()
    world.step("alice")
    assert world.open_server().desk.updates == updates + 1
    assert same(world.replayed()[0], world.params(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"answer": "turn"}, "offer cannot be read"),
        ({"answer": "fly"}, "which this version does not know"),
        ({}, "which this version does not know"),
        ({"answer": "refused", "why": "no room"}, "refuses this device: no room"),
        (
            {"answer": "turn", "turn": 0, "client": 0, "model": "x", "size": 3, "verdict": None, "score": False},
            "cannot be",
        ),
    ],
)
def test_a_server_that_answers_nonsense_is_left_with_one_sentence(world, answer, said):
    device = world.device("alice")
    world.ask = lambda name, verb, content: Message(dict(answer), {"model": np.zeros(3, np.uint8)})
    with pytest.raises(Over, match=said):
        device.step()


@pytest.mark.parametrize("refused", ["", "too large"])
def test_a_device_keeps_both_versions_of_what_is_its_own_until_it_hears_which_counts(tmp_path, refused):
    world = World(tmp_path, small_work("ditto_async"))
    world.step("alice")
    world.step("alice")
    record, members = world.device("alice").record, world.open_server().desk.members
    assert record.stage == "taken"
    assert not same(record.before, record.after)
    members["alice"] = members["alice"]._replace(refused=refused)
    world.devices.clear()  # it also survives a restart in between
    world.step("alice")
    assert same(world.device("alice").record.before, record.before if refused else record.after)
