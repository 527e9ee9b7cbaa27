"""A server and devices that die at every durable write and every sending: no update is lost, and none counts twice."""

import jax
import numpy as np
import pytest

from tests.deploy.small_world import NAMES, World, same, small_work

MOMENTS = ["before log", "after log", "before checkpoint", "after checkpoint", "before reply"]
MOMENTS += ["before commit", "after commit", "before send", "after send", "after taken", "after settle"]


def ledger(world: World) -> None:
    """Every update that a device knows to be taken is in the timeline once, and nothing else is."""
    desk = world.open_server().desk
    arrived = [turn for turn, time in enumerate(desk.recorder.arrived) if time < float("inf")]
    assert desk.updates == len(arrived)
    for name in NAMES:
        member, record = desk.members[name], world.device(name).record
        mine = [turn for turn in arrived if desk.recorder.client[turn] == member.number]
        assert member.last == (mine[-1] if mine else None)
        if record.stage == "committed":  # finished devices may hold a turn that they have begun since
            assert record.turn == member.open
        else:
            assert record.last == member.last


@pytest.mark.parametrize("moment", MOMENTS)
def test_whoever_dies_at_a_moment_again_and_again_nothing_is_lost_or_doubled(tmp_path, moment):
    world, seen = World(tmp_path), 0

    def every_other(name):
        nonlocal seen
        seen += name == moment
        return name == moment and seen % 2 == 0

    world.dies = every_other
    world.work_on(12)
    world.finish()
    assert world.deaths[moment] >= (1 if "checkpoint" in moment else 3)
    ledger(world)
    assert same(world.replayed()[0], world.params(), rtol=1e-5, atol=1e-6)


def test_answers_that_are_lost_on_their_way_are_asked_for_again(tmp_path):
    world, count = World(tmp_path), 0

    def every_other(verb):
        nonlocal count
        count += 1
        return count % 2 == 0

    world.loses = every_other
    world.work_on(12)
    world.finish()
    ledger(world)
    assert world.open_server().desk.recorder.lost.count(float("inf")) == len(world.open_server().desk.recorder.lost)
    assert same(world.replayed()[0], world.params(), rtol=1e-5, atol=1e-6)


def test_checkpoint_and_log_give_the_server_back_to_the_byte(tmp_path):
    world = World(tmp_path)
    for updates in range(1, 9):
        world.work_on(updates)
        before = world.open_server().desk.saved()
        world.server = None
        after = world.open_server().desk.saved()
        assert before.facts == after.facts
        assert before.tensors.keys() == after.tensors.keys()
        assert all(before.tensors[name].tobytes() == after.tensors[name].tobytes() for name in before.tensors)


LONG = [pytest.param(name, marks=pytest.mark.slow) for name in ("qupel_async", "ditto_async", "fedasync_mixing")]


@pytest.mark.parametrize("algorithm", ["asynchronous", "moreau+buffered", *LONG])
def test_what_happened_replays_in_the_simulator(tmp_path, algorithm):
    world = World(tmp_path, small_work(algorithm))
    world.work_on(10)
    assert same(world.replayed()[0], world.params(), rtol=1e-5, atol=1e-6)


def test_personal_state_and_private_parts_stay_on_the_device_and_replay_there(tmp_path):
    work = small_work("asynchronous last")
    world = World(tmp_path, work)
    world.work_on(9)
    world.finish()
    params, kept = world.replayed()
    assert same(params, world.params(), rtol=1e-4, atol=1e-5)
    private = 0
    for client, name in enumerate(NAMES):
        record = world.device(name).record
        mine = record.after if record.stage == "taken" else record.before
        assert same(kept[client], mine, rtol=1e-4, atol=1e-5)
        for leaf in (leaf for leaf in map(bytes_of_leaf, jax.tree.leaves(mine)) if len(leaf) > 64):
            private += 1
            assert not any(leaf[:64] in content for content in world.sent)
    assert private
    images = max(map(bytes_of_leaf, jax.tree.leaves(work.problem.clients.train.rows)), key=len)
    assert not any(images[4000:4256] in content for content in world.sent)


def bytes_of_leaf(leaf) -> bytes:
    return np.asarray(leaf).tobytes()
