"""The Cauchy loss of `robust_location`: derivatives by finite differences, and constants that are reached."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect.contracts import Problem, Shard
from idiolect.problems.synthetic import robust_location
from idiolect.problems.synthetic.locations import training_places

SMOOTHNESS, WIDTH = 0.7, 1.6
KEY = jax.random.key(0)


def made(**options: float) -> Problem:
    return robust_location(clients=3, samples=10, smoothness=SMOOTHNESS, width=WIDTH, **options)


def cost(places: np.ndarray, w: np.ndarray) -> float:
    return float((SMOOTHNESS / 2 * WIDTH**2 * np.log1p(((w - places) ** 2).sum(-1) / WIDTH**2)).mean())


def slopes(function, w: np.ndarray, width: float) -> np.ndarray:
    return np.array([(function(w + width * e) - function(w - width * e)) / (2 * width) for e in np.eye(len(w))])


def along(places: np.ndarray, w: np.ndarray, v: np.ndarray) -> list[float]:
    """The first three derivatives of the cost at w along v, by central differences."""

    def at(step: float) -> float:
        return cost(places, w + step * v)

    h = 1e-2
    first = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
    second = (16 * (at(h) + at(-h)) - (at(2 * h) + at(-2 * h)) - 30 * at(0)) / (12 * h**2)
    third = (13 * (at(-h) - at(h)) + 8 * (at(2 * h) - at(-2 * h)) - (at(3 * h) - at(-3 * h))) / (8 * h**3)
    return [first, second, third]


def test_the_oracle_s_derivatives_match_finite_differences():
    problem = made(outliers=0.3)
    train, places = problem.clients.train, training_places(problem.clients)[1]

    @jax.jit
    def of_rows(w: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        def of_row(row: jax.Array) -> tuple[jax.Array, jax.Array]:
            oracle = problem.oracle(Shard(train.rows, row, np.int32(1)), 1)
            return oracle.gradient(w, KEY)[1], oracle.hessian_product(w, v, KEY)

        rows = train.starts[1] + jnp.arange(train.sizes[1])
        gradients, products = jax.vmap(of_row)(rows)
        return gradients.mean(0), products.mean(0)

    w, v = np.array([0.4, -1.1]), np.array([0.6, 0.8])
    gradient, product = of_rows(jnp.asarray(w, jnp.float32), jnp.asarray(v, jnp.float32))
    np.testing.assert_allclose(gradient, slopes(lambda w: cost(places, w), w, 1e-5), atol=1e-6)

    def slope_along(w: np.ndarray) -> float:
        return float(slopes(lambda w: cost(places, w), w, 1e-4) @ v)

    np.testing.assert_allclose(product, slopes(slope_along, w, 1e-4), atol=1e-5)


def test_the_constants_are_reached_and_not_passed():
    constants = made().constants
    at_origin = np.zeros((1, 3))
    rng = np.random.default_rng(0)
    found = np.zeros(3)
    for _ in range(3000):
        w, v = rng.standard_normal((2, 3))
        w *= rng.uniform(0, 3) * WIDTH / np.linalg.norm(w)
        found = np.maximum(found, np.abs(along(at_origin, w, v / np.linalg.norm(v))))
    bounds = np.array([constants.gradient_bound, constants.smoothness, constants.hessian_lipschitz])
    assert (found <= bounds * (1 + 1e-4)).all()
    toward = np.array([1.0, 0, 0])
    assert along(at_origin, WIDTH * toward, toward)[0] == pytest.approx(constants.gradient_bound, rel=1e-4)
    assert along(at_origin, 0 * toward, toward)[1] == pytest.approx(constants.smoothness, rel=1e-4)
    steepest = along(at_origin, (math.sqrt(2) - 1) * WIDTH * toward, toward)[2]
    assert -steepest == pytest.approx(constants.hessian_lipschitz, rel=1e-3)


def test_the_loss_is_not_convex():
    toward = np.array([1.0, 0, 0])
    assert along(np.zeros((1, 3)), math.sqrt(3) * WIDTH * toward, toward)[1] == pytest.approx(-SMOOTHNESS / 8, rel=1e-3)


def test_equal_samples_have_no_noise_and_one_client_no_diversity():
    exact = made(noise=0.0).variation
    assert (exact.gradient_noise, exact.hessian_noise) == (0, 0)
    assert exact.gradient_diversity > 0
    alone = robust_location(clients=1).variation
    assert (alone.gradient_diversity, alone.hessian_diversity) == (0, 0)
    assert alone.gradient_noise > 0


def test_outliers_are_moved_along_the_first_axis():
    still, moved = (robust_location(clients=2, samples=10, outliers=share, distance=50.0) for share in (0.0, 0.3))
    far = np.asarray(moved.clients.train.rows["place"]) - np.asarray(still.clients.train.rows["place"])
    assert sorted(np.unique(far.round(3))) == [0, 50]
    assert (far[:, 0] > 1).sum() == 6  # three of ten, of two clients
    assert (far[:, 1] == 0).all()
