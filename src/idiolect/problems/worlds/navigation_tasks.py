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

    Goals are drawn without repetition unless `goals` has them. `policy`: a table of preferences, or a network with
    `hidden` layers. Everyone is scored on `episodes` episodes.
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

    Goals are drawn at random unless `goals` has them. The policy is normal around the output of a network with `hidden`
    layers (by default none: it is linear), at first with standard deviation `deviation`.
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
