"""Arrays of a serverless run for a compiled program: the layout, fixed before it, and the state, which changes."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Algorithm, Clients, Info, Message, Params, Peer, PyTree, Split
from idiolect.contracts.step_rules import decayed, own_theta
from idiolect.engines.simulator.server_program import training_key
from idiolect.errors import UserMistake
from idiolect.network.round_tables import Arrivals, Rounds, accumulated, arrivals
from idiolect.trees import names_of


class Lane(NamedTuple):
    """One seed of a run: who holds what, and what the network does.

    A lane's own algorithm differs from its program's in step sizes and in the numbers of its objective, if at all.
    `start` is a trained model that its agents begin with, in place of a drawn one.
    """

    clients: Clients
    table: Rounds
    seed: int
    algorithm: Algorithm | None = None
    start: Params | None = None

    @property
    def numbers(self) -> PyTree:
        """Of the own objective, if there is one."""
        family = self.algorithm and self.algorithm.objective.family
        return family.numbers if family else ()


class Layout(NamedTuple):
    """What is fixed before learning: the graph, who wakes, what arrives, the step sizes, the data, the randomness.

    Seeds that run side by side are parts of one network that have no links between them: agents, links and rows of the
    second lane follow those of the first.
    """

    sources: jax.Array  # of every link; the last link fills up the lists below, and leads to nobody
    targets: jax.Array
    degrees: jax.Array
    degrees_in: jax.Array | None  # rounds x agents, where a graph changes and the protocol minds
    wakers: jax.Array  # rounds x wakings: who wakes, in order; the lists end with an agent that does not exist
    step_sizes: jax.Array  # and with which step size
    links: jax.Array  # rounds x slots x messages: over which links they come, at most one over each in a slot
    ages: jax.Array  # and how long ago they were sent
    rows: PyTree  # everybody's data, in one store
    starts: jax.Array  # of every agent's training part
    sizes: jax.Array
    keys: jax.Array  # of every lane
    numbers: PyTree  # of every agent's objective, where lanes differ in them
    seats: jax.Array | None = None  # which of all agents these are, where they are but some of them


class State(NamedTuple):
    """All agents after some rounds."""

    nodes: PyTree  # of every agent
    own: PyTree  # what the objective keeps on every agent
    memories: PyTree  # of every link, at its receiver
    spoken: Message  # a ring of rounds: what every agent had last sent by then
    descended: PyTree  # by every agent, in all
    totals: Info  # what every agent reported, added up over its wakings
    broken: jax.Array  # the round in which an agent's loss was not finite for the first time, or -1
    lowest: jax.Array  # every agent's smallest weight y so far
    refused: jax.Array  # over every link: messages that could not be true


def first_models(lane: Lane, common: Params) -> Params:
    """Every agent's model at first, row by row: the common one, or its own."""
    members, own = lane.clients.participating, lane.clients.start_models
    if own is None:
        return jax.tree.map(lambda leaf: np.broadcast_to(leaf, (len(members), *leaf.shape)), common)
    check_start_models(own, common, lane.clients.total)
    return jax.tree.map(lambda rows, leaf: np.asarray(rows, leaf.dtype)[members], own, common)


def rows_at(tree: PyTree, index: jax.Array) -> PyTree:
    """These rows of every leaf."""
    return jax.tree.map(lambda rows: rows.at[index].get(mode="promise_in_bounds"), tree)


def _row(rows: PyTree, place: int) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[place], rows)


def check_start_models(own: PyTree, common: Params, clients: int) -> None:
    """Refuse models of another shape than the problem's."""
    wanted = jax.tree.map(lambda leaf: (clients, *np.shape(leaf)), common)
    given = jax.tree.map(np.shape, own)
    if str(given) != str(wanted):
        raise UserMistake(
            f"clients.start_models has shapes {given}, but must have {wanted}: a row for each client, with a model "
            "like that of init"
        )


def first_own(algorithm: Algorithm, lanes: Sequence[Lane], starts: Sequence[Params]) -> PyTree:
    """What the objective keeps on every agent at first; agents run as one batch, so all must keep the same shapes."""
    kept = [
        (lane.algorithm or algorithm).objective.begin(_row(start, place), client, jax.random.key(lane.seed))
        for lane, start in zip(lanes, starts, strict=True)
        for place, client in enumerate(lane.clients.participating)
    ]
    if len({str(jax.tree.map(np.shape, own)) for own in kept}) > 1:
        raise UserMistake(
            f"{algorithm.name} keeps {_apart(kept)}, but without a server all agents run as one batch; give all the "
            "same shapes, and where models are quantized the same objective.bits"
        )
    return jax.tree.map(lambda *leaves: np.stack(leaves), *kept)


def _apart(kept: Sequence[PyTree]) -> str:
    """The first thing that two agents keep in different shapes, in words."""
    first, *others = [{name: np.shape(leaf) for name, leaf in names_of("", own).items()} for own in kept]
    other = next(one for one in others if one != first)
    name = next(name for name in (*first, *other) if first.get(name) != other.get(name))
    shapes = [str(one[name]) if name in one else "nothing" for one in (first, other)]
    return f"{shapes[0]} as '{name.lstrip('.')}' on one client and {shapes[1]} on another"


def build_layout(algorithm: Algorithm, lanes: Sequence[Lane], params: Params, newest_only: bool) -> Layout:
    """The layout of some lanes, for models of the same types as `params`."""
    graphs, trains = [lane.table.graph for lane in lanes], [lane.clients.train for lane in lanes]
    agents, kind = int(sum(graph.agents for graph in graphs)), jnp.result_type(*jax.tree.leaves(params))
    steps, awake = zip(*(_steps(lane.algorithm or algorithm, lane) for lane in lanes), strict=True)
    wakers, sizes = _wakings(np.concatenate(steps, axis=1), np.concatenate(awake, axis=1))
    messages = [arrivals(lane.table, newest_only) for lane in lanes]
    links, ages = _lists(messages, [graph.links for graph in graphs], lanes[0].table.length)
    offsets = _offsets([graph.agents for graph in graphs])
    rows, begins = rows_of_all(trains)
    members = [np.asarray(lane.clients.participating) for lane in lanes]
    return Layout(
        sources=jnp.asarray(np.append(_joined([graph.sources for graph in graphs], offsets), np.int32(0))),
        targets=jnp.asarray(np.append(_joined([graph.targets for graph in graphs], offsets), np.int32(agents))),
        degrees=jnp.asarray(np.concatenate([graph.out_degrees for graph in graphs])),
        degrees_in=_degrees_in(algorithm, lanes),
        wakers=jnp.asarray(wakers),
        step_sizes=jnp.asarray(sizes, kind),
        links=jnp.asarray(links),
        ages=jnp.asarray(ages),
        rows=rows,
        starts=jnp.asarray(_joined([t.starts[who] for t, who in zip(trains, members, strict=True)], begins)),
        sizes=jnp.asarray(np.concatenate([t.sizes[who] for t, who in zip(trains, members, strict=True)])),
        keys=jnp.stack([training_key(lane.seed) for lane in lanes]),
        numbers=jax.tree.map(partial(_told, agents // len(lanes), kind), *(lane.numbers for lane in lanes)),
    )


def _degrees_in(algorithm: Algorithm, lanes: Sequence[Lane]) -> jax.Array | None:
    peer, graphs = algorithm.protocol, [lane.table.graph for lane in lanes]
    if not isinstance(peer, Peer) or peer.redirect is None or all(graph.present is None for graph in graphs):
        return None
    rounds = np.arange(lanes[0].table.length)
    found = np.concatenate([graph.out_degrees_in(rounds) for graph in graphs], axis=1)
    return jnp.asarray(np.pad(found, ((0, roomy(len(found)) - len(found)), (0, 0))))


def _told(agents: int, kind: jnp.dtype, *numbers: np.ndarray) -> jax.Array:
    """The numbers of every lane, once for each of its agents, and all rows of the same length."""
    longest = max(number.size for number in numbers)
    rows = [np.pad(number, (0, longest - number.size)) if number.ndim else number for number in numbers]
    whole = np.issubdtype(rows[0].dtype, np.integer)
    return jnp.asarray(np.repeat(np.stack(rows), agents, axis=0), None if whole else kind)


def _steps(algorithm: Algorithm, lane: Lane) -> tuple[np.ndarray, np.ndarray]:
    """Everyone's step sizes and whether they wake, as rounds x agents."""
    theta, awake = step_sizes(algorithm, lane.table.graph.agents, lane.table.length), lane.table.awake
    peer = algorithm.protocol
    assert isinstance(peer, Peer)
    summed = accumulated(theta, awake, peer.catch_up) if peer.summed_steps else np.where(awake, theta[:, None], 0.0)
    return summed, awake


def rows_of_all(trains: list[Split]) -> tuple[PyTree, np.ndarray]:
    """The rows of all lanes in one store, and where each lane's begin. Lanes may share theirs."""
    kept = {id(train.rows): train.rows for train in trains}
    begins = dict(zip(kept, _offsets([len(jax.tree.leaves(rows)[0]) for rows in kept.values()]), strict=True))
    rows = jax.tree.map(lambda *leaves: _with_room(np.concatenate(leaves)), *kept.values())
    return rows, np.array([begins[id(train.rows)] for train in trains])


def _with_room(rows: np.ndarray) -> jax.Array:
    """The rows, and as many that nobody reads as make their number a common one."""
    return jnp.asarray(np.pad(rows, [(0, roomy(len(rows)) - len(rows)), *[(0, 0)] * (rows.ndim - 1)]))


def roomy(length: int) -> int:
    """A length at least as large, of which there are few: seeds whose tables are about as long share a program.

    Example:
        >>> from idiolect.engines.serverless.layout import roomy
        >>> [roomy(length) for length in (1, 8, 9, 49, 1500)]
        [1, 8, 9, 52, 1536]
    """
    step = 2 ** max(0, (length - 1).bit_length() - 4)  # a sixteenth of the next power of two, or less
    return -(-length // step) * step


def _offsets(lengths: list[int]) -> np.ndarray:
    return np.cumsum([0, *lengths[:-1]])


def _joined(parts: list[np.ndarray], offsets: np.ndarray) -> np.ndarray:
    return np.concatenate([part + offset for part, offset in zip(parts, offsets, strict=True)]).astype(np.int32)


def _wakings(step_sizes: np.ndarray, awake: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tables of rounds x agents, turned into lists of those that wake and of their step sizes."""
    shape = (roomy(len(awake)), min(awake.shape[1], roomy(max(1, int(awake.sum(1).max(initial=0))))))
    who, steps = np.full(shape, awake.shape[1], np.int32), np.zeros(shape)
    when, agent = np.nonzero(awake)
    place = (np.cumsum(awake, axis=1) - 1)[when, agent]
    who[when, place], steps[when, place] = agent, step_sizes[when, agent]
    return who, steps


def _lists(lanes: list[Arrivals], links: list[int], rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Over which links messages come and how old, as rounds x slots x messages; lists are in order and end nowhere."""
    own = [lane._replace(link=lane.link + np.int32(first)) for lane, first in zip(lanes, _offsets(links), strict=True)]
    came = Arrivals(*(np.concatenate(column) for column in zip(*own, strict=True)))
    slots = 1 + int(came.slot.max(initial=0))
    row = came.round * slots + came.slot
    if slots > 1 or len(lanes) > 1:  # or else they are in order
        order = np.argsort(row, kind="stable")
        came = Arrivals(*(column[order] for column in came))
    counts = np.bincount(row, minlength=rounds * slots).reshape(rounds, slots)
    width = min(sum(links), roomy(max(1, int(counts.max(initial=0)))))
    there = np.arange(width) < counts[..., None]
    shape = (roomy(rounds), slots, width)
    over, old = np.full(shape, sum(links), np.int32), np.zeros(shape, _whole_numbers_up_to(rounds))
    over[:rounds][there], old[:rounds][there] = came.link, came.age
    return over, old


def _whole_numbers_up_to(bound: int) -> type[np.signedinteger]:
    return np.int16 if bound < np.iinfo(np.int16).max else np.int32


def summed_step(peer: Peer, theta: np.ndarray, woke: int, t: int) -> np.floating:
    """The step size of an agent that wakes in round t and last woke in another (PARS-Push, Alg. 1, l. 4)."""
    first = woke + 1 if peer.summed_steps else t
    return theta[first if peer.catch_up is None else max(first, t + 1 - peer.catch_up) : t + 1].sum()


def step_sizes(algorithm: Algorithm, agents: int, rounds: int) -> np.ndarray:
    """theta(t) for every round (PARS-Push, Proposition 1 and Theorem 1)."""
    rule, scale, t = algorithm.step_rule, algorithm.step_size, np.arange(rounds)
    if rule.name == "decreasing":
        return scale / (t + rule.offset)
    if rule.name == "inverse":
        return scale * np.divide(1.0, t, out=np.zeros(rounds), where=t > 0)  # Proposition 1: theta(0) = 0
    if rule.name == "own":
        return scale * np.array(list(map(own_theta(rule), range(rounds))), float)
    if rule.name == "decay":
        return scale * decayed(rule, t)
    return np.full(rounds, scale * np.sqrt(agents / rounds) if rule.name == "horizon" else scale)
