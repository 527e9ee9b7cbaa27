"""Reference engine without a server: agents with inboxes, one message at a time. Slow; it debugs the fast one.

Written apart from the program of all agents on purpose: a test holds the two to the same numbers.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from idiolect.contracts import Algorithm, Message, Params, Peer, Problem, PyTree, Shard
from idiolect.engines.learner import descent
from idiolect.engines.serverless.layout import Lane, step_sizes
from idiolect.engines.simulator.server_program import training_key
from idiolect.trees import widest


class Letter(NamedTuple):
    """A message in an inbox, which can be taken in from some round on."""

    sender: int
    arrives: int
    message: Message


@dataclass
class Agent:
    """One agent: its data, its state, what it remembers of each in-neighbour, and what waits for it."""

    shard: Shard
    state: PyTree
    own: PyTree
    memories: dict[int, PyTree]
    inbox: list[Letter] = field(default_factory=list)
    woke: int = -1  # kappa_i


def run_peers_stepwise(problem: Problem, algorithm: Algorithm, lane: Lane) -> list[Agent]:
    """Fold the protocol over the rounds; every agent at the end. `algorithm.protocol.read` gives its model."""
    peer, table = algorithm.protocol, lane.table
    assert isinstance(peer, Peer)
    params = problem.init(jax.random.key(lane.seed))
    theta = step_sizes(algorithm, table.graph.agents, table.length)
    kind = jnp.result_type(*jax.tree.leaves(params))
    # What objectives keep is in the floats in which agents learn, not in those in which they add up.
    own = [algorithm.objective.begin(params, client) for client in lane.clients.participating]
    with jax.enable_x64(True):
        descend, agents = jax.jit(descent(problem, algorithm)), first_agents(peer, params, own, lane)
        for t in range(table.length):
            keys = jax.random.split(jax.random.fold_in(training_key(lane.seed), t), len(agents))
            awake = [i for i in range(len(agents)) if table.awake[t, i]]  # PARS-Push, Alg. 1, l. 3
            for i in awake:
                agent = agents[i]
                z = jax.tree.map(lambda leaf, start: leaf.astype(start.dtype), peer.read(agent.state), params)
                eta = theta[agent.woke + 1 : t + 1].sum().astype(kind)  # l. 4
                agent.own, steps, _ = descend(agent.own, z, agent.shard, keys[i], eta)  # l. 5-10
                agent.state, message = peer.emit(agent.state, widest(steps), jnp.int32(t))  # l. 11-14
                agent.woke = t
                for entry in np.flatnonzero((table.sent == t) & (table.graph.sources[table.link] == i)):  # l. 15
                    receiver = agents[table.graph.targets[table.link[entry]]]
                    receiver.inbox.append(Letter(i, int(table.arrives[entry]), message))
            for i in awake:
                take_in(peer, agents[i], t)
    return agents


def first_agents(peer: Peer, params: Params, own: list[PyTree], lane: Lane) -> list[Agent]:
    """Everyone with the same model, and nothing said yet."""
    graph, agents = lane.table.graph, []
    for i, client in enumerate(lane.clients.participating):
        degree = graph.out_degrees[i]
        memories = {int(j): peer.remember(params, degree) for j in graph.sources[graph.targets == i]}
        agents.append(Agent(lane.clients.train.shard(client), peer.init(params, degree), own[i], memories))
    return agents


def take_in(peer: Peer, agent: Agent, t: int) -> None:
    """PARS-Push, Alg. 1, l. 16-24: all that has arrived by round t, old news too."""
    gain = optax.tree.zeros_like(peer.holds(agent.state))
    for letter in agent.inbox:
        if letter.arrives <= t:
            memory, brought = peer.receive(agent.memories[letter.sender], letter.message)
            agent.memories[letter.sender] = memory
            gain = optax.tree.add(gain, brought)
    agent.inbox = [letter for letter in agent.inbox if letter.arrives > t]
    agent.state = peer.settle(agent.state, gain)
