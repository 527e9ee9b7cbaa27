"""Two worlds by hand: where steps lead, what they earn, what the shortest way earns, and which tasks are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect.errors import UserMistake
from idiolect.problems.worlds.environments import MOVES, grid_navigation, point_navigation

KEY = jax.random.key(0)
WEST, EAST, SOUTH, NORTH = range(4)


def walk(environment, goal, state, actions):
    """The states and rewards of these actions, one after the other."""
    states, rewards = [], []
    for action in actions:
        state, reward = environment.step(jnp.asarray(goal), state, jnp.asarray(action), KEY)
        states.append(np.asarray(state).tolist())
        rewards.append(float(reward))
    return states, rewards


def test_a_walk_on_the_grid_by_hand():
    grid = grid_navigation(size=3, horizon=6)
    states, rewards = walk(grid, [2, 1], jnp.array([0, 0]), [WEST, EAST, SOUTH, NORTH, EAST, NORTH])
    assert states == [[0, 0], [1, 0], [1, 0], [1, 1], [2, 1], [2, 1]], "walls stop, and the goal holds who arrives"
    assert rewards == [0, 0, 0, 0, 1, 1]


def test_nearness_pays_by_the_distance_that_is_left():
    grid = grid_navigation(size=3, horizon=6, reward="nearness")  # the longest way has 4 steps
    _, rewards = walk(grid, [2, 1], jnp.array([0, 0]), [WEST, EAST, EAST, NORTH, NORTH])
    np.testing.assert_allclose(rewards, [1 / 4, 2 / 4, 3 / 4, 1, 1])


@pytest.mark.parametrize("goal", [[0, 0], [1, 2], [2, 2]])
def test_starts_are_uniform_over_all_cells_but_the_goal(goal):
    grid = grid_navigation(size=3, horizon=6)
    starts = jax.vmap(lambda key: grid.reset(jnp.array(goal), key))(jax.random.split(KEY, 8000))
    counts = np.bincount(np.asarray(starts @ jnp.array([3, 1])), minlength=9)
    here = goal[0] * 3 + goal[1]
    assert counts[here] == 0
    np.testing.assert_allclose(np.delete(counts, here), 1000, atol=150)


def shortest(environment, goal, state, depth, choices):
    """The best total of rewards by trying everything."""
    if depth == 0:
        return 0.0
    totals = []
    for action in choices:
        after, reward = environment.step(goal, state, action, KEY)
        totals.append(float(reward) + shortest(environment, goal, after, depth - 1, choices))
    return max(totals)


@pytest.mark.parametrize("reward", ["arrival", "nearness"])
def test_nobody_does_better_than_the_best_rewards(reward):
    grid, goal = grid_navigation(size=3, horizon=4, reward=reward), jnp.array([2, 1])
    for state in (jnp.array([0, 0]), jnp.array([1, 1]), jnp.array([2, 2])):
        best = float(grid.best_rewards(goal, state).sum())
        assert best == pytest.approx(shortest(grid, goal, state, 4, jnp.arange(4)), abs=1e-6)


def test_the_best_rewards_by_hand():
    grid, goal = grid_navigation(size=5, horizon=8), jnp.array([4, 3])
    np.testing.assert_array_equal(grid.best_rewards(goal, jnp.array([1, 1])), [0, 0, 0, 0, 1, 1, 1, 1])
    point, goal = point_navigation(horizon=13, reach=0.25, tolerance=0.1), jnp.array([0.5, 0.0])
    distances = np.array([0.75, 0.5, 0.25, *np.zeros(10)])  # from 1 away
    expected = 1 - distances / np.sqrt(8)
    np.testing.assert_allclose(point.best_rewards(goal, jnp.array([-0.5, 0.0])), expected, rtol=1e-6)


@pytest.mark.parametrize("reward", ["arrival", "nearness"])
def test_a_point_that_goes_straight_to_its_goal_earns_the_best_rewards_and_others_less(reward):
    point, goal = point_navigation(horizon=12, reach=0.25, tolerance=0.1, reward=reward), jnp.array([0.4, -0.3])

    @jax.jit
    def earned(key):
        first, rest = jax.random.split(key)
        begin = point.reset(goal, first)

        def follow(noise):
            def step(state, key):
                wish = (goal - state) / 0.25 + noise * jax.random.normal(key, (2,))
                return point.step(goal, state, wish, KEY)

            return jax.lax.scan(step, begin, jax.random.split(rest, 12))[1]

        return point.best_rewards(goal, begin), follow(0.0), follow(3.0)

    best, straight, drunk = jax.vmap(earned)(jax.random.split(KEY, 200))
    np.testing.assert_allclose(straight, best, atol=1e-5)
    assert (np.asarray(drunk) <= np.asarray(best) + 1e-5).all()
    assert np.asarray(drunk).mean() < np.asarray(best).mean() - 0.01


def test_a_push_beyond_full_speed_counts_as_full_speed_and_walls_stop_the_point():
    point, goal = point_navigation(reach=0.25, tolerance=0.1), [-0.9, -0.9]
    states, _ = walk(point, goal, jnp.array([0.5, 0.5]), [[30.0, 40.0], [0.4, 0.0], [0.0, 1.0], [0.0, 1.0]])
    np.testing.assert_allclose(states, [[0.65, 0.7], [0.75, 0.7], [0.75, 0.95], [0.75, 1.0]], atol=1e-6)
    states, rewards = walk(point, goal, jnp.array([-0.7, -0.9]), [[-0.5, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(states, [goal, goal], atol=1e-6)
    np.testing.assert_allclose(rewards, [1, 1], atol=1e-6)


def test_a_policy_does_not_see_the_goal():
    for environment, state in ((grid_navigation(), jnp.array([1, 2])), (point_navigation(), jnp.array([0.1, 0.2]))):
        seen = [environment.observe(goal, state) for goal in (jnp.array([0, 0]), jnp.array([1, 1]))]
        np.testing.assert_array_equal(*seen)
        assert seen[0].shape == (environment.features,)
    assert grid_navigation().actions == len(MOVES)


@pytest.mark.parametrize(
    ("make", "needle"),
    [
        (lambda: grid_navigation(size=1), "problem.size is 1, but must be at least 2"),
        (lambda: grid_navigation(horizon=-3), "problem.horizon is -3, but must be at least 1"),
        (lambda: point_navigation(horizon=0), "problem.horizon is 0, but must be at least 1"),
        (lambda: point_navigation(reach=0.0), "problem.reach is 0, but must be positive"),
        (lambda: point_navigation(tolerance=-1.0), "problem.tolerance is -1, but must be positive"),
        (lambda: grid_navigation(size=3).check(np.array([3, 0])), "with both numbers from 0 to 2"),
        (lambda: grid_navigation(size=3).check(np.array([1])), r"problem.goals has \[1\]"),
        (lambda: grid_navigation(size=5, horizon=7).check(np.array([0, 4])), "horizon of at least 8"),
        (lambda: point_navigation().check(np.array([0.0, 1.5])), "numbers from -1 to 1"),
        (lambda: point_navigation(horizon=5).check(np.array([1.0, 1.0])), "is up to 11 steps away"),
    ],
)
def test_a_world_or_a_task_that_cannot_be_is_refused(make, needle):
    with pytest.raises(UserMistake, match=needle):
        make()
