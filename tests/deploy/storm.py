"""A network of agents in memory that loses, doubles, delays and reorders letters, kills agents and damages disks."""

import jax
import numpy as np

from idiolect.contracts import Algorithm, Peer
from idiolect.deploy.peers.agent import Agent, agent_at
from idiolect.deploy.peers.agent_program import compile_agent
from idiolect.deploy.peers.agent_state import AgentState, say_again
from idiolect.deploy.peers.letters import Letter, Neighbours
from idiolect.deploy.peers.network_ledger import PeerStock, take_peer_stock
from idiolect.network.topologies import Topology
from idiolect.objectives import plain
from idiolect.testing.small_clients import noisy_quadratics

ETA, HORIZON = 0.05, 100_000


def neighbours(graph: Topology) -> list[Neighbours]:
    names = [f"a{i}" for i in range(graph.agents)]
    return [
        Neighbours(
            names[i],
            i,
            graph.agents,
            tuple(names[j] for j in graph.sources[graph.targets == i]),
            tuple(names[j] for j in graph.targets[graph.sources == i]),
        )
        for i in range(graph.agents)
    ]


def agents_on(graph: Topology, protocol: Peer) -> dict[str, Agent]:
    problem = noisy_quadratics(noise=0.1)
    program = compile_agent(problem, Algorithm("storm", plain(), protocol, 1, ETA, 1), graph.agents)
    with jax.enable_x64(True):  # so that they also learn in 64 bits
        return {place.name: agent_at(program, place, seed=0, horizon=HORIZON) for place in neighbours(graph)}


class Storm:
    """All agents, their disks (every record that was ever written), and the letters under way."""

    def __init__(self, graph: Topology, agents: dict[str, Agent], seed: int) -> None:
        self.rng, self.places, self.agents = np.random.default_rng(seed), neighbours(graph), agents
        self.states: dict[str, AgentState] = {name: agent.begin() for name, agent in agents.items()}
        self.records = {name: [state] for name, state in self.states.items()}
        self.under_way: list[tuple[str, Letter]] = []
        self.spoken_below_zero, self.rebirths, self.wakings = 0, 0, 0

    def send(self, name: str, loss: float, doubles: float) -> None:
        letter = say_again(self.states[name], name)
        if letter is None:
            return
        place = self.places[int(name[1:])]
        for other in place.tells:
            copies = int(self.rng.random() >= loss) + int(self.rng.random() < doubles)
            self.under_way += [(other, letter)] * copies

    def deliver(self) -> None:
        """Any of the letters under way, the oldest as well as the newest."""
        if self.under_way:
            to, letter = self.under_way.pop(int(self.rng.integers(len(self.under_way))))
            self.states[to], refused = self.agents[to].heard(self.states[to], letter)
            assert not refused

    def wake(self, name: str, patient: bool, dies: str = "") -> None:
        """Wake, save, send; the agent may die between any two of them."""
        agent = self.agents[name]
        found = agent.wake(self.states[name], patient)
        if found is None:
            self.send(name, 0.3, 0.2)
            return None
        if dies == "before saving":
            return self.restart(name)
        state, waking = found
        self.records[name].append(state._replace(mail={}))
        self.states[name] = state
        self.wakings += waking.spoke
        if waking.spoke:
            self.spoken_below_zero += float(agent.peer.holds(state.node).y) <= 0
        if dies == "before sending":
            return self.restart(name)
        return self.send(name, 0.3, 0.2)

    def restart(self, name: str, back: int = 0) -> None:
        """Come back with the last record, or with one of so many wakings ago, and ask the out-neighbours."""
        records = self.records[name]
        del records[max(1, len(records) - back) :]
        self.states[name] = records[-1]
        self.ask(name, answers=0.8)

    def ask(self, name: str, answers: float = 1.0) -> None:
        """Ask the out-neighbours what they last heard; not everybody answers."""
        agent, state = self.agents[name], self.states[name]
        for other in self.places[int(name[1:])].tells:
            heard = self.agents[other].recall(self.states[other], name)
            if heard is not None and self.rng.random() < answers:
                state = agent.rejoin(state, heard)
        self.rebirths += state.stamp.incarnation != self.states[name].stamp.incarnation
        self.states[name] = state
        self.records[name].append(state._replace(mail={}))

    def stock(self) -> PeerStock:
        peer = next(iter(self.agents.values())).peer
        return take_peer_stock(peer, self.states, {name: agent.start for name, agent in self.agents.items()})

    def quiet(self, steps: int) -> None:
        """The storm is over: everything that is said arrives, and every question is answered."""
        for _ in range(steps):
            for name in self.agents:
                self.ask(name)
                self.wake(name, patient=True)
                self.send(name, 0.0, 0.0)
            while self.under_way:
                self.deliver()

    def weights(self) -> list[float]:
        return [agent.weight(self.states[name]) for name, agent in self.agents.items()]
