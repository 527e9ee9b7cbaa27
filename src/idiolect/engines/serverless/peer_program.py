"""The program of a protocol without a server: all agents of a round at once, round after round.

An agent's part is `idiolect.contracts.Peer`, mapped over agents and messages. Several seeds run side by side, as parts
of one network that are not linked; so do algorithms that differ in numbers only, which agents are told when they wake.
`idiolect.engines.serverless.stepwise_peers` does the same agent by agent, with nothing clever in it.

What agents send lies in a ring of the last rounds, one row a round; a link that delivers an old message reads an old
row. So memory is linear in agents and links, however much is under way.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from idiolect.contracts import Algorithm, Info, Key, Message, Params, Peer, Problem, PyTree, Scalar, Shard
from idiolect.engines.learner import Descent, descent
from idiolect.engines.serverless.hearing import hear
from idiolect.engines.serverless.layout import Layout, State, rows_at
from idiolect.engines.serverless.mass_ledger import TakeStock, stock_taker
from idiolect.trees import widest

_IF_THERE: dict[str, Any] = {"mode": "drop", "indices_are_sorted": True}


class Woken(NamedTuple):
    """Those that wake in a round, in order, once they have learned and before they hear."""

    nodes: PyTree
    own: PyTree
    steps: PyTree
    info: Info
    message: Message


class PeerProgram(NamedTuple):
    """The compiled functions of a serverless algorithm."""

    algorithm: Algorithm
    peer: Peer
    init: Callable[[Key], Params]
    open: Callable[[Params, PyTree, Layout, int], State]  # (params and own of every agent, layout, ring)
    advance: Callable[[State, Layout, np.int32, np.int32], State]  # (state, layout, from round, to round)
    models: Callable[[State], Params]  # of every agent
    take_stock: TakeStock
    # Half a round each, for some agents of a network: (state, layout, round, agents of a lane in all) -> who woke
    speak: Callable[[State, Layout, np.int32, int], Woken]
    # (state, layout, who woke, what others say, round, agents of a lane in all) -> state
    listen: Callable[[State, Layout, Woken, PyTree, np.int32, int], State]


def prepare_peers(problem: Problem, algorithm: Algorithm) -> PeerProgram:
    """Compile (on first call) what the engine needs. Only the problem's functions matter here, not its clients.

    Args:
        problem: Whose loss is learned.
        algorithm: With a protocol that needs no server.

    Returns:
        The compiled functions, for `simulate_peers`.

    Example:
        >>> from idiolect import Algorithm, objectives, protocols
        >>> from idiolect.engines.serverless import prepare_peers
        >>> from idiolect.problems.synthetic import quadratics
        >>> mine = Algorithm("mine", objectives.plain(), protocols.push_sum(), local_steps=1)
        >>> prepare_peers(quadratics(clients=3), mine).peer.carries
        'shares'
    """
    peer, objective = algorithm.protocol, algorithm.objective
    assert isinstance(peer, Peer)
    family = objective.family

    def init(key: Key) -> Params:
        return objective.shared(problem.init(key))

    kinds = jax.tree.map(lambda leaf: leaf.dtype, jax.eval_shape(init, jax.random.key(0)))

    def read(nodes: PyTree) -> Params:
        """The agents' models, in the floats in which they learn; what they share out they hold in wider ones."""
        return jax.tree.map(lambda leaf, kind: leaf.astype(kind), jax.vmap(peer.read)(nodes), kinds)

    def descend(numbers: PyTree) -> Descent:
        """What agents do whose objective has these numbers or, without any, those it was made with."""
        told = family.member(numbers) if family and numbers else objective
        return descent(problem, algorithm._replace(objective=told))

    def advance(state: State, layout: Layout, start: Scalar, stop: Scalar) -> State:
        def one_round(t: Scalar, state: State) -> State:
            return play_round(peer, read, descend, layout, state, t)

        return jax.lax.fori_loop(start, stop, one_round, state)

    def begin(params: Params, own: PyTree, layout: Layout, ring: int) -> State:
        first = partial(jax.tree.map, lambda leaf: leaf[0])
        shard, some = Shard(layout.rows, layout.starts[0], layout.sizes[0]), descend(first(layout.numbers))
        *_, info = jax.eval_shape(some, first(own), first(params), shard, layout.keys[0], layout.step_sizes[0, 0])
        return first_state(peer, params, own, layout, ring, list(info))

    return PeerProgram(
        algorithm,
        peer,
        init,
        jax.jit(begin, static_argnums=3),
        jax.jit(advance, donate_argnums=0),
        jax.jit(lambda state: read(state.nodes)),
        stock_taker(peer),
        jax.jit(partial(wake, peer, read, descend), static_argnums=3),
        jax.jit(partial(listen, peer), static_argnums=5, donate_argnums=0),
    )


def first_state(peer: Peer, params: Params, own: PyTree, layout: Layout, ring: int, reports: list[str]) -> State:
    """Every agent with its first model, and nothing said yet."""
    agents = len(layout.degrees)
    nodes = jax.vmap(peer.init)(params, layout.degrees)
    receivers = jnp.minimum(layout.targets, agents - 1)
    memories = jax.vmap(peer.remember)(rows_at(params, receivers), layout.degrees[receivers])
    still = optax.tree.zeros_like(widest(params))
    _, message = jax.eval_shape(jax.vmap(peer.emit, (0, 0, None)), nodes, still, jnp.int32(0))
    silence = jax.tree.map(lambda leaf: jnp.zeros((ring, *leaf.shape), leaf.dtype), message)
    silence = silence._replace(round=silence.round - 1)
    totals = {name: widest(jnp.zeros(agents)) for name in reports}
    lowest, refused = jax.vmap(peer.holds)(nodes).y, jnp.zeros(len(layout.targets), jnp.int32)
    return State(nodes, own, memories, silence, still, totals, jnp.full(agents, -1, jnp.int32), lowest, refused)


def play_round(
    peer: Peer,
    read: Callable[[PyTree], Params],
    descend: Callable[[PyTree], Descent],
    layout: Layout,
    state: State,
    t: Scalar,
) -> State:
    """PARS-Push, Alg. 1, l. 2-26, for all agents that wake in round t."""
    crowd = len(layout.degrees) // len(layout.keys)
    woken = wake(peer, read, descend, state, layout, t, crowd)
    return listen(peer, state, layout, woken, None, t, crowd)


def wake(
    peer: Peer,
    read: Callable[[PyTree], Params],
    descend: Callable[[PyTree], Descent],
    state: State,
    layout: Layout,
    t: Scalar,
    crowd: int,
) -> Woken:
    """L. 3-15, for those of the layout that wake in round t, in lanes of so many agents each."""
    some = _some(layout, t)
    nodes = rows_at(state.nodes, some)
    if peer.redirect is not None and layout.degrees_in is not None:
        nodes = jax.vmap(peer.redirect)(nodes, layout.degrees_in[t][some])
    drawn = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, t), crowd))(layout.keys)
    keys = drawn.reshape(crowd * len(layout.keys))

    def step(
        numbers: PyTree, own: PyTree, z: Params, start: Scalar, size: Scalar, key: Key, step_size: Scalar
    ) -> tuple[PyTree, Params, Info]:
        return descend(numbers)(own, z, Shard(layout.rows, start, size), key, step_size)

    seats = some if layout.seats is None else layout.seats[some]
    places = (layout.starts[some], layout.sizes[some], keys[seats], layout.step_sizes[t])
    told, kept = rows_at(layout.numbers, some), rows_at(state.own, some)
    own, steps, info = jax.vmap(step)(told, kept, read(nodes), *places)  # l. 4-11
    steps = widest(steps)
    nodes, message = jax.vmap(peer.emit, (0, 0, None))(nodes, steps, t)  # l. 11-15
    return Woken(nodes, own, steps, info, message)


def listen(peer: Peer, state: State, layout: Layout, woken: Woken, others: PyTree, t: Scalar, crowd: int) -> State:
    """L. 15-24, for those that woke; `others` is what agents that are not of the layout say, if it is but a part."""
    who, some, ring, agents = layout.wakers[t], _some(layout, t), len(state.spoken.round), len(layout.degrees)
    nodes, own, steps, info, message = woken
    last = jax.tree.map(lambda rows: rows[(t - 1) % ring, :agents], state.spoken)
    said = _put(last, who, message)
    if others is not None:
        said = jax.tree.map(lambda ours, theirs: jnp.concatenate([ours, theirs]), said, others)
    spoken = jax.tree.map(lambda rows, row: rows.at[t % ring].set(row), state.spoken, said)
    (memories, refused), gain = hear(peer, layout, (state.memories, state.refused), spoken, t, crowd)  # l. 16-21
    nodes = jax.vmap(peer.settle)(nodes, rows_at(gain, some))  # l. 22-24
    broken = jnp.where(jnp.isfinite(info["loss"]) | (state.broken[some] >= 0), state.broken[some], t)
    return State(
        _put(state.nodes, who, nodes),
        _put(state.own, who, own),
        memories,
        spoken,
        jax.tree.map(lambda total, step: total.at[who].add(step, **_IF_THERE), state.descended, steps),
        {name: total.at[who].add(info[name], **_IF_THERE) for name, total in state.totals.items()},
        _put(state.broken, who, broken),
        state.lowest.at[who].min(jax.vmap(peer.holds)(nodes).y, **_IF_THERE),
        refused,
    )


def _some(layout: Layout, t: Scalar) -> jax.Array:
    """Who wakes; whoever does not exist reads what another has, and is never written."""
    return jnp.minimum(layout.wakers[t], len(layout.degrees) - 1)


def _put(tree: PyTree, index: jax.Array, new: PyTree) -> PyTree:
    return jax.tree.map(lambda rows, new: rows.at[index].set(new, **_IF_THERE), tree, new)
