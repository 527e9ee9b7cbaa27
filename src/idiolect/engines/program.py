"""An algorithm on a kind of problem, compiled: what an engine calls, whatever the data and the seed."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from idiolect.contracts import Algorithm, Key, Params, Problem, PyTree, Scalar, Shard, Upload, Work
from idiolect.engines.workers import compile_for_clients
from idiolect.errors import Diverged
from idiolect.learner import first_bad_step, learner


class Turn(NamedTuple):
    """What a client's compiled turn returns."""

    personal: PyTree
    upload: Upload
    report: dict[str, jax.Array]  # means over the local steps
    bad_step: jax.Array  # the first local step that was not finite, or -1
    bad_value: jax.Array


class Program(NamedTuple):
    """The compiled functions of an algorithm, and the plain ones that need no compiling."""

    algorithm: Algorithm
    work: Work
    init: Callable[[Key], Params]
    turn: Callable[[PyTree, PyTree, Shard, Key, np.int32], Turn]
    absorb: Callable[[PyTree, Upload, Scalar | np.float32], PyTree]
    close: Callable[[PyTree], PyTree]


def prepare(problem: Problem, algorithm: Algorithm) -> Program:
    """Compile (on first call) what an engine needs. Only the problem's functions matter here, not its clients."""
    server = algorithm.protocol.server
    work = algorithm.protocol.work(learner(problem, algorithm))
    turn = compile_for_clients(_checked_turn(work))
    return Program(algorithm, work, problem.init, turn, jax.jit(server.absorb), jax.jit(server.close))


def training_key(seed: int) -> Key:
    """The key from which every turn's randomness is folded, by the turn's number."""
    return jax.random.fold_in(jax.random.key(seed), 1)


def check_finite(result: Turn, algorithm: Algorithm, client: int, number: int, time: float) -> None:
    """Stop a run that has left the numbers."""
    step = int(result.bad_step)
    if step >= 0:
        raise Diverged(
            f"{algorithm.name} diverged: client {client}, local step {step + 1} of {algorithm.local_steps} in turn "
            f"{number} at virtual time {time:.4g} gave {float(result.bad_value)}; a smaller step size may help"
        )


def _checked_turn(work: Work) -> Callable[[PyTree, PyTree, Shard, Key, np.int32], Turn]:
    def turn(personal: PyTree, offer: PyTree, shard: Shard, key: Key, number: np.int32) -> Turn:
        personal, upload, info = work.turn(personal, offer, shard, jax.random.fold_in(key, number))
        moved = optax.tree.norm((upload.delta, personal))
        step = first_bad_step(info, moved)
        value = jnp.where(jnp.isfinite(info["loss"][step]), moved, info["loss"][step])
        return Turn(personal, upload, {name: values.mean() for name, values in info.items()}, step, value)

    return turn
