"""Four real peers with TLS on this machine: they train digits, one is killed, one gets an old disk back."""

import shutil

import jax
import numpy as np
import pytest

from idiolect.deploy.peers.happened import read_log, rounds_that_happened
from idiolect.engines.serverless import Lane
from idiolect.engines.serverless.stepwise_peers import run_peers_stepwise
from idiolect.network.topologies import topology
from tests.deploy.peer_network import PeerNetwork, largest, ledger

pytest.importorskip("zenoh")

GRAPH = topology(4, [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 0), (3, 0), (3, 1)])
HORIZON = 60


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """What was left of such a run: frozen after a kill, and at the end."""
    root = tmp_path_factory.mktemp("peers")
    found = PeerNetwork(root, GRAPH, horizon=HORIZON)
    try:
        found.up("--pace", "0.05")
        found.wait(5)
        found.frozen_copy(root / "early")
        found.kill("a1")
        found.up("--pace", "0.05")
        found.wait(15)
        found.frozen_copy(root / "frozen")
        found.kill("a2")
        shutil.rmtree(found.state / "a2")
        shutil.copytree(root / "early" / "a2", found.state / "a2")
        found.up("--pace", "0.05")
        found.wait(HORIZON - 1)
    finally:
        found.last = found.down()
    return found


@pytest.fixture(scope="module")
def rules(network):
    return network.rules()


@pytest.fixture(scope="module")
def setups(network, rules):
    return network.setups(rules)


def test_it_went_on_to_the_end_and_said_who_came_back(network):
    assert "0 of 4 live" in network.last
    assert all(f"{name}: has ended, round {HORIZON - 1}" in network.last for name in network.names), network.last
    assert network.told("a1")["incarnation"] == 0, "who is killed comes back as it was"
    assert network.told("a2")["incarnation"] == 1, "who is put back comes back as another"
    assert "it comes back as incarnation 1" in network.said("a2")
    assert not any(network.told(name)["refused"] for name in network.names)


def test_mass_is_kept_to_rounding_and_every_weight_is_positive(network, setups):
    for where in (network.root / "frozen", network.state):
        states = network.disks(where, setups)
        stock = ledger(setups, states)
        assert abs(float(stock.leaked.y)) < 1e-9
        assert largest(stock.leaked.x) < 1e-9
        assert all(setups[name].agent.weight(state) > 0 for name, state in states.items())


def test_replayed_in_the_simulator_it_gives_the_same_agents_and_scores(network, rules, setups, capsys):
    frozen = network.root / "frozen"
    logs = {name: read_log(frozen / name) for name in network.names}
    last = 1 + max(entry["round"] for log in logs.values() for entry in log)
    table = rounds_that_happened(GRAPH, network.names, logs, last)
    assert table.awake.sum() > 40
    replayed = run_peers_stepwise(rules.problem, rules.algorithm, Lane(rules.problem.clients, table, rules.seed))
    states = network.disks(frozen, setups)
    for (name, state), again in zip(states.items(), replayed, strict=True):
        for ours, theirs in zip(jax.tree.leaves(state.node), jax.tree.leaves(again.state), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
        real, simulated = (setups[name].score(one) for one in (state, state._replace(node=again.state)))
        with capsys.disabled():
            print(f"\n{name}: accuracy {real['1']:.4f} of the real run, {simulated['1']:.4f} of its replay")
        assert real == pytest.approx(simulated, abs=0.02)


def test_it_learns(network):
    scores = [network.told(name)["scores"]["1"] for name in network.names]
    assert np.mean(scores) > 0.5, scores
