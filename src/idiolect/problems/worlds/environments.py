"""Worlds to act in: a walker on a grid and a point in a box, each looking for a goal that it cannot see.

M. T. Toghani, S. Perez-Salazar, C. A. Uribe. On first-order meta-reinforcement learning with Moreau envelopes (MEMRL).
2023, as in the seminar: "Multi-task RL setup" and Fig. 1.

| MEMRL | code |
| --- | --- |
| M_i = (S_i, A_i, P_i, r_i, mu_i): tasks with different MDPs | a task is its goal, the first argument of everything |
| mu_i: a random start (Fig. 1, black triangle) | `reset` |
| P_i, and r_i with values in [0, R] | `step`; here R = 1 |
| the destination of a task (Fig. 1, stars) | absorbing: who arrives stays |

Deviations: the seminar does not print the reward. Here it is 1 in every step that ends at the goal (`arrival`), or 1
minus the distance to the goal over the longest there is (`nearness`). Either way earlier is better, so the shortest way
is the best one, and `best_rewards` has its rewards in closed form.

A policy sees where it is, and not the goal: with the goal in sight one policy would serve all tasks, and nobody would
have anything to adapt.
"""

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, Gt

from idiolect.contracts import Key, PyTree, Scalar
from idiolect.errors import UserMistake

Task: TypeAlias = jax.Array  # the goal's place
State: TypeAlias = PyTree
Reward: TypeAlias = Literal["arrival", "nearness"]
Seen: TypeAlias = Literal["vector", "number"]

MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]], np.int32)  # on the grid: west, east, south, north


class Environment(NamedTuple):
    """A family of tasks with one set of states and actions, as pure functions for one episode of `horizon` steps."""

    reset: Callable[[Task, Key], State]
    step: Callable[[Task, State, jax.Array, Key], tuple[State, Scalar]]  # (task, state, action, key) -> state, reward
    observe: Callable[[Task, State], jax.Array]  # what the policy sees: `features` numbers, or one of so many
    best_rewards: Callable[[Task, State], jax.Array] | None  # from this state on, step by step: nobody can do better
    check: Callable[[np.ndarray], None]  # refuses a task that this world cannot pose
    horizon: int
    features: int
    kind: Literal["discrete", "continuous"]
    actions: int  # how many actions there are to choose from, or how many numbers make one


def grid_navigation(
    *,
    size: Annotated[int, Ge(2)] = 5,
    horizon: Annotated[int, Ge(1)] = 16,
    reward: Reward = "arrival",
    seen: Seen = "vector",
) -> Environment:
    """A walk in four directions on a `size` x `size` grid with walls around it, from any cell but the goal's.

    A policy sees its cell as a vector with a single 1, so that a linear policy is a table, or as the number of the
    place where the 1 would be, which is all that a table needs and much less to compute with.
    """
    _check_at_least("size", size, 2)
    _check_at_least("horizon", horizon, 1)
    rewarded = _rewards(reward, longest=2 * (size - 1))

    def distance(task: Task, state: State) -> Scalar:
        return jnp.abs(state - task).sum()

    def reset(task: Task, key: Key) -> State:
        cell = jax.random.randint(key, (), 0, size * size - 1)
        cell = cell + (cell >= task[0] * size + task[1])  # skips the goal
        return jnp.stack([cell // size, cell % size]).astype(jnp.int32)

    def step(task: Task, state: State, action: jax.Array, key: Key) -> tuple[State, Scalar]:
        moved = jnp.clip(state + jnp.asarray(MOVES)[action], 0, size - 1)
        moved = jnp.where(distance(task, state) == 0, state, moved)
        return moved, rewarded(distance(task, moved))

    def observe(task: Task, state: State) -> jax.Array:
        cell = state[0] * size + state[1]
        return cell if seen == "number" else jax.nn.one_hot(cell, size * size)

    def best_rewards(task: Task, state: State) -> jax.Array:
        return rewarded(jnp.maximum(distance(task, state) - jnp.arange(1, horizon + 1), 0))

    def check(goal: np.ndarray) -> None:
        if np.shape(goal) != (2,) or not (np.min(goal) >= 0 and np.max(goal) < size):
            raise UserMistake(
                f"problem.goals has {np.asarray(goal).tolist()}, but a goal is a cell [x, y] of the {size} x {size} "
                f"grid, with both numbers from 0 to {size - 1}"
            )
        _check_reach(goal, horizon, int(np.maximum(goal, size - 1 - np.asarray(goal)).sum()))

    return Environment(reset, step, observe, best_rewards, check, horizon, size * size, "discrete", len(MOVES))


def point_navigation(
    *,
    horizon: Annotated[int, Ge(1)] = 20,
    reach: Annotated[float, Gt(0)] = 0.25,
    tolerance: Annotated[float, Gt(0)] = 0.1,
    reward: Reward = "nearness",
) -> Environment:
    """A point that is pushed around in the box [-1, 1]^2, from anywhere in it, by at most `reach` in a step.

    An action is a direction and a speed: two numbers, where a speed above 1 counts as 1. Who comes as near to the goal
    as `tolerance` is there.
    """
    _check_at_least("horizon", horizon, 1)
    for field, given in (("reach", reach), ("tolerance", tolerance)):
        if not given > 0:
            raise UserMistake(f"problem.{field} is {given:g}, but must be positive")
    rewarded = _rewards(reward, longest=2 * np.sqrt(2))

    def distance(task: Task, state: State) -> Scalar:
        return jnp.sqrt(((state - task) ** 2).sum())

    def reset(task: Task, key: Key) -> State:
        return jax.random.uniform(key, (2,), jnp.float32, -1, 1)

    def step(task: Task, state: State, action: jax.Array, key: Key) -> tuple[State, Scalar]:
        push = reach * action / jnp.maximum(jnp.sqrt((action**2).sum()), 1)
        moved = jnp.clip(state + push, -1, 1).astype(jnp.float32)
        there = jnp.minimum(distance(task, state), distance(task, moved)) <= tolerance
        moved = jnp.where(there, task, moved)
        return moved, rewarded(distance(task, moved))

    def best_rewards(task: Task, state: State) -> jax.Array:
        left = distance(task, state) - reach * jnp.arange(1, horizon + 1)
        return rewarded(jnp.where(left <= tolerance, 0, left))

    def check(goal: np.ndarray) -> None:
        if np.shape(goal) != (2,) or not np.all(np.abs(goal) <= 1):
            raise UserMistake(
                f"problem.goals has {np.asarray(goal).tolist()}, but a goal is a place [x, y] with both "
                "numbers from -1 to 1"
            )
        farthest = float(np.linalg.norm(1 + np.abs(goal)))  # from the opposite corner
        _check_reach(goal, horizon, int(np.ceil((farthest - tolerance) / reach)))

    return Environment(reset, step, lambda task, state: state, best_rewards, check, horizon, 2, "continuous", 2)


def _rewards(kind: Reward, longest: float) -> Callable[[jax.Array], jax.Array]:
    """What a step earns that ends at this distance from the goal."""
    if kind == "arrival":
        return lambda distance: (distance <= 0).astype(jnp.float32)
    return lambda distance: (1 - distance / longest).astype(jnp.float32)


def _check_at_least(field: str, given: int, least: int) -> None:
    if given < least:
        raise UserMistake(f"problem.{field} is {given}, but must be at least {least}")


def _check_reach(goal: np.ndarray, horizon: int, needed: int) -> None:
    if horizon < needed:
        raise UserMistake(
            f"problem.horizon is {horizon}, but the goal {np.asarray(goal).tolist()} is up to {needed} steps away; "
            f"take a horizon of at least {needed}"
        )
