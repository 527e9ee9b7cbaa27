"""What is wrong in print and right here, each pinned by a test that the printed version fails."""

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.objectives import maml
from idiolect.testing.small_clients import exact

KEY = jax.random.key(0)
A = jnp.array([[2.0, 0.5], [0.5, 1.0]])


def test_persafl_d1_divides_by_two_delta():
    """Central differences are exact on a quadratic, whatever delta; divided by delta they would be twice too large."""
    oracle = exact(lambda w: 0.5 * w @ A @ w)
    w = jnp.array([1.0, -2.0])
    objective = maml(steps=1, step_size=0.25, derivative="hessian_free", delta=0.5)
    _, found, _ = objective.gradient(oracle, (), w, w, KEY)
    shrink = np.eye(2) - 0.25 * np.asarray(A)
    np.testing.assert_allclose(found, shrink @ A @ shrink @ w, rtol=1e-5)


def test_parspush_line_11_applies_the_last_hessian_first():
    """On a cubic the Hessians along the path do not commute, so their order shows."""
    mix = jnp.array([[1.0, 2.0], [0.0, 1.0]])
    oracle = exact(lambda w: ((mix @ w) ** 3).sum() / 6 + 0.5 * w @ A @ w)
    w, alpha = jnp.array([0.7, -0.4]), 0.2

    def hessian(point):
        return np.asarray(jax.hessian(lambda v: oracle.value(v, KEY))(point))

    first = w - alpha * oracle.gradient(w, KEY)[1]
    second = first - alpha * oracle.gradient(first, KEY)[1]
    outer = np.asarray(oracle.gradient(second, KEY)[1])
    right = (np.eye(2) - alpha * hessian(w)) @ ((np.eye(2) - alpha * hessian(first)) @ outer)
    wrong = (np.eye(2) - alpha * hessian(first)) @ ((np.eye(2) - alpha * hessian(w)) @ outer)
    _, found, _ = maml(steps=2, step_size=alpha).gradient(oracle, (), w, w, KEY)
    np.testing.assert_allclose(found, right, rtol=1e-5)
    assert np.abs(right - wrong).max() > 1e-3
