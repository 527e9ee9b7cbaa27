"""gamma_G and gamma_H against closed forms."""

import jax
import numpy as np
import pytest

from idiolect.inspection.diversity import HESSIANS, diversity, spectral_norm
from idiolect.inspection.problem_inspection import bounds
from idiolect.problems.synthetic.quadratic_clients import curvatures_and_centres, quadratics
from idiolect.problems.synthetic.regressions import least_squares, linear_regression


def closed_form(matrices: np.ndarray, centres: np.ndarray) -> tuple[float, float]:
    """gamma_G and gamma_H of the quadratics at zero, where their gradients are -A_i m_i."""
    gradients = -np.einsum("nij,nj->ni", matrices, centres)
    apart = np.linalg.norm(gradients - gradients.mean(0), axis=1)
    norms = [np.linalg.norm(matrix, 2) for matrix in matrices - matrices.mean(0)]
    return np.sqrt(np.mean(apart**2)), np.sqrt(np.mean(np.square(norms)))


def test_quadratics_are_exact_and_within_the_bounds():
    problem = quadratics(clients=5, dimension=6, samples=9, noise=0.3, seed=2)
    found = diversity(problem, range(5), batch_size=2, seed=0)
    gradient, hessian = closed_form(*curvatures_and_centres(problem.clients))
    assert found.gradient == pytest.approx(gradient, rel=1e-5)
    assert found.hessian == pytest.approx(hessian, rel=1e-4)
    assert found.by_row
    assert found.gradient_draws == found.hessian_draws == problem.clients.train.sizes[0]
    matrices, centres = curvatures_and_centres(problem.clients)
    assert found.mean_gradient == pytest.approx(np.linalg.norm((matrices @ centres[:, :, None]).mean(0)), rel=1e-5)
    assert found.mean_hessian == pytest.approx(np.linalg.norm(matrices.mean(0), 2), rel=1e-4)
    trivial, by_samples = bounds(problem)
    assert (trivial.of, trivial.value) == ("gamma_H", 4.0)
    assert (by_samples.of, by_samples.value) == ("gamma_H", pytest.approx(4.0 * 4 / 5))
    assert found.hessian < by_samples.value


def test_regression_is_exact_over_rows_that_fill_no_whole_steps():
    problem = linear_regression(clients=3, dimension=4, samples=61, heterogeneity=1.0, input_spread=0.5, seed=1)
    found = diversity(problem, range(3), batch_size=7, seed=0)
    gradient, hessian = closed_form(*least_squares(problem.clients, 3))
    assert found.gradient == pytest.approx(gradient, rel=1e-4)
    assert found.hessian == pytest.approx(hessian, rel=1e-3)


def test_clients_that_are_alike_have_none_and_a_lone_one_has_none():
    problem = quadratics(clients=3, dimension=3, samples=5, convexity=1.0, smoothness=1.0, heterogeneity=0.0)
    found = diversity(problem, range(3), batch_size=2, seed=0)
    assert found.gradient == pytest.approx(0, abs=1e-6)
    assert found.hessian == pytest.approx(0, abs=1e-6)
    alone = diversity(problem, [0], batch_size=2, seed=0)
    assert (alone.gradient, alone.hessian) == (0, 0)


def test_the_noise_of_batches_is_not_taken_for_diversity():
    exact = quadratics(clients=HESSIANS, dimension=4, samples=200, heterogeneity=0.5, noise=4.0, seed=0)
    # A model that must be calibrated has no loss by rows, so that batches must do.
    batched = exact._replace(calibrate=lambda params, shard: jax.tree.map(lambda leaf: leaf + 0, params))
    wanted = diversity(exact, range(HESSIANS), batch_size=8, seed=0)
    found = diversity(batched, range(HESSIANS), batch_size=8, seed=0)
    assert not found.by_row
    # A batch gradient's noise is of size 4 ||A_i||, about 8 here; 64 batches of 8 leave 0.7 of it in every client.
    assert found.gradient == pytest.approx(wanted.gradient, rel=0.15)
    assert found.hessian == pytest.approx(wanted.hessian, rel=1e-3)  # curvature has no noise


@pytest.mark.parametrize("size", [1, 2, 20, 300])
def test_the_spectral_norm_finds_the_largest_eigenvalue_of_either_sign(size):
    rng = np.random.default_rng(size)
    matrix = rng.standard_normal((size, size))
    for symmetric in (matrix @ matrix.T, -matrix @ matrix.T, np.zeros((size, size))):
        found = spectral_norm(lambda vector, m=symmetric: m @ vector, size)
        assert found == pytest.approx(np.linalg.norm(symmetric, 2), rel=1e-3, abs=1e-12)
