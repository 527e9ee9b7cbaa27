"""Clients who balance a pole on a cart, each a pole of its own length: gymnasium's CartPole-v1 as a problem.

A. G. Barto, R. S. Sutton, C. W. Anderson. Neuronlike adaptive elements that can solve difficult learning control
problems. 1983.

A client is a length, which its policy does not see. Every step earns 1, the one in which the pole falls or the cart
leaves the track too, and the metric is the number of steps before that: the undiscounted return, as people expect it of
CartPole. The gradient is that of the discounted return. Training and adaptation draw as many episodes as they like; the
batch size is the number of trajectories.

Worlds are gymnasium's own, stepped in Python, or the same equations compiled (`compiled_poles`), which is much faster
and needs no gymnasium.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from idiolect.contracts import Problem
from idiolect.errors import UserMistake
from idiolect.problems.worlds.acting import acting_problem
from idiolect.problems.worlds.compiled_poles import compiled_pole
from idiolect.problems.worlds.environments import Environment
from idiolect.problems.worlds.gymnasium_environments import gymnasium_environment
from idiolect.problems.worlds.gymnasium_spaces import load_gymnasium
from idiolect.problems.worlds.policies import softmax_policy
from idiolect.problems.worlds.policy_gradient import Baseline

if TYPE_CHECKING:
    from gymnasium import Env


def cartpole(
    *,
    clients: Annotated[int, Ge(1)] = 5,
    lengths: Sequence[float] | None = None,
    shortest: Annotated[float, Gt(0)] = 0.2,
    longest: Annotated[float, Gt(0)] = 5.0,
    horizon: Annotated[int, Ge(1)] = 200,
    discount: Annotated[float, Gt(0), Le(1)] = 0.99,
    hidden: Sequence[Annotated[int, Gt(0)]] = (16,),
    baseline: Baseline = "others",
    episodes: Annotated[int, Ge(1)] = 50,
    unseen: Annotated[float, Ge(0), Lt(1)] = 0.0,
    simulator: Literal["gymnasium", "compiled"] = "gymnasium",
    seed: int = 0,
) -> Problem:
    """CartPole with a pole of another length for every client.

    Args:
        clients: How many there are.
        lengths: Of whole poles; the usual pole has length 1. By default they are drawn, so that their logarithm is
            uniform.
        shortest: The least that is drawn.
        longest: The most that is drawn.
        horizon: The most steps of an episode.
        discount: Of the return whose gradient is followed.
        hidden: Widths of the layers of the policy, a network.
        baseline: What is taken off a return before it counts: nothing, or the mean of the other trajectories.
        episodes: On how many everyone is scored.
        unseen: The share of clients that take no part in training.
        simulator: Gymnasium (needs `pip install 'idiolect[gymnasium]'`), or its equations compiled.
        seed: Of lengths, scored episodes, and who is unseen.

    Returns:
        The problem; runs report steps before the pole falls.

    Example:
        >>> from idiolect.problems.worlds import cartpole
        >>> cartpole(clients=2, lengths=[0.5, 1.0], horizon=20, episodes=2).metric.name
        'steps'
    """
    if simulator == "gymnasium":
        load_gymnasium()
    if lengths is None:
        if longest < shortest:
            raise UserMistake(f"problem.longest is {longest:g}, but must be at least problem.shortest, {shortest:g}")
        lengths = np.exp(np.random.default_rng(seed).uniform(np.log(shortest), np.log(longest), clients)).tolist()
    if len(lengths) != clients:
        raise UserMistake(
            f"problem.lengths has {len(lengths)} lengths, but problem.clients is {clients}; give one to each"
        )
    for length in lengths:
        if not 0 < length < np.inf:
            raise UserMistake(f"problem.lengths has {length:g}, but the length of a pole must be positive and finite")
    tasks = np.asarray(lengths, np.float32)[:, None]
    world = compiled_pole(horizon) if simulator == "compiled" else _gymnasium(tasks[0], horizon)
    return acting_problem(
        "cartpole",
        world,
        softmax_policy(world.features, world.actions, hidden),
        tasks,
        discount=discount,
        scored_discount=1.0,
        baseline=baseline,
        episodes=episodes,
        unseen=unseen,
        metric="steps",
        seed=seed,
    )


def _gymnasium(example: np.ndarray, horizon: int) -> Environment:
    world = gymnasium_environment(cart_with_pole, example=example, horizon=horizon)
    return world._replace(best_rewards=lambda task, state: jnp.ones(horizon))


def cart_with_pole(task: np.ndarray) -> "Env[Any, Any]":
    """CartPole-v1, without its limit of 500 steps, and with a pole of length `task[0]` and the usual mass."""
    load_gymnasium()
    from gymnasium.envs.classic_control import CartPoleEnv

    world = CartPoleEnv()
    world.length = float(task[0]) / 2  # gymnasium's `length` is half of it
    world.polemass_length = world.masspole * world.length
    return world
