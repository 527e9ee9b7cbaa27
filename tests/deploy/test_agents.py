"""One agent as a state machine: what it hears, when it wakes, what it never does; and its replay in the simulator."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect.contracts import Algorithm
from idiolect.deploy.peers.agent_disk import AgentDisk, log_line
from idiolect.deploy.peers.agent_state import say_again
from idiolect.deploy.peers.happened import read_log, rounds_that_happened
from idiolect.deploy.peers.letters import Letter, Stamp
from idiolect.engines.serverless import Lane
from idiolect.engines.serverless.stepwise_peers import run_peers_stepwise
from idiolect.errors import UserMistake
from idiolect.network.topologies import complete, ring
from idiolect.objectives import plain
from idiolect.protocols import gossip, push_sum, running_sum
from idiolect.testing.small_clients import N, noisy_quadratics
from tests.deploy.storm import ETA, HORIZON, Storm, agents_on

RING = ring(directed=False)(N, np.random.default_rng(0))
PROTOCOLS = {"sums": running_sum, "shares": push_sum, "copies": gossip}


@functools.cache
def compiled(kind: str):
    return agents_on(RING, PROTOCOLS[kind]())


def awake(storm: Storm, name: str, patient: bool = False):
    """Wake an agent that can; what it said of it."""
    found = storm.agents[name].wake(storm.states[name], patient)
    assert found is not None
    storm.states[name], waking = found
    return waking


# --- Replay ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_what_happened_replayed_in_the_simulator_gives_the_same_agents(kind):
    storm, rng = Storm(RING, compiled(kind), 5), np.random.default_rng(5)
    names, logs = list(storm.agents), {name: [] for name in storm.agents}
    for _ in range(70):
        name = names[rng.integers(N)]
        found = storm.agents[name].wake(storm.states[name], rng.random() < 0.1)
        if found:
            storm.states[name], waking = found
            logs[name].append(log_line(waking))
        storm.send(name, loss=0.2, doubles=0.2)
        for _ in range(int(rng.integers(5))):
            storm.deliver()
    assert min(map(len, logs.values())) > 3
    horizon = 1 + max(entry["round"] for log in logs.values() for entry in log)
    table, problem = rounds_that_happened(RING, names, logs, horizon), noisy_quadratics(noise=0.1)
    algorithm = Algorithm("storm", plain(), PROTOCOLS[kind](catch_up=100), 1, ETA, 1)
    with jax.enable_x64(True):
        replayed = run_peers_stepwise(problem, algorithm, Lane(problem.clients, table, 0))
    for name, again in zip(names, replayed, strict=True):
        for ours, theirs in zip(jax.tree.leaves(storm.states[name].node), jax.tree.leaves(again.state), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_a_run_in_which_a_disk_was_lost_is_not_replayed_but_told():
    logs = {name: [] for name in ("a0", "a1", "a2", "a3")} | {"a2": [{"incarnation": 1, "round": 7}]}
    with pytest.raises(UserMistake, match=r"peer a2 came back with an old disk \(incarnation 1\)"):
        rounds_that_happened(RING, list(logs), logs, 10)


# --- Waking ----------------------------------------------------------------------------------------------------------


def test_it_wakes_once_at_first_and_then_with_news_and_says_its_last_letter_again_otherwise():
    storm = Storm(RING, compiled("sums"), 0)
    assert say_again(storm.states["a0"], "a0") is None
    assert awake(storm, "a0").heard == {}
    letter = say_again(storm.states["a0"], "a0")
    assert storm.agents["a0"].wake(storm.states["a0"], False) is None
    assert say_again(storm.states["a0"], "a0") == letter
    awake(storm, "a1")
    storm.states["a1"], _ = storm.agents["a1"].heard(storm.states["a1"], letter)
    assert awake(storm, "a1").heard == {"a0": [0]}
    storm.states["a1"], _ = storm.agents["a1"].heard(storm.states["a1"], letter)  # old news
    assert storm.agents["a1"].wake(storm.states["a1"], False) is None


def test_rounds_are_its_own_count_and_follow_what_it_hears():
    storm = Storm(RING, compiled("sums"), 0)
    awake(storm, "a0")
    late = say_again(storm.states["a0"], "a0")._replace(stamp=Stamp(0, 900))
    awake(storm, "a1")
    storm.states["a1"], _ = storm.agents["a1"].heard(storm.states["a1"], late)
    waking = awake(storm, "a1")
    assert waking.round == 900
    assert waking.slept == 900 - 100, "of 900 rounds since it woke, a hundred add up"


def test_while_a_neighbour_is_gone_the_others_rest_above_the_least_weight_and_go_on_when_it_is_back():
    storm, gone = Storm(RING, compiled("sums"), 1), "a2"
    awake(storm, gone)
    storm.send(gone, 0, 0)

    def everybody(names, times: int) -> int:
        before = storm.wakings
        for _ in range(times):
            for name in names:
                storm.wake(name, patient=True)
                storm.send(name, 0, 0)
            waiting, storm.under_way = storm.under_way, []
            storm.under_way = [(to, letter) for to, letter in waiting if to in names]
            while storm.under_way:
                storm.deliver()
        return storm.wakings - before

    others = ["a0", "a1", "a3"]
    assert everybody(others, 60) > 10
    assert everybody(others, 30) == 0, "they rest"
    assert min(storm.weights()) >= 0.25 / 3
    assert everybody(list(storm.agents), 30) > 60
    np.testing.assert_allclose(float(storm.stock().leaked.y), 0, atol=1e-12)


def test_after_the_last_round_it_only_repeats():
    storm = Storm(RING, compiled("sums"), 0)
    storm.states["a0"] = storm.states["a0"]._replace(clock=HORIZON - 2)
    assert awake(storm, "a0").round == HORIZON - 1
    assert storm.agents["a0"].wake(storm.states["a0"], True) is None


# --- What it hears ---------------------------------------------------------------------------------------------------


def spoiled(letter: Letter) -> dict[str, Letter]:
    x, y = letter.content
    return {
        "not finite": letter._replace(content=letter.content._replace(x=np.asarray(x) * np.nan)),
        "shapes or types": letter._replace(content=letter.content._replace(x=jnp.zeros(7))),
        "not those of the model": letter._replace(content={"x": x, "y": y}),
        "is not among the": letter._replace(stamp=Stamp(0, HORIZON)),
        "does not come from a peer": letter._replace(sender="a2"),
    }


@pytest.mark.parametrize("wrong", ["not finite", "shapes or types", "not those", "is not among", "does not come"])
def test_what_cannot_be_a_letter_is_refused_before_anything_is_computed(wrong):
    storm = Storm(RING, compiled("sums"), 0)
    awake(storm, "a1")
    good = say_again(storm.states["a1"], "a1")
    (bad,) = [letter for why, letter in spoiled(good).items() if why.startswith(wrong)]
    state, refused = storm.agents["a0"].heard(storm.states["a0"], bad)
    assert wrong in refused
    assert state.mail == {}


def test_a_letter_that_brings_more_weight_than_there_is_changes_nothing_and_is_told():
    storm = Storm(RING, compiled("sums"), 0)
    awake(storm, "a1")
    letter = say_again(storm.states["a1"], "a1")
    lie = letter._replace(content=letter.content._replace(y=np.float64(N + 0.1)))
    storm.states["a0"], _ = storm.agents["a0"].heard(storm.states["a0"], lie)
    waking = awake(storm, "a0")
    assert "no honest peer" in waking.refused["a1"]
    assert storm.agents["a0"].weight(storm.states["a0"]) == pytest.approx(1 / 3)


def test_every_share_counts_and_a_newer_sum_replaces_an_older_one():
    waiting = {}
    for kind in ("sums", "shares"):
        storm = Storm(RING, compiled(kind), 0)
        awake(storm, "a1")
        letter = say_again(storm.states["a1"], "a1")
        for t in (0, 1, 1, 2):
            told = letter._replace(stamp=Stamp(0, t))
            storm.states["a0"], _ = storm.agents["a0"].heard(storm.states["a0"], told)
        waiting[kind] = [one.stamp.round for one in storm.states["a0"].mail["a1"]]
    assert waiting == {"sums": [2], "shares": [0, 1, 2]}


# --- Disks -----------------------------------------------------------------------------------------------------------


def test_who_comes_back_with_an_old_disk_has_the_weight_it_had_once_its_neighbours_have_spoken():
    """Against the agent that did not lose its disk."""
    storm = Storm(RING, compiled("sums"), 2)
    storm.quiet(3)
    old = storm.states["a0"]
    storm.quiet(3)
    true = storm.states["a0"]
    awake(storm, "a1")  # with the last letter of a0 in its mail
    back = storm.agents["a0"].rejoin(old, storm.agents["a1"].recall(storm.states["a1"], "a0"))
    assert back.stamp == Stamp(1, true.stamp.round)
    for other in ("a1", "a3"):
        back, _ = storm.agents["a0"].heard(back, say_again(storm.states[other], other))
    holds = storm.agents["a0"].peer.holds
    assert float(holds(back.node).y) < 0, "it owes what it had sent"
    collected, waking = storm.agents["a0"].wake(back, False)
    assert not waking.spoke
    gains = sum(float(storm.states[name].said.y - true.memories[name].sum.y) for name in ("a1", "a3"))
    assert float(holds(collected.node).y) == pytest.approx(float(holds(true.node).y) + gains, abs=1e-12)


def test_who_lost_its_disk_and_woke_before_it_was_told_still_gets_back_what_it_had():
    """The sums that it refused as too large at first are right once it knows its debt."""
    storm = Storm(RING, compiled("sums"), 2)
    storm.quiet(24)
    true, lost = storm.states["a0"], storm.agents["a0"].begin()

    def hears_both(state):
        for other in ("a1", "a3"):
            state, _ = storm.agents["a0"].heard(state, say_again(storm.states[other], other))
        return state

    woken, waking = storm.agents["a0"].wake(hears_both(lost), False)
    assert set(waking.refused) == {"a1", "a3"}
    awake(storm, "a1")
    back = storm.agents["a0"].rejoin(woken, storm.agents["a1"].recall(storm.states["a1"], "a0"))
    assert back.stamp == Stamp(1, true.stamp.round), "its first letter had the same stamp, but not the same weight"
    collected, _ = storm.agents["a0"].wake(hears_both(back), False)
    assert storm.agents["a0"].weight(collected) > 0
    storm.states["a0"] = collected
    np.testing.assert_allclose(float(storm.stock().leaked.y), 0, atol=1e-12)


def test_who_is_as_new_as_what_others_heard_stays_who_it_is():
    storm = Storm(RING, compiled("sums"), 2)
    storm.quiet(3)
    heard = storm.agents["a1"].recall(storm.states["a1"], "a0")
    assert storm.agents["a0"].rejoin(storm.states["a0"], heard) == storm.states["a0"]


def test_a_record_gives_the_agent_back_and_a_line_too_many_in_the_log_is_cut(tmp_path):
    storm, disk = Storm(RING, compiled("sums"), 3), AgentDisk(tmp_path, "owner")
    first = storm.states["a0"]
    waking = awake(storm, "a0")
    disk.save(storm.states["a0"], log_line(waking))
    with (tmp_path / "wakings.jsonl").open("a") as log:
        log.write('{"round": 5, "heard": {}')  # killed while it wrote
    again = disk.load(first)
    for ours, theirs in zip(jax.tree.leaves(storm.states["a0"]), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert np.asarray(ours).dtype == np.asarray(theirs).dtype
    assert again.stamp == storm.states["a0"].stamp
    assert [entry["round"] for entry in read_log(tmp_path)] == [0]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty"])
def test_a_damaged_record_is_put_aside_and_said(tmp_path, damage):
    storm, said = Storm(RING, compiled("sums"), 3), []
    disk = AgentDisk(tmp_path, "owner", said.append)
    first = storm.states["a0"]
    disk.save(storm.states["a0"], log_line(awake(storm, "a0")))
    path = tmp_path / "agent.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes({"truncated": content[:-9], "flipped": bytes(content), "empty": b""}[damage])
    assert disk.load(first) is None
    assert (tmp_path / "agent.damaged").exists()
    assert "put aside" in said[0]


def test_another_peers_record_is_refused(tmp_path):
    storm = Storm(RING, compiled("sums"), 3)
    AgentDisk(tmp_path, "owner").save(storm.states["a0"], log_line(awake(storm, "a0")))
    with pytest.raises(UserMistake, match="is of another recipe, graph or peer"):
        AgentDisk(tmp_path, "another").load(storm.states["a0"])


def test_graphs_of_all_kinds_keep_going_when_everything_arrives():
    """Nobody rests for good: weights are what they are, and somebody can always wake."""
    graph = complete()(N, np.random.default_rng(0))
    storm = Storm(graph, agents_on(graph, running_sum()), 0)
    storm.quiet(40)
    assert storm.wakings > 100
