"""What an agent computes, compiled: once for all agents of a problem and an algorithm."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from idiolect.contracts import Algorithm, Key, Message, Params, Peer, Problem, PyTree, Scalar, Shard
from idiolect.engines.learner import Descent, descent
from idiolect.engines.serverless.link_screening import receive_if_sound
from idiolect.trees import widest

CATCH_UP = 100  # rounds


class Step(NamedTuple):
    """What a waking comes to before mail is taken in."""

    node: PyTree
    own: PyTree
    moved: Params
    content: PyTree  # what is told
    loss: Scalar


class AgentProgram(NamedTuple):
    """Compiled functions of one agent's state. They add up in 64 bits, and must be called while those are enabled."""

    problem: Problem
    algorithm: Algorithm
    peer: Peer
    step: Callable[..., Step]
    take: Callable[..., tuple[PyTree, PyTree, jax.Array]]
    settle: Callable[[PyTree, PyTree], PyTree]
    weight_after: Callable[[PyTree, PyTree], jax.Array]
    read: Callable[[PyTree], Params]
    agents: int


def compile_agent(problem: Problem, algorithm: Algorithm, agents: int) -> AgentProgram:
    """Prepare what every agent of a network does; nothing is compiled before it is first called."""
    peer = algorithm.protocol
    assert isinstance(peer, Peer)
    if peer.catch_up is None:
        peer = peer._replace(catch_up=CATCH_UP)
    return AgentProgram(
        problem,
        algorithm,
        peer,
        jax.jit(partial(_step, peer, descent(problem, algorithm), agents)),
        jax.jit(partial(_take, peer, agents)),
        jax.jit(peer.settle),
        jax.jit(partial(_weight_after, peer)),
        jax.jit(peer.read),
        agents,
    )


def _step(
    peer: Peer,
    descend: Descent,
    agents: int,
    node: PyTree,
    own: PyTree,
    start: Params,
    shard: Shard,
    key: Key,
    number: Scalar,
    eta: Scalar,
    t: Scalar,
) -> Step:
    """PARS-Push, Alg. 1, l. 5-15, with the randomness that the simulator has for this agent in this round."""
    own_key = jax.random.split(jax.random.fold_in(key, t), agents)[number]
    z = jax.tree.map(lambda leaf, like: leaf.astype(like.dtype), peer.read(node), start)
    own, steps, info = descend(own, z, shard, own_key, eta)  # l. 5-10
    moved = widest(steps)
    node, message = peer.emit(node, moved, t)  # l. 11-15
    return Step(node, own, moved, message.content, info["loss"])


def _take(
    peer: Peer, agents: int, memory: PyTree, content: PyTree, round: Scalar, gain: PyTree, node: PyTree
) -> tuple[PyTree, PyTree, jax.Array]:
    """L. 17-21: (what is known now, what has come so far, whether this letter can be true)."""
    most = agents + jnp.maximum(0.0, -peer.holds(node).y)  # who is in debt is owed that much more
    known, brought, sound = receive_if_sound(peer, memory, Message(content, round), most)
    return known, optax.tree.add(gain, brought), sound


def _weight_after(peer: Peer, node: PyTree, gain: PyTree) -> jax.Array:
    """The weight that an agent would have after it has shared out and taken in."""
    shared, _ = peer.emit(node, optax.tree.zeros_like(peer.holds(node).x), jnp.int32(0))
    return peer.holds(peer.settle(shared, gain)).y


def in_64_bits(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with 64 bits enabled while it runs."""

    def wide(*args: Any) -> Any:
        with jax.enable_x64(True):
            return function(*args)

    return wide
