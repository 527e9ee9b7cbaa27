"""Real peers on real links that lose packets and are cut: two network namespaces, joined by a cable of ours."""

import contextlib
import shutil
import subprocess
import sys
import time

import pytest

from idiolect.deploy import keys
from idiolect.network.topologies import topology
from tests.deploy import lossy_cable
from tests.deploy.namespaces import cable, spaces
from tests.deploy.peer_network import PeerNetwork, largest, ledger

pytest.importorskip("zenoh")
pytestmark = pytest.mark.slow
__all__ = ["spaces"]  # a fixture

GRAPH = topology(4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (2, 0)])  # a0, a1 here; a2, a3 there
HORIZON = 60


@contextlib.contextmanager
def peers_in(spaces, network: PeerNetwork):
    """Every peer in its namespace."""
    started = []
    try:
        for number, name in enumerate(network.names):
            (network.state / name).mkdir(parents=True)
            command = ["ip", "netns", "exec", spaces[number // 2], sys.executable, "-m", "idiolect", "peer"]
            command += [str(network.root / "recipe.toml"), "--as", name, "--graph", str(network.root / "graph.toml")]
            command += ["--state", str(network.state / name), "--keys", str(network.root / "keys" / name)]
            with (network.state / name / "peer.log").open("wb") as said:
                started.append(
                    subprocess.Popen([*command, "--repeat", "0.3", "--pace", "0.1"], stdout=said, stderr=said)
                )
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(60)


def test_packets_are_lost_and_the_cable_is_cut_and_healed_and_no_mass_is_gone(tmp_path, spaces):
    network, cut = PeerNetwork(tmp_path, GRAPH, horizon=HORIZON), tmp_path / "cut"
    text = (tmp_path / "graph.toml").read_text()
    for number, name in enumerate(network.names):
        host = lossy_cable.ADDRESSES[number // 2]
        text = text.replace(network.graph().endpoints[name], f"tls/{host}:{7450 + number}")
        keys.issue(tmp_path / "keys", name, hosts=[host])
    (tmp_path / "graph.toml").write_text(text)
    for name in network.names:
        shutil.copy(tmp_path / "keys" / "roster.json", tmp_path / "keys" / name / "roster.json")
    with cable(spaces, 0.1, cut), peers_in(spaces, network):
        network.wait(10, seconds=400)
        cut.touch()
        time.sleep(3)
        before = [network.told(name)["round"] for name in network.names]
        time.sleep(12)
        resting = [network.told(name)["round"] for name in network.names]
        cut.unlink()
        network.wait(HORIZON - 1, seconds=400)
    assert max(after - now for after, now in zip(resting, before, strict=True)) < 40, "cut apart, they rest"
    setups = network.setups(network.rules())
    states = network.disks(network.state, setups)
    stock = ledger(setups, states)
    assert abs(float(stock.leaked.y)) < 1e-9
    assert largest(stock.leaked.x) < 1e-9
    assert all(setups[name].agent.weight(state) > 0 for name, state in states.items())
    assert all(state.stamp.incarnation == 0 for state in states.values())
