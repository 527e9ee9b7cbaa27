"""MEMRL's Algorithm 1 against a loop written from its lines.

Both sides take the same trajectories, which are drawn from the policy as each side has it at that moment; what becomes
of them (scores, rewards-to-go, steps, the stop at accuracy nu, the average) is NumPy here.
"""

import jax
import numpy as np
import pytest

from idiolect import learn
from idiolect.engines.simulator.server_program import training_key
from idiolect.evaluation.scores import Budget
from idiolect.network.timelines import timeline
from idiolect.network.topologies import ring
from idiolect.problems.worlds import navigation
from idiolect.problems.worlds.environments import grid_navigation
from idiolect.problems.worlds.policies import tabular_policy
from idiolect.problems.worlds.policy_gradient import rollout

TASKS, SIZE, HORIZON, GAMMA = 3, 3, 6, 0.9
LAMBDA, NU, ALPHA, BETA, CAP, BATCH, ROUNDS = 0.5, 1.8, 0.8, 0.6, 4, 5, 3


def rounds(count):
    """All tasks in every round."""
    number = np.repeat(np.arange(count), TASKS)
    return timeline(np.tile(np.arange(TASKS), count), number * 1.0, number + 0.5, round=number)


def test_algorithm_1_line_by_line():
    problem = navigation(clients=TASKS, size=SIZE, horizon=HORIZON, discount=GAMMA, reward="nearness", episodes=1)
    outcome = learn(
        problem,
        "memrl",
        objective={"lambda": LAMBDA, "accuracy": NU, "iterations": CAP, "inner_step_size": BETA},
        step_size=ALPHA,
        batch_size=BATCH,
        timeline=rounds(ROUNDS),
        points=1,
        budget=Budget(steps=(0,), batch_size=BATCH),
    )
    w, caps = np.zeros((SIZE * SIZE, 4)), []  # l. 2
    for number in range(ROUNDS):  # l. 3
        adapted = []
        for task in range(TASKS):  # l. 4-5, with B = 3
            key = jax.random.fold_in(training_key(0), np.int32(TASKS * number + task))
            theta, count = nearby(problem, task, w, jax.random.split(key, 1)[0])
            adapted.append(theta)
            caps.append(count == CAP)
        w = (1 - ALPHA * LAMBDA) * w + ALPHA * LAMBDA * np.mean(adapted, axis=0)  # l. 8
    assert len(set(caps)) == 2, "some tasks met the accuracy and some the cap, or the test would say nothing of one"
    np.testing.assert_allclose(np.asarray(outcome.params), w, atol=2e-5)


def nearby(problem, task, w, key):
    """Line 6, solved as "Bi-level optimization" has it, for at most CAP steps."""
    theta, count = w, 0
    while count < CAP:
        drawn = jax.random.fold_in(key, np.int32(count))  # (a): new trajectories
        direction = policy_gradient(problem, task, theta, drawn) - LAMBDA * (theta - w)
        if np.linalg.norm(direction) <= NU:
            break
        theta, count = theta + BETA * direction, count + 1  # (b), (c)
    return theta, count


GRID, TABLE = grid_navigation(size=SIZE, horizon=HORIZON, reward="nearness"), tabular_policy(SIZE * SIZE, 4)
DRAW = jax.jit(jax.vmap(lambda goal, w, key: rollout(GRID, TABLE, goal, w, key), (None, None, 0)))


def policy_gradient(problem, task, theta, key):
    """The mean over the batch of g(tau) = sum_h grad log pi(a^h | s^h) sum_{l >= h} gamma^l r^l."""
    train = problem.clients.train
    paths = DRAW(train.rows["task"][train.starts[task]], np.float32(theta), jax.random.split(key, BATCH))
    total = np.zeros_like(theta)
    for seen, actions, rewards in zip(*map(np.asarray, paths), strict=True):
        earned = rewards * GAMMA ** np.arange(HORIZON)
        for step, (cell, action) in enumerate(zip(seen.argmax(1), actions, strict=True)):
            chances = np.exp(theta[cell]) / np.exp(theta[cell]).sum()
            total[cell] += (np.eye(4)[action] - chances) * earned[step:].sum()
    return total / BATCH


def a_small_world():
    return navigation(clients=TASKS, size=SIZE, horizon=HORIZON, discount=GAMMA, reward="nearness", episodes=50)


def learned(name, objective):
    """The meta-policy after three iterations."""
    options = {"step_size": ALPHA, "batch_size": BATCH, "timeline": rounds(ROUNDS), "points": 1}
    budget = Budget(steps=(0,), batch_size=BATCH)
    return np.asarray(learn(a_small_world(), name, objective=objective, budget=budget, **options).params)


@pytest.mark.slow
def test_as_lambda_grows_memrl_becomes_multi_task_policy_gradient():
    """alpha lambda (theta - w) tends to alpha grad J(w), for the same alpha and on the same trajectories."""
    limit = learned("multi_task", {})
    near = learned("memrl", {"lambda": 1e3, "iterations": 20, "batches": "shared"})  # steps of 1 / (2 lambda)
    assert np.abs(limit).max() > 0.1
    np.testing.assert_allclose(near, limit, atol=0.01 * np.abs(limit).max())


@pytest.mark.parametrize(
    ("name", "objective", "step_size"),
    [
        ("persa_fl_me", {"lambda": 0.05, "iterations": 3, "inner_step_size": 1.0}, 4.0),
        pytest.param("pars_push", {"step_size": 1.0}, 1.0, marks=pytest.mark.slow),
    ],
)
def test_policies_learn_without_rounds_and_without_a_server(name, objective, step_size):
    """Nothing of these algorithms was made for policies."""
    outcome = learn(
        a_small_world(),
        name,
        objective=objective,
        local_steps=1,
        step_size=step_size,
        batch_size=10,
        topology=ring(),
        horizon=60,
        points=1,
        budget=Budget(steps=(0,), batch_size=10),
    )
    start, end = (point.scores["participating"]["own"].mean for point in outcome.points)
    assert end > start + 0.1
