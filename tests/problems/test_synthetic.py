"""Synthetic families: gradients, minimisers and smoothness constants against formulas written in NumPy.

A batch drawn from a shard of one row is that row, so the mean over rows of such oracles is f_i itself.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect.contracts import Problem, Shard
from idiolect.errors import UserMistake
from idiolect.problems.synthetic import linear_regression, logistic_regression, quadratics
from idiolect.problems.synthetic.quadratic_clients import (
    curvatures_and_centres,
    maml_curvature,
    minimiser,
    moreau_curvature,
)
from idiolect.problems.synthetic.regressions import least_squares

KEY = jax.random.key(0)
CLIENTS, DIMENSION = 4, 5
PROBLEMS = {
    "quadratics": lambda **more: quadratics(clients=CLIENTS, dimension=DIMENSION, samples=12, noise=0.3, **more),
    "linear_regression": lambda **more: linear_regression(clients=CLIENTS, dimension=DIMENSION, samples=40, **more),
    "logistic_regression": lambda **more: logistic_regression(clients=CLIENTS, dimension=DIMENSION, samples=40, **more),
}


def rows(problem: Problem, client: int) -> dict[str, np.ndarray]:
    shard = problem.clients.train.shard(client)
    part = slice(int(shard.start), int(shard.start) + int(shard.size))
    return {name: np.asarray(values[part], np.float64) for name, values in shard.rows.items()}


class Case(NamedTuple):
    """A problem, and the derivatives of f_i itself: a function of the client and the point."""

    problem: Problem
    gradient: Callable[[int, np.ndarray], np.ndarray]
    hessian: Callable[[int, np.ndarray], np.ndarray]


@functools.cache
def case(name: str, seed: int = 0, unseen: float = 0.0) -> Case:
    problem = PROBLEMS[name](seed=seed, unseen=unseen)
    train = problem.clients.train

    def of_row(row: jax.Array, point: jax.Array) -> tuple[jax.Array, jax.Array]:
        oracle = problem.oracle(Shard(train.rows, row, np.int32(1)), 1)
        hessian = jax.vmap(lambda v: oracle.hessian_product(point, v, KEY))(jnp.eye(DIMENSION))
        return oracle.gradient(point, KEY)[1], hessian

    @jax.jit
    def of_client(start: jax.Array, point: jax.Array) -> tuple[jax.Array, jax.Array]:
        gradients, hessians = jax.vmap(of_row, (0, None))(start + jnp.arange(train.sizes[0]), point)
        return gradients.mean(0), hessians.mean(0)

    def derivative(order: int) -> Callable[[int, np.ndarray], np.ndarray]:
        return lambda client, w: np.asarray(of_client(train.starts[client], np.float32(w))[order], np.float64)

    return Case(problem, derivative(0), derivative(1))


def a_point(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(DIMENSION)


def quadratic_gradient(data: dict[str, np.ndarray], w: np.ndarray) -> np.ndarray:
    return data["matrix"][0] @ (w - data["centre"].mean(0))


def linear_gradient(data: dict[str, np.ndarray], w: np.ndarray) -> np.ndarray:
    """PARS-Push (10): (b - a'z)^2 + ||z||^2 / (2n)."""
    return 2 * data["a"].T @ (data["a"] @ w - data["b"]) / len(data["b"]) + w / CLIENTS


def logistic_gradient(data: dict[str, np.ndarray], w: np.ndarray) -> np.ndarray:
    odds = 1 / (1 + np.exp(-data["a"] @ w))
    return data["a"].T @ (odds - data["b"]) / len(data["b"]) + 0.01 * w


GRADIENTS = {
    "quadratics": quadratic_gradient,
    "linear_regression": linear_gradient,
    "logistic_regression": logistic_gradient,
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_gradients_have_their_closed_form(name):
    problem, gradient, _ = case(name)
    for client in range(CLIENTS):
        w = a_point(client)
        expected = GRADIENTS[name](rows(problem, client), w)
        np.testing.assert_allclose(gradient(client, w), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("seed", range(3))
def test_the_smoothness_bounds_every_client_s_hessian(name, seed):
    """At the start, where a sigmoid is steepest, and at random points."""
    problem, _, hessian = case(name, seed)
    for client in problem.clients.participating:
        for point in (np.zeros(DIMENSION), a_point(client)):
            largest = np.linalg.eigvalsh(hessian(client, point))[-1]
            assert largest <= problem.smoothness * (1 + 1e-5)


@pytest.mark.parametrize("name", ["quadratics", "linear_regression"])
def test_the_smoothness_is_not_needlessly_large(name):
    problem, _, hessian = case(name)
    largest = max(np.linalg.eigvalsh(hessian(client, a_point(0)))[-1] for client in range(CLIENTS))
    assert largest > 0.8 * problem.smoothness


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_seed_decides_the_data(name):
    first, again, other = (PROBLEMS[name](seed=seed).clients.train.rows for seed in (1, 1, 2))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert not any(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(other), strict=True))


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_share_of_the_clients_may_be_unseen(name):
    clients = PROBLEMS[name](unseen=0.5).clients
    assert (len(clients.unseen), len(clients.participating)) == (2, 2)


def test_quadratics_have_curvatures_between_convexity_and_smoothness():
    problem = quadratics(clients=20, dimension=6, convexity=0.7, smoothness=1.9)
    matrices, _ = curvatures_and_centres(problem.clients)
    values = np.linalg.eigvalsh(matrices)
    assert values.min() >= 0.7 - 1e-5
    assert values.max() <= 1.9 + 1e-5
    assert values.max() - values.min() > 1  # and use the room they have
    assert problem.smoothness == 1.9


def test_without_heterogeneity_all_quadratics_have_one_centre_and_without_noise_one_gradient():
    problem = quadratics(clients=3, dimension=4, heterogeneity=0.0)
    _, centres = curvatures_and_centres(problem.clients)
    np.testing.assert_array_equal(centres, centres[:1].repeat(3, axis=0))
    oracle = quadratics(clients=3, dimension=4).oracle
    shard = quadratics(clients=3, dimension=4).clients.train.shard(1)
    first, second = (oracle(shard, 1).gradient(jnp.ones(4), jax.random.key(k))[1] for k in range(2))
    np.testing.assert_allclose(first, second, rtol=1e-6)


def true_coefficients(heterogeneity: float) -> np.ndarray:
    """Of a linear regression without noise, which its targets give away: clients x features."""
    problem = linear_regression(clients=60, dimension=4, samples=20, noise=0.0, heterogeneity=heterogeneity)
    return np.stack([np.linalg.lstsq(data["a"], data["b"])[0] for data in (rows(problem, i) for i in range(60))])


def test_the_coefficients_of_linear_regressions_differ_between_clients_by_the_heterogeneity():
    """PARS-Push, Sec. 5: beta_i is a common beta and a perturbation, here of variance heterogeneity^2 / dimension."""
    alike, near, far = (true_coefficients(heterogeneity) for heterogeneity in (0.0, 0.5, 2.0))
    np.testing.assert_allclose(alike, alike[:1].repeat(60, axis=0), atol=1e-5)
    np.testing.assert_allclose(far - alike, 4 * (near - alike), atol=1e-4)  # the seed draws the same perturbations
    np.testing.assert_allclose(np.std(near, axis=0), 0.5 / np.sqrt(4), rtol=0.4)  # of 60: within about 10 percent


def test_every_client_of_a_linear_regression_has_its_own_scale_of_every_feature():
    """exp(input_spread * normal): the logarithms of the scales have that spread between clients, and mean 0."""

    def log_scales(spread):
        problem = linear_regression(clients=60, dimension=4, samples=800, input_spread=spread)
        return np.log([np.sqrt((rows(problem, i)["a"] ** 2).mean(0)) for i in range(60)])

    assert np.abs(log_scales(0.0)).max() < 0.2  # but for the few samples
    found = log_scales(0.7)
    np.testing.assert_allclose(found.std(axis=0), 0.7, rtol=0.4)  # between clients, feature by feature
    assert found.std(axis=1).mean() > 0.35  # and between the features of a client
    np.testing.assert_allclose(found.mean(), 0.0, atol=0.2)


def test_quadratics_refuse_a_smoothness_below_the_convexity():
    with pytest.raises(UserMistake, match=r"problem\.smoothness is 0\.1, below problem\.convexity, which is 0\.5"):
        quadratics(smoothness=0.1)


def adapted(matrix: np.ndarray, centre: np.ndarray, w: np.ndarray, alpha: float, steps: int) -> np.ndarray:
    for _ in range(steps):
        w = w - alpha * matrix @ (w - centre)
    return w


def maml_cost(matrices: np.ndarray, centres: np.ndarray, w: np.ndarray, alpha: float, steps: int) -> float:
    total = 0.0
    for matrix, centre in zip(matrices, centres, strict=True):
        away = adapted(matrix, centre, w, alpha, steps) - centre
        total += 0.5 * away @ matrix @ away
    return total


def slope(cost, w: np.ndarray) -> np.ndarray:
    """Central differences, exact for quadratics up to rounding."""
    return np.array([(cost(w + 1e-3 * e) - cost(w - 1e-3 * e)) / 2e-3 for e in np.eye(len(w))])


@pytest.fixture(params=["quadratics", "linear_regression"])
def family(request) -> tuple[np.ndarray, np.ndarray]:
    """Each client's curvature and centre, of both families that are quadratic."""
    problem = case(request.param).problem
    if request.param == "quadratics":
        return curvatures_and_centres(problem.clients)
    return least_squares(problem.clients, CLIENTS)


@pytest.mark.parametrize(("alpha", "steps"), [(0.0, 0), (0.1, 1), (0.05, 3)])
def test_the_minimiser_is_stationary_for_the_plain_and_the_maml_cost(family, alpha, steps):
    matrices, centres = family
    best = minimiser(np.stack([maml_curvature(matrix, alpha, steps) for matrix in matrices]), centres)

    def cost(w: np.ndarray) -> float:
        return maml_cost(matrices, centres, w, alpha, steps)

    np.testing.assert_allclose(slope(cost, best), 0, atol=1e-8)
    assert np.linalg.norm(slope(cost, best + 0.1)) > 1e-2
    if steps == 0:
        np.testing.assert_allclose(best, minimiser(matrices, centres), rtol=1e-9)


def test_the_minimiser_is_stationary_for_the_moreau_envelopes(family):
    """The envelope's gradient is lambda (w - theta), theta solving the inner problem (PersA-FL (10))."""
    matrices, centres = family
    lambda_ = 30.0

    def gradient(w: np.ndarray) -> np.ndarray:
        eye = np.eye(len(w))
        thetas = [
            np.linalg.solve(matrix + lambda_ * eye, matrix @ centre + lambda_ * w)
            for matrix, centre in zip(matrices, centres, strict=True)
        ]
        return sum(lambda_ * (w - theta) for theta in thetas)

    best = minimiser(np.stack([moreau_curvature(matrix, lambda_) for matrix in matrices]), centres)
    np.testing.assert_allclose(gradient(best), 0, atol=1e-8)
    assert np.linalg.norm(gradient(best + 0.1)) > 1e-2


@pytest.mark.parametrize("name", ["quadratics", "linear_regression"])
def test_the_plain_minimiser_zeroes_the_sum_of_the_oracles_gradients(name):
    problem, gradient, _ = case(name)
    parts = curvatures_and_centres(problem.clients) if name == "quadratics" else least_squares(problem.clients, CLIENTS)
    total = sum(gradient(client, minimiser(*parts)) for client in range(CLIENTS))
    np.testing.assert_allclose(total, 0, atol=1e-4)


def test_minimisers_are_those_of_the_participating_clients():
    problem, gradient, _ = case("linear_regression", unseen=0.5)
    matrices, centres = least_squares(problem.clients, CLIENTS)
    assert len(matrices) == len(centres) == 2
    for centre, client in zip(centres, problem.clients.participating, strict=True):
        np.testing.assert_allclose(gradient(client, centre), 0, atol=1e-4)


def test_metrics_are_the_squared_error_and_the_share_of_right_signs():
    for name, expected in (
        ("linear_regression", lambda a, b, w: ((b - a @ w) ** 2).mean()),
        ("logistic_regression", lambda a, b, w: ((a @ w > 0) == (b == 1)).mean()),
    ):
        problem = case(name).problem
        data, w = rows(problem, 0), a_point(3)
        batch = {key: jnp.asarray(values, jnp.float32) for key, values in data.items()}
        np.testing.assert_allclose(
            problem.metric.score(jnp.asarray(w, jnp.float32), batch), expected(data["a"], data["b"], w), rtol=1e-5
        )
        assert problem.metric.higher_is_better == (name == "logistic_regression")
