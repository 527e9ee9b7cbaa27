"""Policy gradients against sums over all trajectories of a task small enough to list them.

On a grid of 2 x 2 cells and for 3 steps there are 3 starts times 4^3 choices. Their probabilities and returns, written
down here in their own way, give J, and automatic differentiation of that sum gives its gradient and Hessian.
"""

import functools
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect.errors import UserMistake
from idiolect.evaluation.scoring import mean_scores
from idiolect.objectives import maml, moreau
from idiolect.problems.worlds import environments, navigation, point_navigation
from idiolect.problems.worlds.acting import best_scores
from idiolect.problems.worlds.environments import MOVES, Environment, grid_navigation
from idiolect.problems.worlds.policies import Policy, gaussian_policy, softmax_policy, tabular_policy
from idiolect.problems.worlds.policy_gradient import policy_oracle, rollout

KEY = jax.random.key(3)
SIZE, HORIZON, DISCOUNT, GOAL = 2, 3, 0.8, (1, 0)
GRID = grid_navigation(size=SIZE, horizon=HORIZON, reward="nearness")
TABLE = tabular_policy(SIZE * SIZE, 4)
POINT = jnp.asarray(np.random.default_rng(0).standard_normal((SIZE * SIZE, 4)), jnp.float32)
VECTOR = jnp.asarray(np.random.default_rng(1).standard_normal((SIZE * SIZE, 4)), jnp.float32)


def follow(start, actions):
    """The cells in which these actions are taken, and the return, by rules written a second time."""
    place, cells, total = np.array(start), [], 0.0
    for step, action in enumerate(actions):
        cells.append(SIZE * place[0] + place[1])
        if tuple(place) != GOAL:
            place = np.clip(place + MOVES[action], 0, SIZE - 1)
        total += DISCOUNT**step * (1 - np.abs(place - GOAL).sum() / (2 * (SIZE - 1)))
    return cells, total


STARTS = [start for start in product(range(SIZE), repeat=2) if start != GOAL]
SCRIPTS = [(start, actions) for start in STARTS for actions in product(range(4), repeat=HORIZON)]
CELLS, RETURNS = (np.array(column) for column in zip(*(follow(*script) for script in SCRIPTS), strict=True))
ACTIONS = np.array([actions for _, actions in SCRIPTS])


def probabilities(table):
    """q(tau; w) of every trajectory."""
    return jnp.exp(jax.nn.log_softmax(table)[CELLS, ACTIONS].sum(1)) / len(STARTS)


def cost(table):
    """-J(w)."""
    return -probabilities(table) @ RETURNS


def hessian_vector(function, point, vector):
    return jax.jvp(jax.grad(function), (point,), (vector,))[1]


def test_the_list_of_all_trajectories_is_complete():
    assert float(probabilities(POINT).sum()) == pytest.approx(1, abs=1e-6)


def scripted() -> tuple[Environment, Policy]:
    """The same world where a task is a start and a list of actions, which the policy takes: one trajectory alone."""

    def reset(task, key):
        return task[:2], jnp.int32(0)

    def step(task, state, action, key):
        place, reward = GRID.step(jnp.array(GOAL), state[0], action, key)
        return (place, state[1] + 1), reward

    def observe(task, state):
        return jnp.append(GRID.observe(jnp.array(GOAL), state[0]), task[2 + state[1]])

    policy = Policy(
        TABLE.init,
        sample=lambda params, observation, key: observation[-1].astype(int),
        log_prob=lambda params, observation, action: TABLE.log_prob(params, observation[:-1], action),
    )
    return GRID._replace(reset=reset, step=step, observe=observe), policy


def test_the_estimators_have_exactly_the_right_means():
    """Weighted by their probabilities, the estimates on single trajectories add up to J and its derivatives."""
    environment, policy = scripted()

    @jax.vmap
    def estimate(script):
        oracle = policy_oracle(environment, policy, script, 1, DISCOUNT)
        return *oracle.gradient(POINT, KEY), oracle.hessian_product(POINT, VECTOR, KEY)

    values, gradients, products = jax.jit(estimate)(jnp.array([(*start, *actions) for start, actions in SCRIPTS]))
    chances = np.asarray(probabilities(POINT), np.float64)
    np.testing.assert_allclose(chances @ values, cost(POINT), rtol=1e-5)
    np.testing.assert_allclose(np.tensordot(chances, gradients, 1), jax.grad(cost)(POINT), atol=1e-6)
    exact = hessian_vector(cost, POINT, VECTOR)
    np.testing.assert_allclose(np.tensordot(chances, products, 1), exact, atol=1e-6)

    def plain_surrogate(table):  # what DiCE is for: trajectories held fixed, its gradient is right, its Hessian is not
        scores = jax.nn.log_softmax(table)[CELLS, ACTIONS].sum(1)
        return -(chances * RETURNS) @ scores

    np.testing.assert_allclose(jax.grad(plain_surrogate)(POINT), jax.grad(cost)(POINT), atol=1e-6)
    assert np.abs(hessian_vector(plain_surrogate, POINT, VECTOR) - exact).max() > 0.05


def test_rewards_to_go_are_discounted_from_the_start_of_the_episode():
    """g(tau) = sum_h grad log pi(a^h) sum_{l >= h} gamma^l r^l, written out for one trajectory."""
    environment, policy = scripted()
    start, actions = (0, 1), (3, 1, 2)  # into the wall, east, south to the goal
    oracle = policy_oracle(environment, policy, jnp.array([*start, *actions]), 1, DISCOUNT)
    earned = np.array([0.0, 0.5, 1.0]) * DISCOUNT ** np.arange(3)
    value, gradient = jax.jit(oracle.gradient)(POINT, KEY)
    np.testing.assert_allclose(value, -earned.sum(), rtol=1e-6)
    expected = np.zeros((4, 4))
    for step, (cell, action) in enumerate(zip([1, 1, 3], actions, strict=True)):
        score = np.eye(4)[action] - np.asarray(jax.nn.softmax(POINT[cell]))
        expected[cell] -= earned[step:].sum() * score
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


@functools.cache
def replicas(trajectories, baseline, count):
    """Estimates of value, gradient and Hessian-vector product from independent batches."""
    oracle = policy_oracle(GRID, TABLE, jnp.array(GOAL), trajectories, DISCOUNT, baseline)

    def estimate(key):
        value, gradient = oracle.gradient(POINT, key)
        return value[None], gradient.ravel(), oracle.hessian_product(POINT, VECTOR, key).ravel()

    estimates = jax.jit(jax.vmap(estimate))(jax.random.split(KEY, count))
    return [np.asarray(each, np.float64) for each in estimates]


def exact_answers():
    answers = cost(POINT)[None], jax.grad(cost)(POINT).ravel(), hessian_vector(cost, POINT, VECTOR).ravel()
    return [np.asarray(each, np.float64) for each in answers]


@pytest.mark.parametrize("baseline", ["none", "others"])
def test_sampled_estimates_agree_with_the_exact_answers_within_their_error(baseline):
    for estimates, exact in zip(replicas(8, baseline, 20000), exact_answers(), strict=True):
        error = estimates.std(0) / np.sqrt(len(estimates))
        assert (np.abs(estimates.mean(0) - exact) < 4 * error + 1e-6).all()


@pytest.mark.slow
def test_the_error_shrinks_like_one_over_the_root_of_the_batch():
    sizes, answers = (4, 32, 256), exact_answers()
    for which in range(3):
        errors = [np.sqrt(((replicas(size, "none", 800)[which] - answers[which]) ** 2).mean()) for size in sizes]
        slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
        assert slope == pytest.approx(-0.5, abs=0.03)


def test_the_baseline_makes_gradients_and_hessians_less_noisy():
    for which in (1, 2):
        plain, better = (replicas(8, baseline, 20000)[which].var(0).sum() for baseline in ("none", "others"))
        assert better < 0.6 * plain


def test_the_same_key_means_the_same_numbers_and_another_key_others():
    oracle = policy_oracle(GRID, TABLE, jnp.array(GOAL), 16, DISCOUNT)
    gradient = jax.jit(lambda key: oracle.gradient(POINT, key)[1])
    np.testing.assert_array_equal(gradient(KEY), gradient(KEY))
    assert not np.array_equal(gradient(KEY), gradient(jax.random.key(4)))


@pytest.mark.parametrize("baseline", ["none", "others"])
def test_the_gradient_as_printed_is_the_derivative_of_what_is_differentiated_twice(baseline):
    oracle = policy_oracle(GRID, TABLE, jnp.array(GOAL), 16, DISCOUNT, baseline)
    expected = jax.jit(jax.value_and_grad(oracle.value))(POINT, KEY)
    for found, wanted in zip(jax.jit(oracle.gradient)(POINT, KEY), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_a_table_reads_a_cell_by_its_number_as_by_the_vector_with_a_one():
    grid = grid_navigation(size=SIZE, horizon=HORIZON, reward="nearness", seen="number")
    paths = [
        jax.jit(jax.vmap(lambda key, w=world: rollout(w, TABLE, jnp.array(GOAL), POINT, key)))(jax.random.split(KEY, 9))
        for world in (GRID, grid)
    ]
    np.testing.assert_array_equal(paths[0].observations.argmax(-1), paths[1].observations)
    np.testing.assert_array_equal(paths[0].actions, paths[1].actions)
    for cell, action in product(range(4), range(4)):
        assert TABLE.log_prob(POINT, jnp.eye(4)[cell], action) == TABLE.log_prob(POINT, jnp.int32(cell), action)


def test_maml_works_on_a_policy_unchanged():
    oracle, alpha = policy_oracle(GRID, TABLE, jnp.array(GOAL), 20000, DISCOUNT, "others"), 4.0
    step = POINT - alpha * jax.grad(cost)(POINT)
    after = jax.grad(lambda table: cost(table - alpha * jax.grad(cost)(table)))(POINT)
    assert np.linalg.norm(after - jax.grad(cost)(step)) > 0.1 * np.linalg.norm(after), "or the test could not tell"
    for derivative, expected in (("exact", after), ("first_order", jax.grad(cost)(step))):
        objective = maml(steps=1, step_size=alpha, derivative=derivative)
        _, found, info = jax.jit(lambda w, key, o=objective: o.gradient(oracle, (), w, w, key))(POINT, KEY)
        assert np.linalg.norm(found - expected) < 0.05 * np.linalg.norm(expected)
        assert float(info["loss"]) == pytest.approx(float(cost(step)), abs=0.02)


def test_moreau_works_on_a_policy_unchanged():
    oracle = policy_oracle(GRID, TABLE, jnp.array(GOAL), 20000, DISCOUNT, "others")
    gradients = {}
    for lambda_ in (0.5, 1e3):
        objective = moreau(lambda_=lambda_, iterations=30, inner_step_size=0.5 / (lambda_ + 0.5))
        gradients[lambda_] = jax.jit(lambda w, key, o=objective: o.gradient(oracle, (), w, w, key)[1])(POINT, KEY)
    plain = jax.jit(oracle.gradient)(POINT, KEY)[1]
    assert np.linalg.norm(gradients[1e3] - plain) < 0.03 * np.linalg.norm(plain), "as lambda grows: plain"

    def descend(_, nearby):
        return nearby - 0.5 * (jax.grad(cost)(nearby) + 0.5 * (nearby - POINT))

    nearby = jax.lax.fori_loop(0, 300, descend, POINT)  # the proximal point of the exact cost
    expected = 0.5 * (POINT - nearby)
    assert np.linalg.norm(gradients[0.5] - expected) < 0.05 * np.linalg.norm(expected)


@pytest.mark.parametrize(
    "policy", [softmax_policy(3, 4, hidden=(5,)), gaussian_policy(3, 2, hidden=(5,), deviation=0.3)]
)
def test_a_policy_samples_what_its_log_probabilities_say(policy):
    """The score has mean zero under the policy's own actions, and only there."""
    params = jax.tree.map(lambda leaf: leaf + 0.3, policy.init(KEY))
    seen = jnp.array([0.2, -1.0, 0.5])

    def score(key):
        return jax.grad(policy.log_prob)(params, seen, policy.sample(params, seen, key))

    for leaf in jax.tree.leaves(jax.jit(jax.vmap(score))(jax.random.split(KEY, 20000))):
        error = leaf.std(0) / np.sqrt(len(leaf))
        assert (np.abs(leaf.mean(0)) <= 4.5 * error + 1e-6).all()


def test_a_normal_policy_has_the_density_of_the_normal_distribution():
    policy = gaussian_policy(2, 2, deviation=0.5)
    found = policy.log_prob(policy.init(KEY), jnp.zeros(2), jnp.array([0.5, -1.0]))  # one and two deviations away
    assert float(found) == pytest.approx(-0.5 - 2.0 - 2 * np.log(0.5 * np.sqrt(2 * np.pi)), abs=1e-5)


WORLDS = {
    navigation: (environments.grid_navigation(), tabular_policy(25, 4)),
    point_navigation: (environments.point_navigation(), gaussian_policy(2, 2)),
}


@pytest.mark.parametrize("make", WORLDS)
def test_a_task_is_a_client_like_any_other(make):
    problem = make(episodes=150, unseen=0.3, seed=1)
    assert len(problem.clients.participating) == 2
    params, clients = problem.init(KEY), problem.clients
    oracle = problem.oracle(clients.train.shard(1), 7)
    value, gradient = jax.jit(oracle.gradient)(params, KEY)
    assert jax.tree.map(jnp.shape, gradient) == jax.tree.map(jnp.shape, params)
    environment, policy = WORLDS[make]
    goal = clients.train.rows["task"][clients.train.starts[1]]
    run = jax.jit(jax.vmap(lambda key: rollout(environment, policy, goal, params, key).rewards))
    earned = run(jax.random.split(KEY, 7)) @ 0.95 ** np.arange(environment.horizon)  # the batch size is D
    assert float(value) == pytest.approx(-float(earned.mean()), rel=1e-5)

    score = jax.jit(lambda w, shard: mean_scores(problem.metrics, w, shard)[0])
    scores = [float(score(params, clients.test.shard(client))) for client in range(3)]
    assert scores[0] == float(score(params, clients.test.shard(0)))
    assert (np.array(scores) < best_scores(environment, clients.test, 0.95)).all()
    assert len(np.unique(clients.test.rows["seed"])) == len(clients.test.rows["seed"])


@pytest.mark.parametrize(
    ("make", "needle"),
    [
        (lambda: navigation(goals=[[0, 0]]), "problem.goals has 1 goals, but problem.clients is 3"),
        (lambda: navigation(clients=1, goals=[[0, 5]]), r"problem.goals has \[0, 5\]"),
        (lambda: navigation(clients=5, size=2), "problem.clients is 5, but a grid of size 2 has 4 cells"),
        (lambda: navigation(clients=1, unseen=0.9), "problem.unseen is 0.9"),
        (lambda: policy_oracle(GRID, TABLE, jnp.array(GOAL), 0), "batch size is 0"),
        (lambda: policy_oracle(GRID, TABLE, jnp.array(GOAL), 1, 1.0, "others"), "has no others"),
        (lambda: policy_oracle(GRID, TABLE, jnp.array(GOAL), 2, 1.5), "problem.discount is 1.5"),
    ],
)
def test_what_cannot_work_is_refused(make, needle):
    with pytest.raises(UserMistake, match=needle):
        make()
