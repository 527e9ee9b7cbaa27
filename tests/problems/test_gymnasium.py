"""Gymnasium environments in compiled programs, against plain gymnasium loops with the same seeds and actions."""

import sys
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect.engines import Workers
from idiolect.engines.workers import compile_for_clients
from idiolect.errors import UserMistake
from idiolect.evaluation.scoring import mean_scores
from idiolect.problems.worlds import acting_problem, cartpole, gymnasium_environment
from idiolect.problems.worlds import gymnasium_environments as gymnasium_world
from idiolect.problems.worlds.environment_pool import EnvironmentPool
from idiolect.problems.worlds.poles import cart_with_pole
from idiolect.problems.worlds.policies import gaussian_policy, softmax_policy
from idiolect.problems.worlds.policy_gradient import policy_oracle, rollout

gymnasium = pytest.importorskip("gymnasium")

KEY = jax.random.key(5)
HORIZON = 30
SHORT, LONG = np.float32([0.3]), np.float32([4.0])
POLES = gymnasium_environment(cart_with_pole, example=SHORT, horizon=HORIZON)
LINEAR = softmax_policy(4, 2, hidden=())


def skilled():
    """A policy that leans the right way, so that episodes differ in length."""
    params = LINEAR.init(KEY)
    lean = jnp.outer(jnp.array([0.0, 0.1, 2.0, 0.5]), jnp.array([-1.0, 1.0]))
    return jax.tree.map(lambda leaf: lean.astype(leaf.dtype) if leaf.ndim == 2 else leaf, params)


def seed_of(key):
    """The seed with which the environment starts the episode of this key."""
    return int(jax.random.bits(jax.random.split(key)[0]))


def play(world, seed, actions):
    """A plain loop: (observation, reward, done) at the start and after each action; after the end nothing changes."""
    seen, reward, done = world.reset(seed=seed)[0], 0.0, False
    story = [(seen, reward, done)]
    for action in actions:
        reward = 0.0
        if not done:
            seen, reward, terminated, truncated, _ = world.step(action)
            done = terminated or truncated
        story.append((seen, reward, done))
    return [np.array(column) for column in zip(*story, strict=True)]


@jax.jit
def paths(task, keys):
    return jax.vmap(partial(rollout, POLES, LINEAR, task, skilled()))(keys)


def six(key):
    return jax.random.split(key, 6)


@pytest.mark.parametrize("task", [SHORT, LONG])
def test_an_episode_is_the_one_that_a_plain_loop_plays(task):
    drawn = jax.tree.map(np.asarray, paths(task, six(KEY)))
    world = gymnasium.make("CartPole-v1").unwrapped
    world.length = float(task[0]) / 2
    world.polemass_length = 0.1 * world.length
    for key, seen, actions, rewards in zip(six(KEY), *drawn, strict=True):
        sights, earned, _ = play(world, seed_of(key), actions.tolist())
        np.testing.assert_array_equal(seen, sights[:-1])
        np.testing.assert_array_equal(rewards, earned[1:])


def test_after_the_fall_nothing_is_earned_and_nothing_moves():
    _, _, rewards = drawn = jax.tree.map(np.asarray, paths(SHORT, six(KEY)))
    ends = rewards.sum(1).astype(int)
    assert ends.min() < HORIZON - 2, "somebody falls, or nothing would be said of the time after it"
    for seen, earned, end in zip(drawn.observations, rewards, ends, strict=True):
        np.testing.assert_array_equal(earned, np.arange(HORIZON) < end)
        assert (seen[end:] == seen[end:][:1]).all()


def test_the_length_of_the_pole_matters():
    short, long = (paths(task, six(KEY)).observations for task in (SHORT, LONG))
    np.testing.assert_array_equal(short[:, 0], long[:, 0])
    assert not np.allclose(short[:, 2], long[:, 2])


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_answers_do_not_depend_on_what_was_asked_before(limit):
    """Histories in order, in any other order, twice, and with fewer live environments than histories."""
    rng = np.random.default_rng(0)
    scripts = [(task, seed, rng.integers(0, 2, 25)) for task in (SHORT, LONG) for seed in (0, 1, 0)]
    stories = [play(cart_with_pole(task), seed, script) for task, seed, script in scripts]
    questions = [(row, count) for count in range(26) for row in range(len(scripts))]
    worlds = EnvironmentPool(cart_with_pole, int, horizon=25, limit=limit)
    for order in (questions, questions, *(rng.permutation(questions) for _ in range(2))):
        for row, count in order:
            task, seed, script = scripts[row]
            found = worlds.arrive(task, seed, script[:count])
            for part, expected in zip(found, stories[row], strict=True):
                np.testing.assert_array_equal(part, expected[count])
    assert any(done.any() for _, _, done in stories), "nobody fell"


def test_the_usual_cost_is_one_step_for_one_step():
    steps = []

    def counted(task):
        world = cart_with_pole(task)
        step = world.step
        world.step = lambda action: (steps.append(action), step(action))[1]
        return world

    environment = gymnasium_environment(counted, example=SHORT, horizon=HORIZON)
    draw = jax.jit(jax.vmap(lambda key: rollout(environment, LINEAR, SHORT, skilled(), key).rewards))
    earned = draw(six(KEY))
    assert len(steps) == int(earned.sum())
    again = draw(six(KEY))
    np.testing.assert_array_equal(again, earned)
    assert len(steps) == 2 * int(earned.sum())


KEYS = jax.random.split(KEY, 3)


@cache
def estimates():
    """Value, gradient and Hessian-vector product on 6 trajectories for each of the keys, one after the other."""

    def estimate(task, key):
        oracle = policy_oracle(POLES, LINEAR, task, 6, 0.9, "none")
        return (*oracle.gradient(skilled(), key), oracle.hessian_product(skilled(), skilled(), key))

    return compile_for_clients(lambda task: jax.lax.map(partial(estimate, task), KEYS))


def test_the_oracle_is_reinforce_on_the_trajectories_of_a_plain_loop():
    _, gradient, product = estimates()(LONG)
    weights = np.asarray(next(leaf for leaf in jax.tree.leaves(skilled()) if leaf.ndim == 2), np.float64)
    for place, drawn_with in enumerate(KEYS):
        expected, world = np.zeros((5, 2)), cart_with_pole(LONG)
        chosen = np.asarray(paths(LONG, six(drawn_with)).actions)
        for key, actions in zip(six(drawn_with), chosen, strict=True):
            seen, rewards, _ = play(world, seed_of(key), actions)
            earned = rewards[1:] * 0.9 ** np.arange(HORIZON)
            for step, (sight, action) in enumerate(zip(seen[:-1], actions, strict=True)):
                chances = np.exp(sight @ weights) / np.exp(sight @ weights).sum()
                expected -= np.outer([*sight, 1], np.eye(2)[action] - chances) * earned[step:].sum() / 6
        leaves = {leaf.ndim: np.asarray(leaf)[place] for leaf in jax.tree.leaves(gradient)}
        np.testing.assert_allclose(leaves[3], expected[:4], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(leaves[2], expected[4], rtol=1e-3, atol=1e-4)
    assert all(np.isfinite(leaf).all() and leaf.any() for leaf in jax.tree.leaves(product))


def test_gradients_in_two_threads_are_those_of_one():
    tasks = (SHORT, LONG, LONG, SHORT)
    with Workers(2) as workers:
        futures = [workers.submit(estimates(), task) for task in tasks]
        for task, future in zip(tasks, futures, strict=True):
            jax.tree.map(np.testing.assert_array_equal, future.result(), estimates()(task))


def test_two_threads_with_batches_too_large_for_one_callback(monkeypatch):
    """With arguments of more than 100 KiB, and a callback on every core, XLA was seen to hang."""
    asked, ask = [], jax.pure_callback
    monkeypatch.setattr(
        jax, "pure_callback", lambda *given: (asked.append(max(a.nbytes for a in given[2:])), ask(*given))[1]
    )
    wide = np.append(SHORT, np.zeros(8000, np.float32))
    draw = compile_for_clients(paths.__wrapped__)
    with Workers(2) as workers:
        futures = [workers.submit(draw, wide, six(jax.random.key(seed))) for seed in range(6)]
        found = [jax.tree.map(np.asarray, future.result()) for future in futures]
    assert 6 * wide.nbytes > 2 * gymnasium_world.LARGEST >= 2 * max(asked)
    for seed, path in enumerate(found):
        jax.tree.map(np.testing.assert_array_equal, path, paths(SHORT, six(jax.random.key(seed))))


class Corridor(gymnasium.Env):
    """Cells 5 to 8 in a row, seen as numbers; a push of more than a half, left or right, moves; truncated at step 4."""

    observation_space = gymnasium.spaces.Discrete(4, start=5)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1, 2))

    def __init__(self, noise=0.0):
        self.noise = noise

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.steps = int(self.np_random.integers(5, 9)), 0
        return self.cell, {}

    def step(self, action):
        assert action in self.action_space
        push = action[0, 1] - action[0, 0] + self.noise * np.random.default_rng().normal()
        self.cell = int(np.clip(self.cell + np.round(push), 5, 8))
        self.steps += 1
        return self.cell, float(push), False, self.steps == 4, {}


def test_boxes_of_actions_and_numbered_observations():
    environment = gymnasium_environment(lambda task: Corridor(), example=np.float32([0.0]), horizon=6)
    assert (environment.kind, environment.actions, environment.features) == ("continuous", 2, 4)
    environment.check(np.float32([1.0]))
    policy = gaussian_policy(4, 2, deviation=2.0)
    params = policy.init(KEY)
    path = jax.tree.map(np.asarray, jax.jit(partial(rollout, environment, policy))(SHORT, params, KEY))
    actions = [np.clip(action.reshape(1, 2), -1, 1) for action in path.actions]
    seen, rewards, done = play(Corridor(), seed_of(KEY), actions)
    assert done.tolist() == [False] * 4 + [True] * 3
    np.testing.assert_array_equal(path.observations, np.eye(4)[seen[:-1] - 5])
    np.testing.assert_array_equal(path.rewards, np.float32(rewards[1:]))
    oracle = policy_oracle(environment, policy, jnp.asarray(SHORT), 3, 1.0, "others")
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(jax.jit(oracle.gradient)(params, KEY)))


def test_any_family_of_environments_is_a_problem():
    tasks = np.float32([[0.0], [1.0]])
    environment = gymnasium_environment(lambda task: Corridor(), example=tasks[0], horizon=6)
    problem = acting_problem("corridor", environment, gaussian_policy(4, 2), tasks, episodes=3)
    assert problem.clients.total == 2
    assert problem.references == {}, "nobody knows the best there is"


def test_cartpole_counts_the_steps_before_the_fall():
    problem = cartpole(clients=2, lengths=[0.3, 4.0], horizon=HORIZON, hidden=[], episodes=6)
    score = jax.jit(lambda shard: mean_scores(problem.metrics, skilled(), shard)[0])
    test = problem.clients.test
    for client, task in enumerate((SHORT, LONG)):
        seeds = test.rows["seed"][test.starts[client] : test.starts[client] + 6]
        keys = jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(0), seed))(seeds)
        assert float(score(test.shard(client))) == pytest.approx(float(paths(task, keys).rewards.sum(1).mean()))
    assert problem.metric.name == "steps"
    drawn = cartpole(clients=50, shortest=0.5, longest=2.0, seed=1).clients.train.rows["task"]
    assert 0.5 <= drawn.min() < 0.6 < 1.8 < drawn.max() <= 2.0


def boxed(**spaces):
    """A corridor with other spaces."""
    world = Corridor()
    for name, space in spaces.items():
        setattr(world, name, space)
    return lambda task: world


TEXT = gymnasium.spaces.Text(3)


@pytest.mark.parametrize(
    ("make", "needle"),
    [
        (lambda: cartpole(lengths=[1.0]), "problem.lengths has 1 lengths, but problem.clients is 5"),
        (lambda: cartpole(clients=2, lengths=[1.0, 0.0]), "problem.lengths has 0, but"),
        (lambda: cartpole(clients=1, lengths=[float("nan")]), "problem.lengths has nan, but"),
        (lambda: cartpole(shortest=2.0, longest=1.0), "problem.longest is 1, but must be at least problem.shortest, 2"),
        (lambda: cartpole(horizon=70_000), "problem.horizon is 70000, but an action of 1 bytes allows for 65536"),
        (lambda: cartpole(horizon=0), "problem.horizon is 0"),
        (lambda: gymnasium_environment(cart_with_pole, example=SHORT, horizon=5, live=0), "problem.live is 0"),
        (lambda: gymnasium_environment(boxed(action_space=TEXT), example=SHORT, horizon=5), "action space is Text"),
        (
            lambda: gymnasium_environment(boxed(observation_space=TEXT), example=SHORT, horizon=5),
            "observation space is Text",
        ),
        (
            lambda: gymnasium_environment(lambda task: Corridor(noise=task[0]), example=SHORT, horizon=5).check(SHORT),
            "must be deterministic",
        ),
        (
            lambda: gymnasium_environment(
                lambda task: cart_with_pole(task) if task[0] > 1 else Corridor(), example=LONG, horizon=5
            ).check(SHORT),
            "all tasks need those of the first one",
        ),
    ],
)
def test_what_cannot_work_is_refused(make, needle):
    with pytest.raises(UserMistake, match=needle):
        make()


def test_gymnasium_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(UserMistake, match=r"pip install 'idiolect\[gymnasium\]'"):
        cartpole()
