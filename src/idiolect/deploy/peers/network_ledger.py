"""The mass of a network of real peers, from what each has on its disk: with them, still to be heard, or gone.

Peers share out a total of x and y. Their steps take from the total of x; nothing else may change it. What a peer has
said and a neighbour has not taken in will come with the next letter that arrives, however many were lost.
"""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from idiolect.contracts import Mass, Message, Params, Peer
from idiolect.deploy.peers.agent_state import AgentState
from idiolect.trees import widest

_ANY_ROUND = 2**31 - 1  # later than any, so that a memory takes it for news


class PeerStock(NamedTuple):
    """The network's mass, by where it is. What is recoverable may be below zero after a peer came back."""

    with_agents: Mass
    recoverable: Mass
    leaked: Mass


def take_peer_stock(peer: Peer, states: Mapping[str, AgentState], starts: Mapping[str, Params]) -> PeerStock:
    """The stock of all peers, as their disks have it; shares and copies that are under way count as leaked."""
    with jax.enable_x64(True):
        held = _total([peer.holds(state.node) for state in states.values()])
        steps = _total([state.descended for state in states.values()])
        start = _total([widest(start) for start in starts.values()])
        owed = optax.tree.zeros_like(held)
        if peer.carries == "sums":
            owed = _total([_owed(peer, state, states) for state in states.values()])
        whole = Mass(optax.tree.sub(start, steps), widest(float(len(states))))
        return PeerStock(held, owed, optax.tree.sub(whole, optax.tree.add(held, owed)))


def _owed(peer: Peer, state: AgentState, states: Mapping[str, AgentState]) -> Mass:
    """What a peer's in-neighbours have said that it has not taken in."""
    letters = [Message(states[name].said, jnp.int32(_ANY_ROUND)) for name in state.memories]
    return _total([peer.receive(memory, one)[1] for memory, one in zip(state.memories.values(), letters, strict=True)])


def _total(trees: list[Mass]) -> Mass:
    total: Mass = jax.tree.map(lambda *leaves: sum(leaves), *trees)
    return total
