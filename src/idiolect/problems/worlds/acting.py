"""Clients that act: each has a task of its own in one kind of world, and learns a policy for it.

A client's data is its task, which its policy does not see, and the seeds of the episodes on which it is scored. To
train and to adapt it draws as many new episodes as it likes. The batch size is the number D of trajectories.
"""

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Batch, Clients, Key, Metric, Oracle, Params, Problem, Scalar, Shard, Split
from idiolect.errors import UserMistake
from idiolect.problems.worlds.environments import Environment
from idiolect.problems.worlds.policies import Policy
from idiolect.problems.worlds.policy_gradient import Baseline, discounted, policy_oracle, rollout, start


def acting_problem(
    name: str,
    environment: Environment,
    policy: Policy,
    tasks: np.ndarray,
    *,
    discount: float = 0.99,
    scored_discount: float | None = None,
    baseline: Baseline = "others",
    episodes: int = 100,
    unseen: float = 0.0,
    metric: str = "reward",
    seed: int = 0,
) -> Problem:
    """Clients with a task each, one row of `tasks`, in any environment.

    What is learned is the discounted return. So is the metric, the mean of one episode per row, unless it has a
    `scored_discount` of its own. Where the environment knows the best there is, it is a reference.

    Args:
        name: What the problem is called.
        environment: The world, and what it can ask for.
        policy: Gives actions from what is seen.
        tasks: A row for each client.
        discount: Of what is learned.
        scored_discount: Of the metric; by default the same.
        baseline: What is taken off a return before it counts: nothing, or the mean of the other trajectories.
        episodes: On how many everyone is scored.
        unseen: The share of clients that take no part in training.
        metric: What the return is called.
        seed: Of the scored episodes, and of who is unseen.

    Returns:
        The problem.

    Example:
        >>> import numpy as np
        >>> from idiolect.problems.worlds import acting_problem
        >>> from idiolect.problems.worlds.environments import grid_navigation
        >>> from idiolect.problems.worlds.policies import softmax_policy
        >>> world = grid_navigation(size=3)
        >>> policy = softmax_policy(world.features, world.actions, ())
        >>> acting_problem("mine", world, policy, np.array([[0, 0], [2, 2]], np.int32), episodes=5).clients.total
        2
    """
    for task in tasks:
        environment.check(task)
    judged = discount if scored_discount is None else scored_discount

    def oracle(shard: Shard, batch_size: int) -> Oracle:
        return policy_oracle(environment, policy, shard.rows["task"][shard.start], batch_size, discount, baseline)

    def earned(params: Params, row: Batch) -> Scalar:
        path = rollout(environment, policy, row["task"], params, episode_key(row))
        return discounted(path.rewards, judged).sum()

    def score(params: Params, batch: Batch) -> Scalar:
        return jax.vmap(earned, (None, 0))(params, batch).mean()

    known = {} if environment.best_rewards is None else {"best": lambda split: best_scores(environment, split, judged)}
    clients = _clients(tasks, episodes, unseen, np.random.default_rng([seed, 1]))
    return Problem(name, policy.init, oracle, Metric(metric, score, higher_is_better=True), clients, references=known)


def best_scores(environment: Environment, split: Split, discount: float) -> np.ndarray:
    """The best score any policy could have on each client's rows of a split, as a single row."""
    best_rewards = environment.best_rewards
    assert best_rewards is not None, "this environment does not know the best there is"

    def best(row: Batch) -> Scalar:
        state = start(environment, row["task"], episode_key(row))
        return discounted(best_rewards(row["task"], state), discount).sum()

    scores = np.asarray(jax.jit(jax.vmap(best))(split.rows))
    ranges = zip(split.starts, split.sizes, strict=True)
    return np.array([[scores[begin : begin + size].mean() for begin, size in ranges]])


def episode_key(row: Batch) -> Key:
    """The randomness of the episode on which this row is scored."""
    # Folded in, so that no seed of a run can give the same key.
    return jax.random.fold_in(jax.random.key(0), row["seed"])


def _clients(tasks: np.ndarray, episodes: int, unseen: float, rng: np.random.Generator) -> Clients:
    """One row each to train and to adapt on, which tells the task, and a row for each episode that is scored."""
    clients, lengths = len(tasks), np.array([1, 1, episodes, episodes], np.int32)
    if round(unseen * clients) == clients:
        raise UserMistake(f"problem.unseen is {unseen}, which leaves none of {clients} clients to train")
    each = int(lengths.sum())
    seeds = (rng.integers(2**32) + np.arange(clients * each)) % 2**32  # no two alike
    store = {"task": jnp.asarray(np.repeat(tasks, each, axis=0)), "seed": jnp.asarray(seeds.astype(np.uint32))}
    starts = (np.arange(clients)[:, None] * each + np.cumsum(lengths) - lengths).astype(np.int32)
    train, adapt, validation, test = (
        Split(store, starts[:, part], np.full(clients, length, np.int32)) for part, length in enumerate(lengths)
    )
    held_out = rng.choice(clients, size=round(unseen * clients), replace=False)
    return Clients(train, adapt, validation, test, frozenset(int(client) for client in held_out))
