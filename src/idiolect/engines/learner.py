"""A client alone with its data: Q local steps on its objective.

M. T. Toghani, S. Lee, C. A. Uribe. PersA-FL. 2023, Algorithm 2, l. 4-13; the same loop is the local part of FedAvg,
FedProx, Per-FedAvg (Algorithm 1, inner loop over t), pFedMe and SCAFFOLD.
"""

from collections.abc import Callable
from typing import TypeAlias

import jax
import optax

from idiolect.contracts import (
    Algorithm,
    Compressed,
    Info,
    Key,
    Learner,
    Objective,
    Oracle,
    Params,
    PersonalObjective,
    Problem,
    PyTree,
    Scalar,
    Shard,
)


def learner(problem: Problem, algorithm: Algorithm) -> Learner:
    """Join a problem and an algorithm's objective into what a client can do on its own."""
    objective = algorithm.objective
    differentiate = _gradient(objective)

    def gradient(own: PyTree, params: Params, shard: Shard, key: Key) -> Params:
        return differentiate(problem.oracle(shard, algorithm.batch_size), own, params, params, key)[1]

    def descend(
        own: PyTree, start: Params, drift: Params | None, shard: Shard, key: Key
    ) -> tuple[PyTree, Params, Info]:
        """Take Q steps from `start`; `drift`, if any, is added to every gradient (SCAFFOLD's c - c_i)."""
        oracle = problem.oracle(shard, algorithm.batch_size)

        def step(state: tuple[PyTree, Params], key: Key) -> tuple[tuple[PyTree, Params], Info]:
            own, params = state
            own, grads, info = differentiate(oracle, own, params, start, key)
            if drift is not None:
                grads = optax.tree.add(grads, drift)
            params = optax.tree.add_scale(params, -algorithm.step_size, grads)  # PersA-FL, Alg. 2, l. 7, 9, 12
            return (own, params), info

        keys = jax.random.split(key, algorithm.local_steps)
        (own, reached), info = jax.lax.scan(step, (own, start), keys)  # Alg. 2, l. 4-5
        return own, reached, info

    return Learner(_begin(objective), descend, gradient, algorithm.local_steps, algorithm.step_size)


def _begin(objective: Objective | PersonalObjective) -> Callable[[Params, int], PyTree]:
    return objective.begin if isinstance(objective, PersonalObjective) else lambda params, client: ()


def _gradient(
    objective: Objective | PersonalObjective,
) -> Callable[[Oracle, PyTree, Params, Params, Key], tuple[PyTree, Params, Info]]:
    """(oracle, own, params, received, key) -> (own, gradient, info); most objectives have nothing of their own."""
    if isinstance(objective, PersonalObjective):
        return lambda oracle, own, params, received, key: objective.gradient(oracle, own, params, key)
    return lambda oracle, own, params, received, key: (own, *objective.gradient(oracle, params, received, key))


def adaptation(objective: Objective | PersonalObjective) -> Callable[[Oracle, PyTree, Params, Key], Compressed]:
    """(oracle, own, params, key) -> the model that a client would use, having received `params`."""
    if isinstance(objective, PersonalObjective):
        return lambda oracle, own, params, key: objective.compressed(own)
    return lambda oracle, own, params, key: uncompressed(objective.adapt(oracle, params, key))


def uncompressed(params: Params) -> Compressed:
    """A model in full precision."""
    return Compressed(params, params, {})


Descent: TypeAlias = Callable[[Params, Shard, Key, Scalar], tuple[Params, Info]]


def descent(problem: Problem, algorithm: Algorithm) -> Descent:
    """What an agent without a server does: the sum of Q steps of a given size, not yet taken, and mean reports."""
    objective = algorithm.objective
    assert isinstance(objective, Objective), f"{algorithm.name} keeps something on its clients"

    def steps(start: Params, shard: Shard, key: Key, step_size: Scalar) -> tuple[Params, Info]:
        oracle = problem.oracle(shard, algorithm.batch_size)

        def step(moved: Params, key: Key) -> tuple[Params, Info]:
            grads, info = objective.gradient(oracle, optax.tree.sub(start, moved), start, key)
            return optax.tree.add_scale(moved, step_size, grads), info

        keys = jax.random.split(key, algorithm.local_steps)
        moved, info = jax.lax.scan(step, optax.tree.zeros_like(start), keys, unroll=algorithm.local_steps == 1)
        return moved, {name: values.mean() for name, values in info.items()}

    return steps


def fine_tune(oracle: Oracle, params: Params, keys: jax.Array, step_size: float) -> Params:
    """Personalize by a plain gradient step for each key: the budget that every method is given alike."""

    def step(params: Params, key: Key) -> tuple[Params, None]:
        return optax.tree.add_scale(params, -step_size, oracle.gradient(params, key)[1]), None

    return jax.lax.scan(step, params, keys)[0] if len(keys) else params
