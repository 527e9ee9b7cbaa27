"""Screening of messages between peers, link by link: what cannot be true is not taken in.

There is no server to compare clients with each other, and an agent knows only its in-neighbours. It still knows what
no honest message can bring: numbers that are not finite, a weight y below zero, or more of it than the whole network
has. Such a message changes nothing, as if it had been lost, and is counted for its link; for shares that loses their
mass, which the ledger tells as leaked. A false model of a possible weight is not found here: peers have no defence
against it yet.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Mass, Message, Peer, PyTree
from idiolect.network.topologies import Topology

ROUNDING = 1e-9  # a share of the network's weight by which rounding may make a difference of sums negative


def receive_if_sound(peer: Peer, memory: PyTree, message: Message, agents: Any) -> tuple[PyTree, PyTree, jax.Array]:
    """`peer.receive`, unless what the message brings cannot be true among so many agents; and whether it can."""
    known, brought = peer.receive(memory, message)
    sound = possible(brought, agents) & _finite(known)
    kept = jax.tree.map(lambda new, old: jnp.where(sound, new, old), known, memory)
    return kept, jax.tree.map(lambda leaf: jnp.where(sound, leaf, jnp.zeros_like(leaf)), brought), sound


def possible(brought: PyTree, agents: Any) -> jax.Array:
    """Can an honest sender have brought this?"""
    sound = _finite(brought)
    if isinstance(brought, Mass):
        sound &= (brought.y >= -ROUNDING * agents) & (brought.y <= agents)
    return sound


def by_lane(counts: jax.Array, links: list[int]) -> np.ndarray:
    """Numbers of the links of all lanes, as lanes x links; a lane with fewer links than others ends with zeros."""
    parts = np.split(np.asarray(counts)[:-1], np.cumsum(links)[:-1])  # the last link leads to nobody
    return np.stack([np.pad(part, (0, max(links) - len(part))) for part in parts])


def by_link(counts: np.ndarray, graph: Topology, clients: list[int]) -> dict[int, dict[int, int]]:
    """Messages that were refused, by the client that sent them and the one that refused them."""
    found: dict[int, dict[int, int]] = {}
    for link in np.flatnonzero(counts[: graph.links]):
        sender, receiver = clients[graph.sources[link]], clients[graph.targets[link]]
        found.setdefault(sender, {})[receiver] = int(counts[link])
    return dict(sorted(found.items()))


def _finite(tree: PyTree) -> jax.Array:
    return jnp.stack([jnp.array(True), *(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree))]).all()
