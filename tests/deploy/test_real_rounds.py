"""Rounds on real devices: who is in one, when it closes, what is late; killed anywhere, and replayed."""

import numpy as np
import pytest

from idiolect.contracts import Schedule
from idiolect.deploy.serving.real_rounds import RealRounds, checked_quorum
from idiolect.deploy.serving.turned_away import Rules
from idiolect.errors import UserMistake
from tests.deploy.small_world import NAMES, World, same, small_work
from tests.deploy.test_exactly_once import MOMENTS, ledger

SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("scaffold", "synchronous last", "moreau+synchronous")]


def rounds(tmp_path, algorithm: str = "synchronous", **rules) -> World:
    return World(tmp_path, small_work(algorithm), Rules(checkpoint_every=7)._replace(**rules))


def gather(world: World, names=NAMES) -> None:
    """Everybody asks until a round is open, and nobody has computed anything."""
    while world.open_server().desk.opened is None:
        for name in names:
            if world.open_server().desk.opened is None:
                world.step(name)


@pytest.mark.parametrize("moment", MOMENTS)
def test_whoever_dies_in_a_round_nothing_is_lost_or_doubled_and_it_replays(tmp_path, moment):
    world, seen = rounds(tmp_path), 0
    often = 7 if moment == "before reply" else 2  # who dies at every other reply never sees three devices at once

    def again_and_again(name):
        nonlocal seen
        seen += name == moment
        return name == moment and seen % often == 0

    world.dies = again_and_again
    world.work_on(12)
    world.finish()
    assert world.deaths[moment] >= (1 if "checkpoint" in moment else 3)
    desk = world.open_server().desk
    assert desk.round >= 4
    for number in range(4):
        members = [turn for turn, one in enumerate(desk.recorder.round) if one == number]
        assert sorted(desk.recorder.client[turn] for turn in members) == [0, 1, 2]
    ledger(world)
    assert same(world.replayed()[0], world.params(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("algorithm", ["feddyn", *SLOW])
def test_what_devices_keep_replays_too_also_of_those_who_were_late(tmp_path, algorithm):
    world, seen = rounds(tmp_path, algorithm, quorum=2, deadline=0.0), 0

    def sometimes(moment):
        nonlocal seen
        seen += moment == "after commit"
        return moment == "after commit" and seen % 3 == 0

    world.dies = sometimes
    world.work_on(10)
    world.finish()
    assert any("refused: late" in sentence for sentence in world.said)
    params, kept = world.replayed()
    assert same(params, world.params(), rtol=1e-4, atol=1e-5)
    desk = world.open_server().desk
    for client, name in enumerate(NAMES):
        record, last = world.device(name).record, desk.members[name].last
        if last is not None and desk.recorder.round[last] < desk.round:  # the round that is open is not replayed
            assert same(kept[client], record.after if record.stage == "taken" else record.before, rtol=1e-4, atol=1e-5)


def test_a_round_closes_at_its_deadline_if_it_has_its_quorum_and_what_comes_later_is_late(tmp_path):
    world = rounds(tmp_path, quorum=2, deadline=0.0)
    gather(world)
    assert world.open_server().desk.awaited == ["alice", "bob"]  # carol is not there yet
    world.step("alice")
    world.step("bob")
    gather(world, ("carol", "alice", "bob"))
    before = world.params()
    world.step("alice")
    assert world.open_server().desk.round == 1  # one of two is not enough, and it says so
    assert world.said[-1].startswith("round 1 has 1 of the 2 updates that it needs after 0 s; it goes on waiting for ")
    kill_after_commit(world, "carol")  # it has computed, and sends later
    world.step("bob")
    desk = world.open_server().desk
    assert (desk.round, desk.updates) == (2, 4)
    assert world.said[-1] == "round 1 ends with 2 updates, without carol"
    assert not same(before, world.params())
    world.step("carol")
    assert world.said[-1].endswith("was refused: late")
    assert world.device("carol").record.stage == "idle"
    assert world.open_server().turned_away == {"carol": {"late": 1}}
    assert desk.updates == 4
    world.work_on(6)
    assert same(world.replayed()[0], world.params(), rtol=1e-5, atol=1e-6)


def kill_after_commit(world: World, name: str) -> None:
    world.dies = lambda moment: moment == "after commit"
    world.step(name)
    world.dies = lambda moment: False


def test_a_server_that_begins_anew_in_a_round_goes_on_with_its_members_and_its_model(tmp_path):
    world = rounds(tmp_path)
    gather(world)
    world.step("alice")
    world.server = None
    desk = world.open_server().desk
    assert (desk.round, desk.came, desk.awaited) == (0, 1, ["bob", "carol"])
    for name in ("bob", "carol"):
        world.step(name)
    assert (desk.round, desk.updates) == (1, 3)
    assert [time < float("inf") for time in desk.recorder.lost] == [False] * 3
    assert same(world.replayed()[0], world.params(), rtol=1e-5, atol=1e-6)


def test_a_lost_disk_leaves_the_round_to_the_others_and_comes_back_with_the_next(tmp_path):
    world = rounds(tmp_path)
    gather(world)
    kill_after_commit(world, "carol")
    (tmp_path / "carol" / "record").unlink()
    world.step("carol")
    assert world.open_server().desk.awaited == ["alice", "bob"]
    for name in ("alice", "bob"):
        world.step(name)
    assert world.open_server().desk.round == 1
    world.work_on(5)
    assert same(world.replayed()[0], world.params(), rtol=1e-5, atol=1e-6)


class Pretended:
    """A desk with so many members of whom nobody has a turn."""

    def __init__(self, schedule: Schedule, names: list[str]) -> None:
        self.schedule, self.members, self.free = schedule, dict.fromkeys(names), []
        self.opened, self.round, self.came, self.awaited = None, 3, 0, []
        self.recorder = type("recorder", (), {"client": []})()


def test_a_round_is_for_those_who_are_there_and_waits_a_moment_for_the_others():
    names, now, noted = [f"d{k}" for k in range(10)], [0.0], []
    desk = Pretended(Schedule(rounds=True, participation=0.5), names)

    def note(kind, name, **facts):
        noted.append(name)

    keeper = RealRounds(desk, Rules(quorum=2), 0, note, lambda: now[0], read=lambda: now[0])
    for name in names[:8]:
        keeper.wait(name)
    keeper.decide(over=False)
    assert noted == []  # two of ten may still come
    now[0] = 1.1
    keeper.decide(over=True)
    assert noted == []  # the run is over
    keeper.decide(over=False)
    assert len(noted) == 4  # half of those who are there
    assert set(noted) < set(names[:8])
    noted.clear()
    keeper.wait("d1")
    now[0] = 60.0  # it has left long ago
    keeper.wait("d2")
    keeper.decide(over=False)
    now[0] = 62.0
    keeper.decide(over=False)
    assert noted == []


def test_a_quorum_that_no_round_can_have_is_one_sentence():
    assert checked_quorum(Rules(), Schedule(rounds=True, participation=0.2), 10) == 2
    assert checked_quorum(Rules(quorum=9), Schedule(rounds=True, participation=0.2), 10) == 9
    for schedule, most in [
        (Schedule(rounds=True), 10),
        (Schedule(rounds=True, participation=0.2, cohort_only=True), 2),
    ]:
        with pytest.raises(UserMistake, match=f"--quorum is 11, but a round of this recipe has {most} devices at most"):
            checked_quorum(Rules(quorum=11), schedule, 10)


@pytest.mark.parametrize("algorithm", ["synchronous", "asynchronous"])
def test_wall_clocks_that_are_hours_apart_and_jump_change_nothing(tmp_path, monkeypatch, algorithm):
    world, skew = rounds(tmp_path, algorithm), np.random.default_rng(0)
    monkeypatch.setattr("time.time", lambda: float(skew.uniform(-1e5, 1e10)))
    world.work_on(9)
    world.server = None  # it begins anew with yet another clock
    world.work_on(12)
    desk = world.open_server().desk
    assert (np.diff(desk.recorder.offered) > 0).all()
    ledger(world)
    assert same(world.replayed()[0], world.params(), rtol=1e-5, atol=1e-6)
