"""A client alone with its data: Q local steps on its objective.

M. T. Toghani, S. Lee, C. A. Uribe. PersA-FL. 2023, Algorithm 2, l. 4-13; the same loop is the local part of FedAvg,
FedProx, Per-FedAvg (Algorithm 1, inner loop over t), pFedMe and SCAFFOLD.
"""

from collections.abc import Callable
from typing import TypeAlias

import jax
import optax

from idiolect.contracts import Algorithm, Info, Key, Learner, Oracle, Params, Problem, Scalar, Shard


def learner(problem: Problem, algorithm: Algorithm) -> Learner:
    """Join a problem and an algorithm's objective into what a client can do on its own."""
    objective = algorithm.objective

    def gradient(params: Params, shard: Shard, key: Key) -> Params:
        return objective.gradient(problem.oracle(shard, algorithm.batch_size), params, params, key)[0]

    def descend(start: Params, drift: Params | None, shard: Shard, key: Key) -> tuple[Params, Info]:
        """Take Q steps from `start`; `drift`, if any, is added to every gradient (SCAFFOLD's c - c_i)."""
        oracle = problem.oracle(shard, algorithm.batch_size)

        def step(params: Params, key: Key) -> tuple[Params, Info]:
            grads, info = objective.gradient(oracle, params, start, key)
            if drift is not None:
                grads = optax.tree.add(grads, drift)
            return optax.tree.add_scale(params, -algorithm.step_size, grads), info  # PersA-FL, Alg. 2, l. 7, 9, 12

        return jax.lax.scan(step, start, jax.random.split(key, algorithm.local_steps))  # Alg. 2, l. 4-5

    return Learner(descend, gradient, algorithm.local_steps, algorithm.step_size)


Descent: TypeAlias = Callable[[Params, Shard, Key, Scalar], tuple[Params, Info]]


def descent(problem: Problem, algorithm: Algorithm) -> Descent:
    """What an agent without a server does: the sum of Q steps of a given size, not yet taken, and mean reports."""

    def steps(start: Params, shard: Shard, key: Key, step_size: Scalar) -> tuple[Params, Info]:
        oracle = problem.oracle(shard, algorithm.batch_size)

        def step(moved: Params, key: Key) -> tuple[Params, Info]:
            grads, info = algorithm.objective.gradient(oracle, optax.tree.sub(start, moved), start, key)
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
