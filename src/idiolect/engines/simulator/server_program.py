"""The compiled functions of an algorithm with a server, which engines call whatever the data and the seed."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Algorithm, Key, Params, Problem, Protocol, PyTree, Scalar, Shard, Upload, Work
from idiolect.engines import screening
from idiolect.engines.generator import WRITTEN_OUT
from idiolect.engines.learner import learner
from idiolect.engines.workers import compile_for_clients
from idiolect.trees import largest, norm

_APART: Any = None  # in place of what is passed by itself


class Turn(NamedTuple):
    """What a client's compiled turn returns."""

    personal: PyTree
    upload: Upload
    length: Scalar  # of the update
    report: dict[str, jax.Array]  # means over the local steps
    fault: jax.Array  # the first local step that was not finite, or -1, and what it gave


class Arrival(NamedTuple):
    """Which turn has come to its end, whose it was, and how old the model is that it began with."""

    number: Any  # a number, or the trace of one
    client: Any
    staleness: Any


class ServerState(NamedTuple):
    """The server's state, with what clients reported summed up, whom it refused, and the first refusal.

    They stay on the device together, so that absorbing an update never waits for a number to reach Python.
    """

    server: PyTree
    totals: dict[str, jax.Array]
    told: Scalar  # how many reports the totals add up
    watch: screening.ScreeningState
    fault: jax.Array  # of the first refusal: turn, verdict, local step, value; turn -1 while there is none


class Program(NamedTuple):
    """The compiled functions of an algorithm, and the plain ones that need no compiling."""

    algorithm: Algorithm
    protocol: Protocol
    work: Work
    init: Callable[[Key], Params]
    turn: Callable[[PyTree, PyTree, Shard, Key, np.int32], Turn]
    turns: Callable[[list[PyTree], list[PyTree], Shard, Key, np.ndarray], list[Turn]]  # several at once; see `turn`
    absorb: Callable[[ServerState, PyTree, Turn, Arrival], tuple[ServerState, PyTree]]
    # (server_state, what the client had before its turn, turn, arrival) -> (server_state, what it keeps)
    close: Callable[[ServerState], ServerState]
    absorbing: Callable[[ServerState, PyTree, Turn, Arrival], tuple[ServerState, PyTree]]
    # `absorb` before it is compiled, for those who compile it into something larger
    choose: Callable[[PyTree, PyTree, Shard, Key], PyTree] | None = None  # among several models, by a client's own rows


def prepare(problem: Problem, algorithm: Algorithm) -> Program:
    """Compile (on first call) what an engine needs. Only the problem's functions matter here, not its clients.

    Args:
        problem: Whose loss is learned.
        algorithm: With a protocol that has a server.

    Returns:
        The compiled functions, for `simulate` and `run_in_real_time`.

    Example:
        >>> from idiolect import Algorithm, objectives, protocols
        >>> from idiolect.engines import prepare
        >>> from idiolect.problems.synthetic import quadratics
        >>> mine = Algorithm("mine", objectives.plain(), protocols.synchronous())
        >>> prepare(quadratics(clients=3), mine).protocol.schedule.rounds
        True
    """
    protocol = algorithm.protocol
    assert isinstance(protocol, Protocol), f"{algorithm.name} has no server; see idiolect.engines.serverless"
    server, work = protocol.server, protocol.work(learner(problem, algorithm))

    def turn(personal: PyTree, offer: PyTree, shard: Shard, key: Key, number: np.int32) -> Turn:
        personal, upload, info = work.turn(personal, offer, shard, jax.random.fold_in(key, number))
        long = norm(upload.delta)
        fault = first_fault(info["loss"], jnp.where(jnp.isfinite(long), largest(personal), long))
        return Turn(personal, upload, long, {name: values.mean() for name, values in info.items()}, fault)

    def turns(
        personals: list[PyTree], offers: list[PyTree], shards: Shard, key: Key, numbers: np.ndarray
    ) -> list[Turn]:
        kept, offered = (jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees) for trees in (personals, offers))
        found = jax.vmap(turn, in_axes=(0, 0, Shard(None, 0, 0), None, 0))(kept, offered, shards, key, numbers)  # type: ignore[arg-type]
        return [jax.tree.map(lambda leaf, place=place: leaf[place], found) for place in range(len(numbers))]

    def absorb(
        watch: screening.ScreeningState, server_state: ServerState, before: PyTree, turn: Turn, arrival: Arrival
    ) -> tuple[ServerState, PyTree]:
        watch, upload, verdict = screening.screen(
            watch,
            turn.upload,
            turn.length,
            arrival.client,
            server.read(server_state.server),
            algorithm.screening,
            sound=turn.fault[0] < 0,
        )
        absorbed = server.absorb(server_state.server, upload, arrival.staleness)
        out = screening.is_refusal(verdict)
        state, personal = _unless(out, (absorbed, turn.personal), (server_state.server, before))
        totals = {name: server_state.totals[name] + jnp.where(out, 0.0, v) for name, v in turn.report.items()}
        fault = jnp.stack([arrival.number.astype(jnp.float32), verdict.astype(jnp.float32), *turn.fault])
        fault = jnp.where((server_state.fault[0] < 0) & out, fault, server_state.fault)
        return ServerState(state, totals, server_state.told + ~out, watch, fault), personal

    def close(server_state: ServerState) -> ServerState:
        return server_state._replace(server=server.close(server_state.server))

    # What is remembered of every client is written in place; the server's state is not, since offers hold on to it.
    absorb_ = compile_for_clients(absorb, donate=(0,))

    def absorb_in_place(
        server_state: ServerState, before: PyTree, turn: Turn, arrival: Arrival
    ) -> tuple[ServerState, PyTree]:
        # With no totals to begin with, it would be another program to compile.
        totals: dict[str, Any] = server_state.totals or {
            name: np.zeros((), mean.dtype) for name, mean in turn.report.items()
        }
        return absorb_(server_state.watch, server_state._replace(watch=_APART, totals=totals), before, turn, arrival)

    def absorbing(
        server_state: ServerState, before: PyTree, turn: Turn, arrival: Arrival
    ) -> tuple[ServerState, PyTree]:
        return absorb(server_state.watch, server_state._replace(watch=_APART), before, turn, arrival)

    turn_, turns_, close_ = (compile_for_clients(function) for function in (turn, turns, close))

    def init(key: Key) -> Params:
        return algorithm.objective.shared(problem.init(key))

    choose = None if work.choose is None else compile_for_clients(work.choose)
    return Program(algorithm, protocol, work, init, turn_, turns_, absorb_in_place, close_, absorbing, choose)


def _unless(refused: Scalar, new: PyTree, old: PyTree) -> PyTree:
    return jax.tree.map(lambda fresh, kept: jnp.where(refused, kept, fresh), new, old)


def open_server(program: Program, params: Params, participating: int, total: int) -> ServerState:
    """The state before the first update, for so many clients that take part and so many in all."""
    state = program.protocol.server.init(params, participating)
    watch = screening.begin(params, total, program.algorithm.screening)
    return ServerState(state, {}, jnp.int32(0), watch, jnp.full(4, -1.0, jnp.float32))


def take_in(
    program: Program, server_state: ServerState, before: PyTree, turn: Turn, arrival: Arrival, expected: PyTree
) -> tuple[ServerState, PyTree]:
    """Absorb what has arrived if it has the shapes that are `expected`; else count it, and keep everything as it was.

    The second result is what the client keeps.
    """
    if not screening.misfit(turn.upload, expected):
        return program.absorb(server_state, before, turn, arrival)
    rule = program.algorithm.screening
    watch = screening.judged(server_state.watch, arrival.client, screening.WRONG_SHAPE, rule)
    fault = np.array([arrival.number, screening.WRONG_SHAPE, -1, np.nan], np.float32)
    return server_state._replace(
        watch=watch, fault=jnp.where(server_state.fault[0] < 0, fault, server_state.fault)
    ), before


def chosen_model(program: Program, personal: PyTree, offer: PyTree, shard: Shard, seed_key: Key) -> Params:
    """The model that a client with these rows would start to adapt from, chosen first where there are several."""
    if program.choose is not None:
        personal = program.choose(personal, offer, shard, jax.random.fold_in(seed_key, 3))
    return program.work.model(personal, offer)


def training_key(seed: int) -> Key:
    """The key from which every turn's randomness is folded, by the turn's number."""
    return jax.random.fold_in(jax.random.key(seed, impl=WRITTEN_OUT), 1)


def first_fault(losses: jax.Array, reached: Scalar) -> jax.Array:
    """The first local step whose loss is not finite (the last, if only the result is not), or -1; and the value."""
    bad = ~jnp.isfinite(losses)
    step = jnp.where(bad.any(), jnp.argmax(bad), jnp.where(jnp.isfinite(reached), -1, bad.size - 1))
    return jnp.stack([step.astype(jnp.float32), jnp.where(bad.any(), losses[step], reached)])
