"""Local training: Q steps of a client on its own data and objective.

M. T. Toghani, S. Lee, C. A. Uribe. PersA-FL. 2023, Algorithm 2, l. 4-13; the same loop is the local part of FedAvg,
FedProx, Per-FedAvg (Algorithm 1, inner loop over t), pFedMe and SCAFFOLD.
"""

from functools import partial
from typing import Protocol

import jax
import optax

from idiolect.contracts import Algorithm, Drift, Info, Key, Learner, Oracle, Params, Problem, PyTree, Scalar, Shard
from idiolect.engines.local_loop import fold_steps, steps_on
from idiolect.sharing import join, split
from idiolect.trees import in_types_of


def learner(problem: Problem, algorithm: Algorithm, pace: Scalar | None = None) -> Learner:
    """Join a problem and an algorithm's objective into what a client can do on its own, with steps so much longer."""
    objective = algorithm.objective
    step_size = algorithm.step_size if pace is None else algorithm.step_size * pace

    def gradient(own: PyTree, params: Params, shard: Shard, key: Key) -> Params:
        return objective.gradient(problem.oracle(shard, algorithm.batch_size), own, params, params, key)[1]

    def value(own: PyTree, params: Params, shard: Shard, key: Key) -> Scalar:
        return objective.value(problem.oracle(shard, algorithm.batch_size), own, params, params, key)

    def descend(own: PyTree, start: Params, drift: Drift | None, shard: Shard, key: Key) -> tuple[PyTree, Params, Info]:
        """Take Q steps from `start`; `drift`, if any, is added to every gradient (SCAFFOLD's c - c_i)."""
        oracle = problem.oracle(shard, algorithm.batch_size)

        def step(state: tuple[PyTree, Params], key: Key) -> tuple[tuple[PyTree, Params], Info]:
            own, params = state
            own, grads, info = objective.gradient(oracle, own, params, start, key)
            if drift is not None:
                grads = optax.tree.add(grads, drift(params))
            own, grads = objective.direct(own, grads)
            moved = optax.tree.add_scale(params, -step_size, grads)  # PersA-FL, Alg. 2, l. 7, 9, 12
            return (own, moved if pace is None else in_types_of(moved, params)), info

        own = objective.rouse(own, 1.0 if pace is None else pace)
        (own, reached), info = fold_steps(algorithm, step, (own, start), shard, key)  # Alg. 2, l. 4-5
        return own, reached, info

    return Learner(
        objective.begin,
        descend,
        gradient,
        value,
        partial(steps_on, algorithm),
        partial(fold_steps, algorithm),
        partial(learner, problem, algorithm),
        algorithm.local_steps if algorithm.epochs is None else None,
        step_size,
    )


class Descent(Protocol):
    """What an agent without a server does when it wakes: (own, the sum of Q steps not yet taken, mean reports)."""

    def __call__(
        self, own: PyTree, start: Params, shard: Shard, key: Key, step_size: Scalar, /
    ) -> tuple[PyTree, Params, Info]: ...


def descent(problem: Problem, algorithm: Algorithm) -> Descent:
    """The sum of Q steps of a given size, from an algorithm's objective."""
    objective = algorithm.objective

    def steps(own: PyTree, start: Params, shard: Shard, key: Key, step_size: Scalar) -> tuple[PyTree, Params, Info]:
        oracle = problem.oracle(shard, algorithm.batch_size)

        def step(state: tuple[PyTree, Params], key: Key) -> tuple[tuple[PyTree, Params], Info]:
            own, moved = state
            learned, grads, info = objective.gradient(oracle, own, optax.tree.sub(start, moved), start, key)
            learned, grads = objective.direct(learned, grads)
            # Agents add up in wider floats than those they learn in.
            return (in_types_of(learned, own), optax.tree.add_scale(moved, step_size, grads)), info

        begin = (objective.rouse(own, 1.0), optax.tree.zeros_like(start))
        (own, moved), info = fold_steps(algorithm, step, begin, shard, key, unroll=algorithm.local_steps == 1)
        return own, moved, {name: values.mean() for name, values in info.items()}

    return steps


def fine_tune(
    oracle: Oracle, params: Params, keys: jax.Array, step_size: float, tuned: frozenset[str] | None = None
) -> Params:
    """Personalize by a plain gradient step for each key: the budget that every method is given alike.

    `tuned` are the names of the leaves that move, if not all do.
    """

    def step(params: Params, key: Key) -> tuple[Params, None]:
        grads = oracle.gradient(params, key)[1]
        if tuned is None:
            return optax.tree.add_scale(params, -step_size, grads), None
        rest, part = split(params, tuned)
        return join(rest, optax.tree.add_scale(part, -step_size, split(grads, tuned)[1])), None

    return jax.lax.scan(step, params, keys)[0] if len(keys) else params
