"""Real peers on links that are truly unreliable: UDP, of which half is lost, and nothing is sent again below them."""

import contextlib
import subprocess
import sys

import pytest

from idiolect.network.topologies import topology
from tests.deploy import lossy_relay
from tests.deploy.loopback import PATIENCE, free_endpoint
from tests.deploy.peer_network import PeerNetwork, largest, ledger

pytest.importorskip("zenoh")
pytestmark = pytest.mark.slow
GRAPH = topology(4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (2, 0)])
HORIZON = 40


@contextlib.contextmanager
def half_is_lost(network: PeerNetwork, lost):
    """Every peer reaches the others by a relay: each has a graph of its own, with its own port and theirs."""
    graph, text = network.graph(), (network.root / "graph.toml").read_text()
    doors = {name: free_endpoint("udp") for name in network.names}
    ways = [f"{doors[name].rpartition(':')[2]}:{graph.endpoints[name].rpartition(':')[2]}" for name in network.names]
    for mine in network.names:
        others = text
        for name in network.names:
            if name != mine:
                others = others.replace(f'"{graph.endpoints[name]}"', f'"{doors[name]}"')
        (network.root / f"graph-{mine}.toml").write_text(others)
    command = [sys.executable, lossy_relay.__file__, "0.5", "1", str(lost), *ways]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as relay:
        try:
            assert relay.stdout.readline() == "plugged in\n"
            yield
        finally:
            relay.kill()


@contextlib.contextmanager
def peers_of(network: PeerNetwork):
    started = []
    try:
        for name in network.names:
            (network.state / name).mkdir(parents=True)
            command = [sys.executable, "-m", "idiolect", "peer", str(network.root / "recipe.toml"), "--as", name]
            command += ["--graph", str(network.root / f"graph-{name}.toml"), "--state", str(network.state / name)]
            with (network.state / name / "peer.log").open("wb") as said:
                told = {"stdout": said, "stderr": said}
                started.append(subprocess.Popen([*command, "--insecure", "--repeat", "0.2", "--pace", "0.1"], **told))
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            try:
                process.wait(60 * PATIENCE)
            finally:
                process.kill()


def test_half_of_all_datagrams_is_lost_and_no_mass_is(tmp_path):
    network, lost = PeerNetwork(tmp_path, GRAPH, horizon=HORIZON, secure=False, kind="udp"), tmp_path / "lost"
    with half_is_lost(network, lost), peers_of(network):
        network.wait(3, seconds=300)  # they know each other
        lost.touch()
        network.wait(HORIZON - 1, seconds=500)
    setups = network.setups(network.rules())
    states = network.disks(network.state, setups)
    stock = ledger(setups, states)
    assert abs(float(stock.leaked.y)) < 1e-9
    assert largest(stock.leaked.x) < 1e-9
    assert all(setups[name].agent.weight(state) > 0 for name, state in states.items())
    assert all(state.stamp.incarnation == 0 for state in states.values())
