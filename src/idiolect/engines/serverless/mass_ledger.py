"""Mass accounting of a network of agents: with them, under way, lost but recoverable, or gone.

Agents share out a total of x and y. Steps take from the total of x what they descend; nothing else may change it. So
what agents hold, what is under way to them and what a running sum will still make good must add up to the start, less
the steps; the rest has leaked.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from idiolect.contracts import Mass, Message, Params, Peer, PyTree, Scalar
from idiolect.engines.serverless.layout import Layout, State
from idiolect.network.round_tables import Rounds
from idiolect.trees import widest

NOTHING = -1  # the age of a message that never came
NO_LINK = NOTHING - 1  # the age of a message on the link that leads nowhere


class Stock(NamedTuple):
    """The network's mass, by where it is."""

    with_agents: Mass
    under_way: Mass
    recoverable: Mass
    leaked: Mass


TakeStock = Callable[[State, Layout, Params, jax.Array, Scalar], Stock]


def stock_taker(peer: Peer) -> TakeStock:
    """A compiled function of the state after round t, the start, and what is under way: the stock of every lane."""
    return jax.jit(lambda *args: _take_stock(peer, *args))


def _take_stock(peer: Peer, state: State, layout: Layout, start: Params, pending: jax.Array, t: Scalar) -> Stock:
    lanes, agents = len(layout.keys), len(layout.degrees) // len(layout.keys)

    def by_lane(tree: PyTree) -> PyTree:
        return jax.tree.map(lambda leaf: leaf.reshape(lanes, agents, *leaf.shape[1:]).sum(1), tree)

    held = by_lane(jax.vmap(peer.holds)(state.nodes))
    x = optax.tree.sub(by_lane(widest(start)), by_lane(state.descended))
    total = Mass(x, jnp.full_like(held.y, agents))
    under_way = recoverable = optax.tree.zeros_like(held)
    if peer.carries == "sums":
        last_word = jnp.where(pending == NO_LINK, NO_LINK, 0)  # as if it had arrived everywhere
        under_way = by_lane(_owed(peer, layout, state, pending, t))
        recoverable = optax.tree.sub(by_lane(_owed(peer, layout, state, last_word, t)), under_way)
    elif peer.carries == "shares":
        under_way = by_lane(jax.tree.map(lambda rows: _weighted(pending, rows), state.spoken.content))
    found = optax.tree.add(held, optax.tree.add(under_way, recoverable))
    return Stock(held, under_way, recoverable, optax.tree.sub(total, found))


def _owed(peer: Peer, layout: Layout, state: State, ages: jax.Array, t: Scalar) -> PyTree:
    """What messages of these ages, one a link, would bring every agent if they were taken in now."""
    ring, agents = state.spoken.round.shape
    message: Message = jax.tree.map(lambda rows: rows[(t - ages) % ring, layout.sources], state.spoken)
    _, gains = jax.vmap(peer.receive)(state.memories, message)
    there = _weighted((ages >= 0)[None], jax.tree.map(lambda leaf: leaf[None], gains))
    return jax.tree.map(lambda leaf: jax.ops.segment_sum(leaf, layout.targets, agents + 1)[:agents], there)


def _weighted(weights: jax.Array, tree: PyTree) -> PyTree:
    """The sum over the first axis, with these weights for the first two."""

    def add(rows: jax.Array) -> jax.Array:
        return (weights.reshape(*weights.shape, *[1] * (rows.ndim - 2)) * rows).sum(0)

    return jax.tree.map(add, tree)


def pending_messages(table: Rounds, when: np.ndarray, t: int, peer: Peer, ring: int) -> np.ndarray:
    """What is under way after round t: for sums the age of the newest on each link, for shares how many of each.

    `when` says in which round each message is taken in. The shape is (links,), or (ring, agents) for shares.
    """
    open_ = (table.sent <= t) & (when > t)
    sent, link = table.sent[open_], table.link[open_]
    if peer.carries == "shares":
        counts = np.zeros((ring, table.graph.agents))
        np.add.at(counts, (sent % ring, table.graph.sources[link]), 1.0)
        return counts
    newest = np.full(table.graph.links, NOTHING)
    np.maximum.at(newest, link, sent)
    return np.where(newest >= 0, t - newest, NOTHING)


def joined(pending: list[np.ndarray], peer: Peer) -> np.ndarray:
    """What is under way in all lanes, as one network has it: side by side, with the link that leads nowhere."""
    if peer.carries == "shares":
        return np.concatenate(pending, axis=1)
    return np.append(np.concatenate(pending), NO_LINK)
