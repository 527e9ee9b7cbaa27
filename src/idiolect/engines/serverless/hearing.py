"""How agents of one network take in the messages of a round: those of all links, a few at a time.

PARS-Push, Alg. 1, l. 16-21, for any `Peer`; what cannot be true is not taken in (`link_screening`).
"""

from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from idiolect.contracts import Message, Peer, PyTree, Scalar
from idiolect.engines.serverless.layout import Layout, rows_at
from idiolect.engines.serverless.link_screening import receive_if_sound

_SORTED: dict[str, Any] = {"mode": "promise_in_bounds", "indices_are_sorted": True}
_CACHED = 2**18  # bytes of messages, and of what is known of their senders, that are taken in at a time
_WRITTEN_OUT = 4  # pieces of a round's messages up to which the loop over them is unrolled

_Heard: TypeAlias = tuple[PyTree, jax.Array]  # what is known over every link, and how much was refused there


def hear(peer: Peer, layout: Layout, heard: _Heard, spoken: Message, t: Scalar, crowd: int) -> tuple[_Heard, PyTree]:
    """Take in all messages of round t: what is known and was refused by now, and what they bring to every agent.

    Messages are taken in a few at a time, as many as fit in a cache: a model is read once, and not once for each of the
    things that are done with it.
    """
    ring, agents = len(spoken.round), len(layout.degrees)
    receive = jax.vmap(partial(receive_if_sound, peer, agents=crowd))

    def said(link: jax.Array, age: jax.Array) -> Message:
        # Not by one index into a ring that is laid flat: XLA would copy the ring to have it both ways.
        place = ((t - age) % ring, layout.sources[link])
        return jax.tree.map(lambda rows: rows.at[place].get(mode="promise_in_bounds"), spoken)

    def take_in(so_far: tuple[_Heard, PyTree], some: tuple[jax.Array, jax.Array]) -> tuple[tuple[_Heard, PyTree], None]:
        ((memories, refused), gain), (link, age) = so_far, some
        changed, gains, sound = receive(rows_at(memories, link), said(link, age))
        target = layout.targets[link]
        gain = jax.tree.map(lambda total, leaf: total.at[target].add(leaf, **_SORTED), gain, gains)
        link = _after(gain, link)
        memories = jax.tree.map(lambda rows, new: rows.at[link].set(new, **_SORTED), memories, changed)
        refused = refused.at[link].add((~sound).astype(refused.dtype), **_SORTED)
        return ((memories, refused), gain), None

    few = _few(layout.links.shape[-1], heard[0], jax.tree.map(lambda rows: rows[0], spoken))
    links, ages = _in_pieces(layout.links[t], few, len(layout.targets) - 1), _in_pieces(layout.ages[t], few, 0)
    _, brought, _ = jax.eval_shape(receive, rows_at(heard[0], links[0]), jax.eval_shape(said, links[0], ages[0]))
    nothing = jax.tree.map(lambda leaf: jnp.zeros((agents + 1, *leaf.shape[1:]), leaf.dtype), brought)
    # The last target is nobody.
    (heard, gain), _ = jax.lax.scan(take_in, (heard, nothing), (links, ages), unroll=len(links) <= _WRITTEN_OUT)
    return heard, jax.tree.map(lambda leaf: leaf[:agents], gain)


def _few(messages: int, *trees: PyTree) -> int:
    """How many of so many messages are taken in at a time, of which each has a row of every leaf."""
    row = sum(leaf.nbytes // len(leaf) for leaf in jax.tree.leaves(trees))
    pieces = max(1, min(messages, -(-messages * row // _CACHED)))
    return max(1, -(-messages // pieces))


def _in_pieces(slots: jax.Array, few: int, nothing: int) -> jax.Array:
    """Every slot's messages, so many at a time; the last of them may be none, and all are where nothing ever comes."""
    rest = max(few - slots.shape[-1], -slots.shape[-1] % few)
    return jnp.pad(slots, ((0, 0), (0, rest)), constant_values=nothing).reshape(-1, few).astype(jnp.int32)


def _after(done: PyTree, index: jax.Array) -> jax.Array:
    """The index as it is, once `done` is computed.

    Rows that are read for `done` are then written where they are. XLA, which sees no order between the two, would copy
    all rows first. Indices are never negative, which XLA does not know.
    """
    firsts = [leaf.ravel()[0] for leaf in jax.tree.leaves(done) if leaf.size]
    odd = jnp.stack([jnp.array(False), *map(jnp.isnan, firsts)]).any()
    return jnp.maximum(index, -odd.astype(index.dtype))
