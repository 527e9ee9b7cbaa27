"""QuPeL, Theorem 1: with its step sizes the objective (8) falls, on a problem whose constants are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect.contracts.constants import Constants
from idiolect.errors import UserMistake
from idiolect.objectives import quantized
from idiolect.quantization.quantizers import soft
from idiolect.testing.small_clients import exact
from idiolect.theory import levels_step_size, shared_step_size, staircase, weights_step_size

SHARPNESS, LEVELS, D = 2.0, np.array([-1.0, 0.2, 1.0], np.float32), 5


def a_logistic_client():
    rng = np.random.default_rng(3)
    inputs = rng.standard_normal((40, D)).astype(np.float32)
    signs = np.sign(inputs @ rng.standard_normal(D) + 0.3 * rng.standard_normal(40)).astype(np.float32)

    def loss(x):
        return jax.nn.softplus(-jnp.asarray(signs) * (jnp.asarray(inputs) @ x)).mean()

    lengths = np.linalg.norm(inputs, axis=1)
    # |f'| <= mean |a|, and the Hessian is at most mean a a' / 4.
    smooth = float(np.linalg.eigvalsh(inputs.T @ inputs / 40).max()) / 4
    return exact(loss), Constants(0.0, smooth, float(lengths.mean()))


@pytest.mark.parametrize(("strength", "chatter"), [(0.0, 0.0), (0.05, 0.0), (0.5, 3e-4)])
def test_the_objective_falls_with_the_steps_of_theorem_1(strength, chatter):
    oracle, constants = a_logistic_client()
    stairs = staircase(SHARPNESS, widest_gap=4.0, span=6.0, levels=3, weights=D)
    eta1, eta2 = weights_step_size(constants, stairs), levels_step_size(constants, stairs)
    objective = quantized(
        levels=3,
        keep=[],
        centers=LEVELS.tolist(),
        sharpness=SHARPNESS,
        lambda_=strength,
        step_size=eta1,
        centers_step_size=eta2,
    )
    params, key = jnp.array([1.5, -1.2, 0.7, -0.1, 0.4]), jax.random.key(0)
    own = objective.begin(params, 0, jax.random.key(0))

    @jax.jit
    def step(own, _):
        moved = objective.gradient(oracle, own, params, params, key)[0]
        (levels,) = moved.levels.values()
        return moved, (objective.value(oracle, own, params, params, key), levels)

    own, (values, levels) = jax.lax.scan(step, own, None, length=4000)
    levels = np.asarray(levels)
    assert np.ptp(levels, axis=1).max() < 6.0  # the region for which the constants were asked
    assert np.diff(levels).max() < 4.0
    values = np.asarray(values, np.float64)
    # Theorem 1 takes the proximal map of the levels to be exact. The first-order one of Sec. 7.1 steps across weights
    # once levels have reached them, and a strong lambda shows it.
    assert np.diff(values).max() < chatter + 2e-7  # float32
    assert values[-1] < values[0] - 0.02


def test_the_staircase_s_constants_hold_wherever_one_looks():
    rng = np.random.default_rng(0)
    stairs = staircase(SHARPNESS, widest_gap=1.2, span=2.0, levels=3, weights=D)

    def rounded(x, c):
        return soft(x, c, SHARPNESS)

    in_x, in_c = jax.jit(jax.jacobian(rounded, 0)), jax.jit(jax.jacobian(rounded, 1))
    for _ in range(200):
        x, near = rng.uniform(-2, 2, D), rng.normal(0, 0.05, D)
        c, close = np.sort(rng.uniform(-0.55, 0.55, 3)), rng.normal(0, 0.005, 3)
        gx, gc = np.asarray(in_x(x, c)), np.asarray(in_c(x, c))
        assert np.linalg.norm(gx) <= stairs.bound1
        assert np.linalg.norm(gx, 2) <= stairs.l1
        assert np.linalg.norm(gc) <= stairs.bound2
        assert np.linalg.norm(np.asarray(in_x(x + near, c)) - gx) <= stairs.smooth1 * np.linalg.norm(near) + 1e-5
        assert np.linalg.norm(np.asarray(in_c(x, c + close)) - gc) <= stairs.smooth2 * np.linalg.norm(close) + 1e-5


def test_step_sizes_are_those_of_the_corrected_theorems():
    stairs = staircase(2.0, 1.0, 3.0, 4, 100)
    known = Constants(0.0, 2.0, 5.0)
    assert stairs.l1 == 1.5
    assert stairs.bound1 == 15.0
    inverse = 2 * (2 * 0.5 + 2 + 5 * stairs.smooth1 + 15 * 2 * 1.5)
    assert weights_step_size(known, stairs, lambda_p=0.5) == pytest.approx(1 / inverse)
    assert levels_step_size(known, stairs) == pytest.approx(
        1 / (2 * (5 * stairs.smooth2 + stairs.bound2 * 2 * stairs.l2))
    )
    assert shared_step_size(0.025, 400) == pytest.approx(0.5)
    with pytest.raises(UserMistake, match="lambda_p"):
        shared_step_size(0.0, 10)
