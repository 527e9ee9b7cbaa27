"""Per-FedAvg as its theorem has it: everybody takes the local steps, those who are active are averaged.

A. Fallah, A. Mokhtari, A. Ozdaglar. Personalized federated learning: a meta-learning approach. 2020, Algorithm 1, as
Appendix F looks at it: clients that are not active work as well, to no effect, so that one sees how far all of them
drift apart. Who is active is drawn uniformly in every round.

Objective, client and losses are the project's own. What differs between settings (tau, rn, beta, alpha, delta)
is data, and so are the clients' samples: one compiled program runs all settings of an estimate of the gradient and a
batch size, side by side over seeds. Seeds have clients and starting points of their own. A program counts local steps;
after tau of them a round is over.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from idiolect.contracts import Algorithm, Key, Objective, Scalar, Shard
from idiolect.engines.learner import learner
from idiolect.objectives import maml
from idiolect.papers.trajectories import BLOCK, HASTE, Program, client_gradients, template
from idiolect.protocols import synchronous
from idiolect.theory.per_fedavg import Derivative


class RoundLane(NamedTuple):
    """One setting; or, as arrays, the settings that run side by side."""

    local_steps: Any  # tau
    active: Any  # rn
    step_size: Any  # beta
    alpha: Any
    delta: Any  # of the Hessian-free estimate


class RoundProgram(NamedTuple):
    """What a compiled program is made for."""

    derivative: Derivative
    batch_size: int  # D = D' = D''
    smoothness: float  # L of every sample


class RoundMeasured(NamedTuple):
    """Of every seed (first axis) and setting (second axis); w' is the average of the active clients' models."""

    mean_square: Any  # (1 / (tau K)) sum_k sum_t ||grad F(w')||^2: Theorem 4.5
    late_square: Any  # the same over the second half of the run
    misfit: Any  # the mean of grad F(w')^T (S(w') - grad F(w')) over t >= 1, which (101) takes for zero
    distance: Any  # at the end of a round, the mean distance of all clients' models to their average: (60a)
    square: Any  # and the mean squared distance: (60b)
    third: Any  # the mean of grad F(w') over the third quarter of the run
    fourth: Any  # and over the last
    model: Any  # w_K


RunRounds: TypeAlias = Callable[[jax.Array, jax.Array, RoundLane, jax.Array, int], RoundMeasured]


def estimate(derivative: Derivative, alpha: Any, delta: Any) -> Objective:
    """The objective of (9), (112) or (118); alpha and delta may be traced."""
    family = maml(steps=1, derivative=derivative, delta=delta).family
    assert family is not None
    return family.member({"steps": jnp.int32(1), "sizes": jnp.atleast_1d(alpha)})


def exactly(smoothness: float) -> Program:
    """The program whose true cost is Per-FedAvg's (4); nothing else of it matters here."""
    return Program("maml", 1, 1, 0, smoothness, 1.0, 1.0)


@cache
def compiled_rounds(program: RoundProgram, hasty: bool = False) -> RunRounds:
    """(places, first models, lanes, keys, steps) -> what was measured; places, first models and keys go by seed.

    `steps` is tau K, a multiple of `BLOCK` and of every tau. `hasty`: compile for short runs, without the passes that
    take most of the time.
    """

    def run(places: jax.Array, first: jax.Array, lane: RoundLane, key: Key, steps: Scalar) -> RoundMeasured:
        step, start = _local_step(program, places, first, lane, key, steps)

        def block(number: Scalar, state: _State) -> _State:
            fresh = state._replace(sums=jax.tree.map(jnp.zeros_like, state.sums))
            done, _ = jax.lax.scan(step, fresh, number * BLOCK + jnp.arange(BLOCK))
            return done._replace(sums=jax.tree.map(jnp.add, state.sums, done.sums))

        done = jax.lax.fori_loop(0, steps // BLOCK, block, start)
        sums, rounds = done.sums, steps // lane.local_steps
        return RoundMeasured(
            sums.mean_square / steps,
            2 * sums.late_square / steps,
            sums.misfit / jnp.maximum(steps - rounds, 1),
            sums.distance / rounds,
            sums.square / rounds,
            4 * sums.third / steps,
            4 * sums.fourth / steps,
            done.models[0],
        )

    over_lanes = jax.vmap(run, (None, None, 0, None, None))
    return jax.jit(jax.vmap(over_lanes, (0, 0, None, 0, None)), compiler_options=HASTE if hasty else None)


class _State(NamedTuple):
    models: jax.Array  # w^i_{k+1,t} of every client
    sums: RoundMeasured


def _local_step(
    program: RoundProgram, places: jax.Array, first: jax.Array, lane: RoundLane, key: Key, steps: Scalar
) -> tuple[Callable[[_State, Scalar], tuple[_State, None]], _State]:
    """What happens between two local steps, and the state before the first one."""
    clients, samples, dimension = places.shape
    rows = {"place": places.reshape(-1, dimension)}
    objective = estimate(program.derivative, lane.alpha, lane.delta)
    algorithm = Algorithm("per_fedavg", objective, synchronous(), 1, lane.step_size, program.batch_size)
    descend = learner(template(program.smoothness), algorithm).descend
    slopes = client_gradients(exactly(program.smoothness), lane.alpha, places)
    of_rounds, of_steps = jax.random.split(key)

    def local(client: Scalar, model: jax.Array, key: Key) -> jax.Array:
        shard = Shard(rows, client * samples, jnp.int32(samples))
        return descend((), model, None, shard, key)[1]  # Alg. 1, the loop over t

    def step(state: _State, at: Scalar) -> tuple[_State, None]:
        number, t = at // lane.local_steps, at % lane.local_steps
        order = jax.random.permutation(jax.random.fold_in(of_rounds, number), clients)
        share = (order < lane.active) / lane.active  # Alg. 1: A_k, of size rn
        average = share @ state.models
        slope = (every := slopes(average)).mean(0)
        quarter, length = 4 * at // steps, (slope**2).sum()
        keys = jax.random.split(jax.random.fold_in(of_steps, at), clients)
        moved = jax.vmap(local)(jnp.arange(clients), state.models, keys)
        apart = ((moved - moved.mean(0)) ** 2).sum(1)
        over = t + 1 == lane.local_steps
        news = RoundMeasured(
            length,
            jnp.where(quarter >= 2, length, 0.0),
            jnp.where(t > 0, slope @ (share @ every - slope), 0.0),
            jnp.where(over, jnp.sqrt(apart).mean(), 0.0),
            jnp.where(over, apart.mean(), 0.0),
            jnp.where(quarter == 2, slope, 0.0),
            jnp.where(quarter == 3, slope, 0.0),
            0.0,
        )
        models = jnp.where(over, share @ moved, moved)  # (10), at the end of a round
        return _State(models, jax.tree.map(jnp.add, state.sums, news)), None

    still, zero = jnp.zeros(()), jnp.zeros(dimension)
    sums = RoundMeasured(still, still, still, still, still, zero, zero, still)
    return step, _State(jnp.broadcast_to(first, (clients, dimension)), sums)
