"""Clients that learn their way to a goal of their own: MEMRL's experiment (Fig. 1) as a problem like any other.

A client is a task. Its data is where its goal is, which its policy does not see, and the seeds of the episodes on which
it is scored; training and adaptation draw as many new episodes as they like. The batch size is the number D of
trajectories, and the metric is the discounted return of one episode per row.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from idiolect.contracts import Batch, Clients, Key, Metric, Oracle, Params, Problem, Scalar, Shard, Split
from idiolect.errors import UserMistake
from idiolect.problems import environments
from idiolect.problems.environments import Environment, Reward
from idiolect.problems.policies import Policy, gaussian_policy, softmax_policy, tabular_policy
from idiolect.problems.policy_gradient import Baseline, discounted, policy_oracle, rollout, start


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
    environment = environments.grid_navigation(size=size, horizon=horizon, reward=reward)
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
    return _problem("navigation", environment, acting, _clients(places, episodes, unseen, rng), discount, baseline)


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
    return _problem(
        "point_navigation", environment, acting, _clients(places, episodes, unseen, rng), discount, baseline
    )


def best_scores(environment: Environment, split: Split, discount: float) -> np.ndarray:
    """The best score any policy could have on each client's rows of a split: the shortest way from every start."""
    best_rewards = environment.best_rewards
    if best_rewards is None:
        raise UserMistake("the best score is not known here, since the environment does not tell its best rewards")

    def best(row: Batch) -> Scalar:
        state = start(environment, row["goal"], _episode_key(row))
        return discounted(best_rewards(row["goal"], state), discount).sum()

    scores = np.asarray(jax.jit(jax.vmap(best))(split.rows))
    ranges = zip(split.starts, split.sizes, strict=True)
    return np.array([scores[begin : begin + size].mean() for begin, size in ranges])


def acting_problem(
    name: str,
    environment: Environment,
    policy: Policy,
    tasks: np.ndarray,
    *,
    discount: float = 0.99,
    baseline: Baseline = "others",
    episodes: int = 100,
    unseen: float = 0.0,
    metric: str = "reward",
    seed: int = 0,
) -> Problem:
    """Clients with a task each, one row of `tasks`, in any environment; their score is what they earn, undiscounted."""
    for task in tasks:
        environment.check(task)
    clients = _clients(tasks, episodes, unseen, np.random.default_rng(seed))
    found = _problem(name, environment, policy, clients, discount, baseline, scored=1.0)
    return found._replace(metric=found.metric._replace(name=metric))


def _problem(
    name: str,
    environment: Environment,
    policy: Policy,
    clients: Clients,
    discount: float,
    baseline: Baseline,
    scored: float | None = None,
) -> Problem:
    def oracle(shard: Shard, batch_size: int) -> Oracle:
        return policy_oracle(environment, policy, shard.rows["goal"][shard.start], batch_size, discount, baseline)

    def earned(params: Params, row: Batch) -> Scalar:
        path = rollout(environment, policy, row["goal"], params, _episode_key(row))
        return discounted(path.rewards, discount if scored is None else scored).sum()

    def score(params: Params, batch: Batch) -> Scalar:
        return jax.vmap(earned, (None, 0))(params, batch).mean()

    return Problem(name, policy.init, oracle, Metric("reward", score, higher_is_better=True), clients)


def _episode_key(row: Batch) -> Key:
    # Folded in, so that no seed of a run can give the same key.
    return jax.random.fold_in(jax.random.key(0), row["seed"])


def _places(environment: Environment, goals: Sequence[Sequence[float]], clients: int, kind: type) -> np.ndarray:
    if len(goals) != clients:
        raise UserMistake(f"problem.goals has {len(goals)} goals, but problem.clients is {clients}; give one to each")
    for goal in goals:
        environment.check(np.asarray(goal))
    return np.asarray(goals, kind)


def _clients(goals: np.ndarray, episodes: int, unseen: float, rng: np.random.Generator) -> Clients:
    """One row each to train and to adapt on, which tells the goal, and a row for each episode that is scored."""
    clients, lengths = len(goals), np.array([1, 1, episodes, episodes], np.int32)
    if round(unseen * clients) == clients:
        raise UserMistake(f"problem.unseen is {unseen}, which leaves none of {clients} clients to train")
    each = int(lengths.sum())
    seeds = (rng.integers(2**32) + np.arange(clients * each)) % 2**32  # no two alike
    store = {"goal": jnp.asarray(np.repeat(goals, each, axis=0)), "seed": jnp.asarray(seeds.astype(np.uint32))}
    starts = (np.arange(clients)[:, None] * each + np.cumsum(lengths) - lengths).astype(np.int32)
    train, adapt, validation, test = (
        Split(store, starts[:, part], np.full(clients, length, np.int32)) for part, length in enumerate(lengths)
    )
    held_out = rng.choice(clients, size=round(unseen * clients), replace=False)
    return Clients(train, adapt, validation, test, frozenset(int(client) for client in held_out))
