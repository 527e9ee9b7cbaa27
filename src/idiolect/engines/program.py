"""An algorithm on a kind of problem, compiled: what an engine calls, whatever the data and the seed."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from idiolect.contracts import Algorithm, Key, Params, Problem, Protocol, PyTree, Scalar, Shard, Upload, Work
from idiolect.engines.generator import WRITTEN_OUT
from idiolect.engines.workers import compile_for_clients
from idiolect.errors import Diverged
from idiolect.learner import learner
from idiolect.network.diary import Diary
from idiolect.network.timeline import Timeline


class Turn(NamedTuple):
    """What a client's compiled turn returns."""

    personal: PyTree
    upload: Upload
    report: dict[str, jax.Array]  # means over the local steps
    fault: jax.Array  # the first local step that was not finite, or -1, and what it gave


class Ledger(NamedTuple):
    """The server's state, with what clients reported summed up, and the first fault: (turn, local step, value).

    They stay on the device together, so that absorbing an update never waits for a number to reach Python.
    """

    server: PyTree
    totals: dict[str, jax.Array]
    fault: jax.Array


class Program(NamedTuple):
    """The compiled functions of an algorithm, and the plain ones that need no compiling."""

    algorithm: Algorithm
    protocol: Protocol
    work: Work
    init: Callable[[Key], Params]
    turn: Callable[[PyTree, PyTree, Shard, Key, np.int32], Turn]
    absorb: Callable[[Ledger, Turn, np.float32, np.int32], Ledger]  # (ledger, turn, staleness, number)
    close: Callable[[Ledger], Ledger]


def prepare(problem: Problem, algorithm: Algorithm) -> Program:
    """Compile (on first call) what an engine needs. Only the problem's functions matter here, not its clients."""
    protocol = algorithm.protocol
    assert isinstance(protocol, Protocol), f"{algorithm.name} has no server; see idiolect.engines.serverless"
    server, work = protocol.server, protocol.work(learner(problem, algorithm))

    def turn(personal: PyTree, offer: PyTree, shard: Shard, key: Key, number: np.int32) -> Turn:
        personal, upload, info = work.turn(personal, offer, shard, jax.random.fold_in(key, number))
        fault = first_fault(info["loss"], optax.tree.norm((upload.delta, personal)))
        return Turn(personal, upload, {name: values.mean() for name, values in info.items()}, fault)

    def absorb(ledger: Ledger, turn: Turn, staleness: Scalar, number: Scalar) -> Ledger:
        state = server.absorb(ledger.server, turn.upload, staleness)
        totals = {name: ledger.totals.get(name, 0.0) + value for name, value in turn.report.items()}
        fault = jnp.concatenate([number.astype(jnp.float32)[None], turn.fault])
        news = (ledger.fault[0] < 0) & (turn.fault[0] >= 0)
        return Ledger(state, totals, jnp.where(news, fault, ledger.fault))

    def close(ledger: Ledger) -> Ledger:
        return ledger._replace(server=server.close(ledger.server))

    turn_, absorb_, close_ = compile_for_clients(turn), compile_for_clients(absorb), compile_for_clients(close)
    return Program(algorithm, protocol, work, problem.init, turn_, absorb_, close_)


def open_ledger(program: Program, params: Params, clients: int) -> Ledger:
    """The ledger before the first update."""
    return Ledger(program.protocol.server.init(params, clients), {}, jnp.full(3, -1.0))


def training_key(seed: int) -> Key:
    """The key from which every turn's randomness is folded, by the turn's number."""
    return jax.random.fold_in(jax.random.key(seed, impl=WRITTEN_OUT), 1)


def first_fault(losses: jax.Array, moved: Scalar) -> jax.Array:
    """The first local step whose loss is not finite (the last, if only the result is not), or -1; and the value."""
    bad = ~jnp.isfinite(losses)
    step = jnp.where(bad.any(), jnp.argmax(bad), jnp.where(jnp.isfinite(moved), -1, bad.size - 1))
    return jnp.stack([step.astype(jnp.float32), jnp.where(bad.any(), losses[step], moved)])


def check_finite(ledger: Ledger, program: Program, table: Timeline | Diary) -> None:
    """Stop a run that has left the numbers."""
    turn, step, value = np.asarray(ledger.fault).tolist()
    if turn >= 0:
        algorithm, number = program.algorithm, int(turn)
        raise Diverged(
            f"{algorithm.name} diverged: client {table.client[number]}, local step {int(step) + 1} of "
            f"{algorithm.local_steps} in turn {number} at virtual time {table.arrived[number]:.4g} gave {value}; "
            "a smaller step size may help"
        )
