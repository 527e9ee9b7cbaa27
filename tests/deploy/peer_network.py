"""A network of real peer processes on this machine: started by the command line, killed, rolled back, looked into."""

import contextlib
import io
import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from idiolect.cli import main
from idiolect.deploy import keys
from idiolect.deploy.peers.agent_disk import AgentDisk
from idiolect.deploy.peers.graph_files import read_graph
from idiolect.deploy.peers.network_ledger import PeerStock, take_peer_stock
from idiolect.deploy.peers.peer_setup import network_rules, set_up_peer
from idiolect.experiments.recipe_files import load_recipe
from idiolect.network.topologies import Topology
from tests.deploy.loopback import PATIENCE, free_endpoint

RECIPE = """
seeds = [0]
horizon = {horizon}
[problem]
name = "digits"
clients = {clients}
partition = {{ name = "by_classes", classes = 5 }}
model = {{ name = "linear" }}
[training]
step_size = 0.1
batch_size = 16
[evaluation]
points = 1
steps = [0, 1]
step_size = 0.05
[[algorithms]]
name = "{algorithm}"
"""


class PeerNetwork:
    """Peers of a graph, with keys if they are asked for, below one folder."""

    def __init__(
        self, root: Path, graph: Topology, *, horizon: int, secure: bool = True, algorithm: str = "rasgp", kind="tcp"
    ) -> None:
        self.root, self.names = root, [f"a{i}" for i in range(graph.agents)]
        self.state, self.secure = root / "state", secure
        (root / "recipe.toml").write_text(RECIPE.format(horizon=horizon, clients=graph.agents, algorithm=algorithm))
        ports = [free_endpoint("tls" if secure else kind) for _ in self.names]
        lines = ['name = "trial"', "[peers]"]
        lines += [f'{name} = "{port}"' for name, port in zip(self.names, ports, strict=True)]
        lines += ["[links]"]
        for i, name in enumerate(self.names):
            lines.append(f"{name} = {json.dumps([self.names[j] for j in graph.targets[graph.sources == i]])}")
        (root / "graph.toml").write_text("\n".join(lines))
        if secure:
            keys.init(root / "keys")
            for name in self.names:
                keys.issue(root / "keys", name, hosts=["127.0.0.1"])
            for name in self.names:  # those that were made later, too
                shutil.copy(root / "keys" / "roster.json", root / "keys" / name / "roster.json")

    def command(self, action: str, *arguments: str) -> str:
        """What `idiolect network` prints; it is called in this process, and starts others."""
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            given = [str(self.root / "graph.toml"), *arguments, "--state", str(self.state)]
            assert main(["network", action, *given]) == 0
        return printed.getvalue()

    def up(self, *more: str) -> str:
        access = ["--keys", str(self.root / "keys")] if self.secure else ["--insecure"]
        return self.command("up", "--recipe", str(self.root / "recipe.toml"), *access, "--repeat", "0.2", *more)

    def down(self) -> str:
        return self.command("down")

    def told(self, name: str) -> dict[str, Any]:
        path = self.state / name / "status.json"
        return json.loads(path.read_text()) if path.exists() else {"round": -1, "written": 0}

    def wait(self, rounds: int, seconds: float = 240.0, names: list[str] | None = None) -> None:
        """Until all of them have come so far since now."""
        began, end = time.time(), time.monotonic() + PATIENCE * seconds
        names = names or self.names
        while not all(self.told(name)["round"] >= rounds and self.told(name)["written"] > began for name in names):
            assert time.monotonic() < end, [self.told(name) for name in names] + [self.said(name) for name in names]
            time.sleep(0.1)

    def said(self, name: str) -> str:
        return (self.state / name / "peer.log").read_text()

    def process(self, name: str) -> int:
        return json.loads((self.state / "network.json").read_text())[name][0]

    def kill(self, name: str) -> None:
        pid = self.process(name)
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}/stat").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text():
            time.sleep(0.02)

    def frozen_copy(self, to: Path) -> Path:
        """All folders as they are at one moment."""
        for name in self.names:
            os.kill(self.process(name), signal.SIGSTOP)
        time.sleep(0.2)
        shutil.copytree(self.state, to)
        for name in self.names:
            os.kill(self.process(name), signal.SIGCONT)
        return to

    def experiment(self):
        return load_recipe(str(self.root / "recipe.toml"), [])

    def graph(self):
        return read_graph(self.root / "graph.toml", insecure=None)

    def rules(self):
        return network_rules(self.experiment(), self.graph(), None)

    def setups(self, rules):
        return {name: set_up_peer(self.experiment(), self.graph(), name, rules) for name in self.names}

    def disks(self, state: Path, setups: dict[str, Any]) -> dict[str, Any]:
        return {name: AgentDisk(state / name, setup.owner).load(setup.agent.begin()) for name, setup in setups.items()}


def ledger(setups: dict[str, Any], states: dict[str, Any]) -> PeerStock:
    agents = {name: setup.agent for name, setup in setups.items()}
    return take_peer_stock(next(iter(agents.values())).peer, states, {name: a.start for name, a in agents.items()})


def largest(tree: Any) -> float:
    import jax

    return max(float(np.abs(np.asarray(leaf)).max()) for leaf in jax.tree.leaves(tree))
