"""What a server refuses, whom it puts off, and what devices do that come back with an older disk, or twice."""

import pickle
import shutil

import numpy as np
import pytest

from idiolect import Choice, Experiment
from idiolect.deploy.assignment import assignment
from idiolect.deploy.joining.device import Over
from idiolect.deploy.serving.turned_away import Patience, Rules
from idiolect.deploy.wire import CHUNK_BYTES, pack, unpack
from idiolect.errors import UserMistake
from idiolect.trees import names_of
from tests.deploy.small_world import LIMIT, NAMES, World, ask_raw, same, small_work

ME = "0" * 16


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def offered(world: World) -> dict:
    return ask_raw(world, "alice", "offer", {"incarnation": ME, "last": None})


def delta(world: World, value=0.01, dtype=np.float32, extra=0) -> dict:
    expected = names_of("delta", world.open_server().desk.expected)
    return {name: np.full(np.add(leaf.shape, extra), value, dtype) for name, leaf in expected.items()}


def upload(world: World, turn: int, tensors: dict, **changes) -> dict:
    header = {"incarnation": ME, "turn": turn, "weight": 3, "fault": False, **changes}
    return ask_raw(world, "alice", "upload", header, tensors)


BAD = {
    "not finite": lambda world: {"tensors": delta(world, np.nan)},
    "wrong shape": lambda world: {"tensors": delta(world, extra=1)},
    "wrong dtype": lambda world: {"tensors": delta(world, dtype=np.float64)},
    "wrong weight": lambda world: {"tensors": delta(world), "weight": -1},
}


@pytest.mark.parametrize("why", BAD)
def test_an_update_that_cannot_be_right_is_named_counted_and_never_logged(world, why):
    before = world.params()
    assert upload(world, offered(world)["turn"], **BAD[why](world)) == {"answer": "refused", "why": why}
    desk = world.open_server().desk
    assert desk.refusals == {"alice": {why: 1}}
    assert desk.updates == 0
    assert same(before, world.params())
    world.server = None
    assert world.open_server().desk.refusals == {"alice": {why: 1}}  # also after a restart
    assert upload(world, offered(world)["turn"], delta(world)) == {"answer": "taken"}  # and the device goes on


def test_other_weights_and_missing_arrays_are_refused(world):
    for weight in (0, True, 1.5, "3", None, 2**31):
        assert upload(world, offered(world)["turn"], delta(world), weight=weight)["why"] == "wrong weight"
    assert upload(world, offered(world)["turn"], {})["why"] == "wrong shape"
    assert upload(world, offered(world)["turn"], delta(world), fault=True)["why"] == "not finite"


def test_an_update_a_million_times_too_long_is_logged_judged_in_order_and_told_with_the_next_offer(world):
    for _ in range(6):
        assert upload(world, offered_again(world)["turn"], delta(world))["answer"] == "taken"
    before = world.params()
    turn = offered_again(world)["turn"]
    assert upload(world, turn, delta(world, 1e6))["answer"] == "taken"
    assert same(before, world.params())
    assert offered_again(world)["verdict"] == {"turn": turn, "refused": "too large"}
    assert world.open_server().desk.refusals == {"alice": {"too large": 1}}


def offered_again(world: World) -> dict:
    member = world.open_server().desk.members.get("alice")
    return ask_raw(world, "alice", "offer", {"incarnation": ME, "last": member and member.last})


def test_an_update_too_many_versions_old_is_refused_and_a_new_model_is_offered(tmp_path):
    world = World(tmp_path, rules=Rules(stale_after=3))
    turn = offered(world)["turn"]
    for _ in range(4):
        world.step("bob")
    assert upload(world, turn, delta(world)) == {"answer": "refused", "why": "too stale"}
    assert offered(world)["turn"] > turn


GARBAGE = {
    "nothing": b"",
    "garbage": b"\x00" * 100,
    "pickle": pickle.dumps({"turn": 0}),
    "no incarnation": pack({"turn": 0}),
    "an incarnation that is a path": pack({"incarnation": "../../../etc/passwd", "turn": 0, "last": None}),
    "a turn that is no number": pack({"incarnation": ME, "turn": "0", "last": "0"}),
    "a deep list": pack({"incarnation": [[[]]], "turn": 0}),
}


@pytest.mark.parametrize("verb", ["offer", "model", "chunk", "upload", "score", "no verb"])
@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_refused_and_changes_nothing(world, name, verb):
    server = world.open_server()
    before = server.desk.saved().facts
    assert unpack(server.answer("alice", verb, GARBAGE[name]), limit=LIMIT).header["answer"] == "refused"
    assert server.turned_away == {"alice": {"malformed": 1}}
    assert server.desk.saved().facts == before


def test_a_repeat_is_taken_before_and_another_turn_is_lost(world):
    turn = offered(world)["turn"]
    assert upload(world, turn, delta(world)) == {"answer": "taken"}
    after = world.params()
    assert upload(world, turn, delta(world)) == {"answer": "taken before"}
    world.server = None
    assert upload(world, turn, delta(world, 5)) == {"answer": "taken before"}
    assert same(after, world.params())
    assert upload(world, turn + 50, delta(world)) == {"answer": "lost"}
    world.step("bob")
    assert upload(world, world.device("bob").record.last, delta(world)) == {"answer": "lost"}


def test_who_asks_again_is_given_the_same_turn_while_its_model_is_here(world):
    first, again = offered(world), offered(world)
    assert (first["turn"], first["model"]) == (again["turn"], again["model"])
    world.server = None  # the model of that turn is gone with the process
    assert offered(world)["turn"] == first["turn"] + 1
    assert world.open_server().desk.recorder.lost[first["turn"]] < float("inf")


def test_numbers_are_given_once_as_wished_and_there_is_an_end_to_them(world):
    assert ask_raw(world, "alice", "offer", {"incarnation": ME, "wants": 2})["client"] == 2
    assert ask_raw(world, "bob", "offer", {"incarnation": ME, "wants": 2})["client"] == 0
    assert ask_raw(world, "carol", "offer", {"incarnation": ME, "wants": 99})["client"] == 1
    world.server = None
    assert ask_raw(world, "dave", "offer", {"incarnation": ME})["why"] == "no room for another client"
    assert {name: member.number for name, member in world.open_server().desk.members.items()} == {
        "alice": 2,
        "bob": 0,
        "carol": 1,
    }


def test_a_disk_that_is_an_older_copy_goes_on_as_a_new_incarnation(world, tmp_path):
    for _ in range(3):
        world.step("alice")
    shutil.copytree(tmp_path / "alice", tmp_path / "copy")
    for _ in range(3):
        world.step("alice")
    updates, old = world.open_server().desk.updates, world.device("alice").record.incarnation
    shutil.rmtree(tmp_path / "alice")
    shutil.copytree(tmp_path / "copy", tmp_path / "alice")
    world.devices.clear()
    for _ in range(3):
        world.step("alice")
    member = world.open_server().desk.members["alice"]
    assert member.past == (old,)
    assert any("older copy" in sentence for sentence in world.said)
    assert world.open_server().desk.updates > updates
    assert len(world.open_server().desk.recorder.client) >= world.open_server().desk.updates


def test_a_disk_that_is_lost_begins_anew_under_the_same_number(world, tmp_path):
    world.step("alice")
    number = world.open_server().desk.members["alice"].number
    shutil.rmtree(tmp_path / "alice")
    world.devices.clear()
    world.step("alice")
    assert world.open_server().desk.members["alice"].number == number
    assert len(world.open_server().desk.members["alice"].past) == 1


def test_of_two_devices_with_one_name_the_older_one_is_told_and_stops(world, tmp_path):
    world.step("alice")
    first = world.devices.pop("alice")
    shutil.move(tmp_path / "alice", tmp_path / "aside")
    world.step("alice")
    with pytest.raises(Over, match="has taken this one's place"):
        first.step()


def test_a_large_model_travels_in_chunks_both_ways(tmp_path, monkeypatch):
    monkeypatch.setattr("idiolect.deploy.wire.CHUNK_BYTES", 40)
    monkeypatch.setattr("idiolect.deploy.serving.reception.CHUNK_BYTES", 40)
    monkeypatch.setattr("idiolect.deploy.joining.device.MESSAGE_BYTES", 0)
    world = World(tmp_path)
    world.work_on(6)
    assert CHUNK_BYTES > 40
    assert same(world.replayed()[0], world.params(), rtol=1e-5, atol=1e-6)


def test_chunks_are_bounded_and_one_upload_at_a_time(world):
    size = world.open_server().desk.upload_bytes + 2**20
    told, part = {"whole": "x", "size": size, "number": 0}, {"chunk": np.zeros(CHUNK_BYTES, np.uint8)}
    assert ask_raw(world, "alice", "chunk", told, part)["why"] == "too long"
    assert ask_raw(world, "alice", "upload", {"whole": "x"}) == {"answer": "again"}


def test_scores_are_asked_for_told_as_numbers_and_kept(tmp_path):
    world = World(tmp_path, rules=Rules(score_every=4))
    world.work_on(12)
    scores = world.open_server().desk.scores
    assert {one["name"] for one in scores} == set(NAMES)
    assert all(set(one["scores"]) == {"0", "1", "own"} for one in scores)
    world.server = None
    assert world.open_server().desk.scores == scores
    turn = offered_as(world, "alice")
    bad = {"0": 1.0, "secret": 2.0}
    assert ask_raw(world, "alice", "score", {"turn": turn, "scores": bad})["why"] == "malformed"


def offered_as(world: World, name: str) -> int:
    record = world.device(name).record
    return ask_raw(world, name, "offer", {"incarnation": record.incarnation, "last": record.last})["turn"]


def test_who_asks_too_often_or_is_refused_again_and_again_must_wait_and_others_do_not():
    now = [0.0]
    patience = Patience(Rules(rate=10, burst=5), read=lambda: now[0])
    assert [patience.wait("alice") for _ in range(5)] == [0] * 5
    assert 0 < patience.wait("alice") <= 0.1
    assert patience.wait("bob") == 0
    now[0] += 1
    assert patience.wait("alice") == 0
    waits = []
    for _ in range(6):
        patience.strike("alice")
        waits.append(patience.wait("alice"))
        now[0] += 0.5
    assert waits[:3] == [0, 0, 0]
    assert waits[3:] == [2, 4, 8]
    assert patience.wait("bob") == 0
    now[0] += 10_000
    assert patience.wait("alice") == 0
    patience.praise("alice")
    patience.strike("alice")
    assert patience.wait("alice") == 0


def test_what_cannot_be_served_is_one_sentence():
    problem = Choice("quadratics", {"clients": 3})
    for algorithms, said in [
        (["sgp"], "has no server"),
        (["ifca"], "sends more than a descent"),
        (["local"], "shares nothing"),
        (["fedbuff", "persa_fl_me"], "name one by --algorithm"),
    ]:
        with pytest.raises(UserMistake, match=said):
            assignment(Experiment(problem, algorithms), None)
    with pytest.raises(UserMistake, match="any device could end the run"):
        assignment(Experiment(problem, ["fedbuff"], screening={"policy": "stop"}), None)
    assert small_work().identity != small_work("buffered").identity
