"""Exact optima of stochastic MAML against all batches one by one, and against the library's own gradients."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect.errors import UserMistake
from idiolect.objectives import maml
from idiolect.problems.synthetic import linear_regression
from idiolect.problems.synthetic.exact_minimisers import (
    LeastSquares,
    Quadratic,
    maml_quadratic,
    minimiser,
    plain_quadratic,
    training_data,
)
from idiolect.problems.synthetic.quadratic_clients import maml_curvature
from idiolect.problems.synthetic.quadratic_clients import minimiser as minimiser_of_centres
from idiolect.problems.synthetic.regressions import least_squares


def some_client(seed: int = 0, samples: int = 3, dimension: int = 2, ridge: float = 0.3) -> LeastSquares:
    rng = np.random.default_rng(seed)
    return LeastSquares(rng.standard_normal((samples, dimension)), rng.standard_normal(samples), ridge)


def cost_over_all_batches(client: LeastSquares, step_size: float, steps: int, batch_size: int):
    """F of (4), with nothing but the loss, autodiff and a mean over every sequence of batches."""
    everything = np.arange(len(client.targets))
    batches = np.array(list(itertools.product(everything, repeat=batch_size)))
    paths = np.array(list(itertools.product(range(len(batches)), repeat=steps)), dtype=int)
    a, b = jnp.asarray(client.inputs), jnp.asarray(client.targets)

    def loss(z: jax.Array, rows: jax.Array) -> jax.Array:
        return ((b[rows] - a[rows] @ z) ** 2).mean() + client.ridge / 2 * z @ z

    def adapted(z: jax.Array, path: jax.Array) -> jax.Array:
        for step in range(steps):
            z = z - step_size * jax.grad(loss)(z, jnp.asarray(batches)[path[step]])
        return loss(z, everything)

    return lambda z: jax.vmap(adapted, in_axes=(None, 0))(z, jnp.asarray(paths)).mean()


@pytest.mark.parametrize(
    ("steps", "samples", "batch_size"), [(0, 3, 2), (1, 3, 1), (1, 2, 3), (2, 3, 1), (2, 3, 2), (2, 2, 3)]
)
def test_the_cost_is_the_mean_over_all_sequences_of_batches(steps, samples, batch_size):
    client = some_client(samples=samples)
    found = maml_quadratic(client, step_size=0.2, steps=steps, batch_size=batch_size)
    with jax.enable_x64(True):
        cost = cost_over_all_batches(client, 0.2, steps, batch_size)
        points = jnp.asarray([[0, 0], [1, 0], [0, 1], minimiser([found])])
        slope, *columns, at_optimum = np.asarray(jax.jit(jax.vmap(jax.grad(cost)))(points))
    np.testing.assert_allclose(found.curvature, np.stack(columns) - slope, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.pull, -slope, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(at_optimum, 0, atol=1e-10)


@pytest.mark.parametrize("batches", ["shared", "independent"])
@pytest.mark.parametrize("steps", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_the_mean_gradient_of_the_objective_vanishes_at_the_minimiser(batches, steps):
    """Monte Carlo, with the library's own oracle and objective; the other kind of batches would show."""
    problem = linear_regression(clients=1, dimension=3, samples=15, noise=1.0)
    clients, options = training_data(problem.clients, 1.0), {"step_size": 0.1, "steps": steps}
    oracle = problem.oracle(problem.clients.train.shard(0), 2)
    objective = maml(**options, batches=batches)
    optima = {
        kind: minimiser([maml_quadratic(clients[0], **options, batch_size=2, batches=kind)])
        for kind in ("shared", "independent")
    }
    keys = jax.random.split(jax.random.key(0), 40_000)
    draw = jax.jit(lambda z: jax.vmap(lambda key: objective.gradient(oracle, (), z, z, key)[1])(keys))

    def scores(z: np.ndarray) -> np.ndarray:
        """How many standard errors the mean gradient at z is from zero."""
        drawn = np.asarray(draw(jnp.asarray(z, jnp.float32)), np.float64)
        return np.abs(drawn.mean(0)) / (drawn.std(0) / np.sqrt(len(drawn)))

    other = optima.pop("independent" if batches == "shared" else "shared")
    assert scores(optima[batches]).max() < 4
    assert scores(other).max() > 6


def test_zero_steps_and_a_step_of_zero_are_the_plain_cost():
    client = some_client(samples=7, dimension=3)
    plain = plain_quadratic(client)
    for options in ({"steps": 0, "step_size": 0.2}, {"steps": 3, "step_size": 0.0}):
        for batches in ("shared", "independent"):
            found = maml_quadratic(client, **options, batch_size=2, batches=batches)
            np.testing.assert_allclose(found.curvature, plain.curvature, rtol=1e-13)
            np.testing.assert_allclose(found.pull, plain.pull, rtol=1e-13)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_independent_batches_have_the_curvature_of_full_gradients_and_large_ones_tend_to_it(steps):
    client = some_client(samples=9, dimension=3)
    plain, options = plain_quadratic(client), {"step_size": 0.15, "steps": steps}
    full = maml_curvature(plain.curvature, **options)
    found = maml_quadratic(client, **options, batch_size=1, batches="independent")
    np.testing.assert_allclose(found.curvature, full, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(found.pull, full @ minimiser([plain]), rtol=1e-10, atol=1e-14)
    errors = [
        np.abs(maml_quadratic(client, **options, batch_size=size).curvature - full).max() for size in (10, 1000, 10**5)
    ]
    assert errors[1] == pytest.approx(errors[0] / 100, rel=0.3)
    assert errors[2] == pytest.approx(errors[1] / 100, rel=0.01)


def test_the_noise_of_small_batches_adds_curvature():
    client = some_client(samples=9, dimension=3)
    costs = [maml_quadratic(client, step_size=0.1, steps=3, batch_size=size).curvature for size in (1, 4, 16)]
    assert all(np.linalg.eigvalsh(small - large)[0] > 0 for small, large in itertools.pairwise(costs))


def test_the_minimiser_of_the_average_agrees_with_the_closed_forms_for_linear_regression():
    problem = linear_regression(clients=4, dimension=3, samples=12, unseen=0.25)
    clients = training_data(problem.clients, 1 / 4)
    matrices, centres = least_squares(problem.clients, 4)
    assert len(clients) == len(matrices) == 3
    plain = minimiser([plain_quadratic(client) for client in clients])
    np.testing.assert_allclose(plain, minimiser_of_centres(matrices, centres), rtol=1e-10)
    options = {"step_size": 0.05, "steps": 2}
    found = minimiser([maml_quadratic(client, **options, batch_size=5, batches="independent") for client in clients])
    curvatures = np.stack([maml_curvature(matrix, **options) for matrix in matrices])
    np.testing.assert_allclose(found, minimiser_of_centres(curvatures, centres), rtol=1e-10)


def test_single_precision_samples_are_computed_with_in_double():
    client = some_client()
    single = LeastSquares(client.inputs.astype(np.float32), client.targets.astype(np.float32), 0.3)
    double = LeastSquares(single.inputs.astype(np.float64), single.targets.astype(np.float64), 0.3)
    results = [maml_quadratic(each, step_size=0.2, steps=2, batch_size=2) for each in (single, double)]
    assert results[0].curvature.dtype == np.float64
    np.testing.assert_array_equal(results[0].curvature, results[1].curvature)
    np.testing.assert_array_equal(results[0].pull, results[1].pull)


def made(client: LeastSquares = some_client(), **changes: object) -> Quadratic:
    options = {"step_size": 0.1, "steps": 1, "batch_size": 2} | changes
    return maml_quadratic(client, **options)


WRONG = {
    "step_size is -0.1,": lambda: made(step_size=-0.1),
    "steps is -1,": lambda: made(steps=-1),
    "batch_size is 0,": lambda: made(batch_size=0),
    "batches is 'both',": lambda: made(batches="both"),
    "inputs has the shape (3,),": lambda: plain_quadratic(LeastSquares(np.zeros(3), np.zeros(3), 1.0)),
    "inputs has the shape (0, 2),": lambda: plain_quadratic(LeastSquares(np.zeros((0, 2)), np.zeros(0), 1.0)),
    "targets has the shape (2,), but the inputs want (3,)": lambda: made(
        LeastSquares(np.zeros((3, 2)), np.zeros(2), 1.0)
    ),
    "ridge is -1,": lambda: made(LeastSquares(np.zeros((3, 2)), np.zeros(3), -1)),
    "costs is empty,": lambda: minimiser([]),
    "costs have a smallest curvature of": lambda: minimiser([plain_quadratic(some_client(samples=1, ridge=0.0))]),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_wrong_input_is_named(sentence):
    with pytest.raises(UserMistake) as mistake:
        WRONG[sentence]()
    assert str(mistake.value).startswith(sentence)
