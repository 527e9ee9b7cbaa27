"""Real peers for minutes: half of the mail lost, killed again and again, a disk lost for good; and other protocols."""

import shutil

import jax
import numpy as np
import pytest

from idiolect.deploy.peers.happened import read_log, rounds_that_happened
from idiolect.engines.serverless import Lane
from idiolect.engines.serverless.stepwise_peers import run_peers_stepwise
from idiolect.network.topologies import exponential, ring
from tests.deploy.peer_network import PeerNetwork, largest, ledger

pytest.importorskip("zenoh")
pytestmark = pytest.mark.slow

HORIZON = 120
ROUGH = ("--impair", "loss=0.5,doubles=0.3,delay=0.2,seed=1", "--pace", "0.3")


def test_half_of_the_mail_is_lost_and_peers_die_at_random_and_a_disk_is_lost_and_no_mass_is(tmp_path):
    graph, rng = exponential()(6, np.random.default_rng(0)), np.random.default_rng(7)
    network = PeerNetwork(tmp_path, graph, horizon=HORIZON, algorithm="pars_push")
    try:
        network.up(*ROUGH)
        for goal in range(10, 90, 10):
            network.wait(goal, seconds=500)
            victim = network.names[rng.integers(len(network.names))]
            network.kill(victim)
            if goal == 40:
                shutil.rmtree(network.state / victim)
                lost = victim
            network.up(*ROUGH)
        network.wait(HORIZON - 1, seconds=500)
    finally:
        network.down()
    assert network.told(lost)["incarnation"] >= 1
    setups = network.setups(network.rules())
    states = network.disks(network.state, setups)
    stock = ledger(setups, states)
    assert abs(float(stock.leaked.y)) < 1e-9
    assert largest(stock.leaked.x) < 1e-9
    assert all(setups[name].agent.weight(state) > 0 for name, state in states.items())
    scores = [network.told(name)["scores"]["1"] for name in network.names]
    print(f"accuracy {np.mean(scores):.4f}, leaked {float(stock.leaked.y):.1e} of {len(scores)}")
    assert np.mean(scores) > 0.5


@pytest.mark.parametrize("algorithm", ["sgp", "dpsgd"])
def test_shares_and_copies_also_travel_and_replay(tmp_path, algorithm):
    graph = ring(directed=False)(4, np.random.default_rng(0))
    network = PeerNetwork(tmp_path, graph, horizon=30, algorithm=algorithm, secure=False)
    try:
        network.up("--pace", "0.05")
        network.wait(29, seconds=300)
    finally:
        network.down()
    rules = network.rules()
    setups = network.setups(rules)
    logs = {name: read_log(network.state / name) for name in network.names}
    table = rounds_that_happened(graph, network.names, logs, 30)
    replayed = run_peers_stepwise(rules.problem, rules.algorithm, Lane(rules.problem.clients, table, rules.seed))
    states = network.disks(network.state, setups)
    for state, again in zip(states.values(), replayed, strict=True):
        for ours, theirs in zip(jax.tree.leaves(state.node), jax.tree.leaves(again.state), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
