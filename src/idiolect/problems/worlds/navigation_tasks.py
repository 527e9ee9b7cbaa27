"""Clients that learn their way to a goal of their own: MEMRL's experiment (Fig. 1) as a problem like any other.

A client's task (`idiolect.problems.worlds.acting`) is where its goal is. The metric is the discounted return.
"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from idiolect.contracts import Key, Params, Problem, Scene, Shard
from idiolect.errors import UserMistake
from idiolect.problems.worlds import environments
from idiolect.problems.worlds.acting import acting_problem, episode_key
from idiolect.problems.worlds.environments import Environment, Reward, State
from idiolect.problems.worlds.policies import Policy, gaussian_policy, softmax_policy, tabular_policy
from idiolect.problems.worlds.policy_gradient import Baseline, rollout, start

DRAWN = 10  # episodes in a scene


def navigation(
    *,
    clients: Annotated[int, Ge(1)] = 3,
    size: Annotated[int, Ge(2)] = 5,
    horizon: Annotated[int, Ge(1)] = 16,
    discount: Annotated[float, Gt(0), Le(1)] = 0.95,
    reward: Reward = "arrival",
    goals: Sequence[Sequence[int]] | None = None,
    policy: Literal["table", "network"] = "table",
    hidden: Sequence[Annotated[int, Gt(0)]] = (32,),
    baseline: Baseline = "none",
    episodes: Annotated[int, Ge(1)] = 100,
    unseen: Annotated[float, Ge(0), Lt(1)] = 0.0,
    seed: int = 0,
) -> Problem:
    """A walk on a grid to a goal that differs between clients (MEMRL, Fig. 1).

    Args:
        clients: How many there are.
        size: The side of the grid.
        horizon: Steps of an episode.
        discount: Of later rewards.
        reward: For arrival, or for nearness.
        goals: A cell for each client; by default drawn without repetition.
        policy: A table of preferences, or a network.
        hidden: Widths of the network's layers.
        baseline: What is taken off a return before it counts: nothing, or the mean of the other trajectories.
        episodes: On how many everyone is scored.
        unseen: The share of clients that take no part in training.
        seed: Of goals, scored episodes, and who is unseen.

    Returns:
        The problem, with scenes and the best return as a reference.

    Example:
        >>> from idiolect.problems.worlds import navigation
        >>> navigation(clients=2, size=3, episodes=5).clients.total
        2
    """
    environment = environments.grid_navigation(
        size=size, horizon=horizon, reward=reward, seen="number" if policy == "table" else "vector"
    )
    rng = np.random.default_rng(seed)
    if goals is None:
        if clients > size * size:
            raise UserMistake(
                f"problem.clients is {clients}, but a grid of size {size} has {size * size} cells for their goals"
            )
        cells = rng.choice(size * size, clients, replace=False)
        goals = np.stack([cells // size, cells % size], axis=1).tolist()
    if policy == "table":
        acting = tabular_policy(environment.features, environment.actions)
    else:
        acting = softmax_policy(environment.features, environment.actions, hidden)
    places = _places(environment, goals, clients, np.int32)
    terms = _Terms(discount, baseline, episodes, unseen, seed)
    return _on_a_map("navigation", environment, acting, places, terms)


def point_navigation(
    *,
    clients: Annotated[int, Ge(1)] = 3,
    horizon: Annotated[int, Ge(1)] = 20,
    reach: Annotated[float, Gt(0)] = 0.25,
    tolerance: Annotated[float, Gt(0)] = 0.1,
    discount: Annotated[float, Gt(0), Le(1)] = 0.95,
    reward: Reward = "nearness",
    goals: Sequence[Sequence[float]] | None = None,
    hidden: Sequence[Annotated[int, Gt(0)]] = (),
    deviation: Annotated[float, Gt(0)] = 0.5,
    baseline: Baseline = "none",
    episodes: Annotated[int, Ge(1)] = 100,
    unseen: Annotated[float, Ge(0), Lt(1)] = 0.0,
    seed: int = 0,
) -> Problem:
    """A point pushed through a box to a goal that differs between clients.

    The policy is normal around the output of a network.

    Args:
        clients: How many there are.
        horizon: Steps of an episode.
        reach: The longest step.
        tolerance: How near to the goal counts as there.
        discount: Of later rewards.
        reward: For arrival, or for nearness.
        goals: A place for each client; by default drawn at random.
        hidden: Widths of the network's layers; by default it has none, and is linear.
        deviation: The standard deviation of actions at first.
        baseline: What is taken off a return before it counts: nothing, or the mean of the other trajectories.
        episodes: On how many everyone is scored.
        unseen: The share of clients that take no part in training.
        seed: Of goals, scored episodes, and who is unseen.

    Returns:
        The problem, with scenes.

    Example:
        >>> from idiolect.problems.worlds import point_navigation
        >>> point_navigation(clients=2, goals=[[0.5, 0.5], [-0.5, 0.0]], episodes=5).clients.total
        2
    """
    environment = environments.point_navigation(horizon=horizon, reach=reach, tolerance=tolerance, reward=reward)
    rng = np.random.default_rng(seed)
    drawn = rng.uniform(-1, 1, (clients, 2)).tolist() if goals is None else goals
    acting = gaussian_policy(environment.features, environment.actions, hidden, deviation)
    places = _places(environment, drawn, clients, np.float32)
    terms = _Terms(discount, baseline, episodes, unseen, seed)
    return _on_a_map("point_navigation", environment, acting, places, terms)


class _Terms(NamedTuple):
    """What `acting_problem` is told besides who goes where."""

    discount: float
    baseline: Baseline
    episodes: int
    unseen: float
    seed: int


def _on_a_map(name: str, environment: Environment, policy: Policy, places: np.ndarray, terms: _Terms) -> Problem:
    """The problem, with scenes: the ways that a policy goes on some of the rows it is scored on."""
    problem = acting_problem(name, environment, policy, places, **terms._asdict())
    drawn = min(DRAWN, int(problem.clients.test.sizes.min()))

    def scene(params: Params, shard: Shard) -> Scene:
        rows = jax.tree.map(lambda store: jax.lax.dynamic_slice_in_dim(store, shard.start, drawn), shard.rows)
        paths = jax.vmap(partial(_path, environment, policy, params))(rows["task"], jax.vmap(episode_key)(rows))
        return Scene(paths, rows["task"][0])

    return problem._replace(scene=scene)


def _path(environment: Environment, policy: Policy, params: Params, goal: jax.Array, key: Key) -> jax.Array:
    """The places of one episode, its start included."""

    def move(state: State, action: jax.Array) -> tuple[State, State]:
        after, _ = environment.step(goal, state, action, key)  # the key is idle: nothing here moves by chance
        return after, after

    begin = start(environment, goal, key)
    places = jax.lax.scan(move, begin, rollout(environment, policy, goal, params, key).actions)[1]
    return jnp.concatenate([begin[None], places])


def _places(environment: Environment, goals: Sequence[Sequence[float]], clients: int, kind: type) -> np.ndarray:
    if len(goals) != clients:
        raise UserMistake(f"problem.goals has {len(goals)} goals, but problem.clients is {clients}; give one to each")
    for goal in goals:
        environment.check(np.asarray(goal))  # as it was written, before it is made to fit a type
    return np.asarray(goals, kind)
