"""Reference engine without a server: agents with inboxes, one message at a time. Slow; it debugs the fast one.

Written apart from the program of all agents on purpose: a test holds the two to the same numbers.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from idiolect.contracts import Algorithm, Message, Params, Peer, Problem, PyTree, Shard
from idiolect.engines.learner import descent
from idiolect.engines.serverless.layout import Lane, first_models, step_sizes, summed_step
from idiolect.engines.serverless.link_screening import receive_if_sound
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
    refused: Counter[int] = field(default_factory=Counter)  # by sender: messages that could not be true
    inbox: list[Letter] = field(default_factory=list)
    woke: int = -1  # kappa_i


def run_peers_stepwise(problem: Problem, algorithm: Algorithm, lane: Lane) -> list[Agent]:
    """Fold the protocol over the rounds; every agent at the end. `algorithm.protocol.read` gives its model."""
    peer, table = algorithm.protocol, lane.table
    assert isinstance(peer, Peer)
    key, objective = jax.random.key(lane.seed), algorithm.objective
    params = objective.shared(problem.init(key))
    theta = step_sizes(algorithm, table.graph.agents, table.length)
    degrees = table.graph.out_degrees_in(np.arange(table.length))
    kind = jnp.result_type(*jax.tree.leaves(params))
    # What objectives keep is in the floats in which agents learn, not in those in which they add up.
    rows = first_models(lane, params)
    starts = [jax.tree.map(lambda leaf: leaf[i], rows) for i in range(table.graph.agents)]  # noqa: B023
    pairs = zip(starts, lane.clients.participating, strict=True)
    own = [objective.begin(start, client, key) for start, client in pairs]
    with jax.enable_x64(True):
        descend, agents = jax.jit(descent(problem, algorithm)), first_agents(peer, starts, own, lane)
        keys_in = jax.jit(lambda t: jax.random.split(jax.random.fold_in(training_key(lane.seed), t), len(agents)))
        for t in range(table.length):
            keys = keys_in(np.int32(t))
            awake = [i for i in range(len(agents)) if table.awake[t, i]]  # PARS-Push, Alg. 1, l. 3
            for i in awake:
                agent = agents[i]
                z = jax.tree.map(lambda leaf, start: leaf.astype(start.dtype), peer.read(agent.state), params)
                eta = summed_step(peer, theta, agent.woke, t).astype(kind)  # l. 4
                agent.own, steps, _ = descend(agent.own, z, agent.shard, keys[i], eta)  # l. 5-10
                if peer.redirect is not None and table.graph.present is not None:
                    agent.state = peer.redirect(agent.state, degrees[t, i])
                agent.state, message = peer.emit(agent.state, widest(steps), jnp.int32(t))  # l. 11-14
                agent.woke = t
                for entry in np.flatnonzero((table.sent == t) & (table.graph.sources[table.link] == i)):  # l. 15
                    receiver = agents[table.graph.targets[table.link[entry]]]
                    receiver.inbox.append(Letter(i, int(table.arrives[entry]), message))
            for i in awake:
                take_in(peer, agents[i], t, len(agents))
    return agents


def first_agents(peer: Peer, starts: list[Params], own: list[PyTree], lane: Lane) -> list[Agent]:
    """Everyone with its first model, and nothing said yet."""
    graph, agents = lane.table.graph, []
    for i, client in enumerate(lane.clients.participating):
        params, degree = starts[i], graph.out_degrees[i]
        memories = {int(j): peer.remember(params, degree) for j in graph.sources[graph.targets == i]}
        agents.append(Agent(lane.clients.train.shard(client), peer.init(params, degree), own[i], memories))
    return agents


def take_in(peer: Peer, agent: Agent, t: int, agents: int) -> None:
    """PARS-Push, Alg. 1, l. 16-24: all that has arrived by round t, old news too."""
    gain = optax.tree.zeros_like(peer.holds(agent.state))
    for letter in agent.inbox:
        if letter.arrives <= t:
            memory, brought, sound = receive_if_sound(peer, agent.memories[letter.sender], letter.message, agents)
            agent.memories[letter.sender] = memory
            agent.refused[letter.sender] += not sound
            gain = optax.tree.add(gain, brought)
    agent.inbox = [letter for letter in agent.inbox if letter.arrives > t]
    agent.state = peer.settle(agent.state, gain)
