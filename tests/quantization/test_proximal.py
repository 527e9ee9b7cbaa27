"""The proximal maps of QuPeL, Sec. 7.1, against brute-force minimisation."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect.quantization.proximal_maps import clip_levels, draw_levels, draw_weights

GRID = st.integers(-8, 8).map(lambda k: k / 4)
LEVELS = st.lists(GRID, min_size=3, max_size=3).map(lambda v: np.sort(np.array(v)))
WEIGHTS = st.lists(GRID, min_size=5, max_size=5).map(np.array)
STRENGTH = st.sampled_from([0.0, 0.1, 0.25, 0.5, 3.0])


def distance(x, c):
    return 0.5 * np.abs(x[..., None] - c).min(-1)  # R of one weight, Sec. 2: half the distance to the nearest level


@settings(max_examples=150, deadline=None)
@given(WEIGHTS, LEVELS, STRENGTH, st.sampled_from([0.5, 1.0]))
def test_drawn_weights_minimise_the_proximal_problem(y, c, strength, eta):
    ours = np.asarray(draw_weights(jnp.asarray(y), jnp.asarray(c), strength * eta / 2), np.float64)

    def cost(x):
        return (x - y) ** 2 / (2 * eta) + strength * distance(x, c)

    # The minimiser lies between y and its level; the grid is fine, and holds levels and thresholds.
    grid = np.linspace(-3, 3, 2401)[:, None]
    assert (cost(ours) <= cost(np.broadcast_to(grid, (2401, 5))).min(0) + 1e-6).all()


@settings(max_examples=80, deadline=None)
@given(WEIGHTS, LEVELS, STRENGTH)
def test_drawn_levels_minimise_the_linearised_problem(x, c, strength):
    eta, moved = 0.1, c + np.array([0.05, -0.1, 0.2])
    ours = np.asarray(draw_levels(jnp.asarray(x), jnp.asarray(c), jnp.asarray(moved), strength * eta / 2), np.float64)
    mine = np.abs(x[:, None] - c).argmin(1)  # ties go to the lower level, as in the code

    def cost(level, j):
        slope = sum(np.sign(c[j] - x[i]) for i in range(5) if mine[i] == j)  # of |c_j - x_i| at the old levels
        return (level - moved[j]) ** 2 / (2 * eta) + 0.5 * strength * slope * (level - c[j])

    # Equal levels share their weights; whichever of them takes them, the others stay where they were moved.
    grid = np.linspace(-6, 6, 9601)
    if len(set(c)) == 3:
        for j in range(3):
            assert cost(ours[j], j) <= cost(grid, j).min() + 1e-5


def test_a_level_is_drawn_towards_the_median_of_its_weights():
    # Printed with a minus sign, which would push it away (errata).
    x, c = jnp.array([0.6, 0.7, 0.8, 1.2]), jnp.array([-1.0, 1.0])
    moved = draw_levels(x, c, c, 0.01)
    assert moved.tolist() == pytest.approx([-1.0, 1.0 - 0.01 * 2])  # three below, one above
    for _ in range(500):
        moved = draw_levels(x, moved, moved, 0.001)
    assert 0.7 - 0.005 <= float(moved[1]) <= 0.8 + 0.005


def test_with_a_level_for_every_weight_nothing_moves():
    x = jnp.array([-0.7, 0.1, 0.4, 2.0])
    np.testing.assert_array_equal(draw_weights(x, x, 0.3), x)
    np.testing.assert_array_equal(draw_levels(x, x, x, 0.3), x)


def test_no_pull_no_change_and_a_strong_pull_rounds():
    y, c = jnp.array([-0.7, 0.1, 0.4, 2.0]), jnp.array([-1.0, 0.5])
    np.testing.assert_array_equal(draw_weights(y, c, 0.0), y)
    np.testing.assert_array_equal(draw_weights(y, c, 9.0), jnp.array([-1.0, 0.5, 0.5, 0.5]))


@settings(max_examples=80, deadline=None)
@given(WEIGHTS, LEVELS, STRENGTH)
def test_a_clipped_step_goes_towards_the_median_as_far_as_the_paper_s_and_not_beyond(x, c, strength):
    if len(set(c)) < 3:
        return
    moved = c + np.array([0.05, -0.1, 0.2])
    drawn = np.asarray(draw_levels(jnp.asarray(x), jnp.asarray(c), jnp.asarray(moved), strength / 2), np.float64)
    ours = np.asarray(clip_levels(jnp.asarray(x), jnp.asarray(c), jnp.asarray(drawn), jnp.asarray(moved)), np.float64)
    mine = np.abs(x[:, None] - c).argmin(1)
    for j in range(3):
        held = np.sort(x[mine == j])
        if len(held) == 0:
            assert ours[j] == pytest.approx(drawn[j])
            continue
        low, high = held[(len(held) - 1) // 2], held[len(held) // 2]
        apart = np.clip(moved[j], low, high) - moved[j]  # to the nearest median
        step = drawn[j] - moved[j]
        expected = moved[j] + (np.sign(step) * min(abs(step), abs(apart)) if step * apart > 0 else 0.0)
        assert ours[j] == pytest.approx(expected, abs=1e-6)


def test_levels_that_chatter_across_their_medians_come_to_rest_if_they_end_there():
    """By how much of the gap between levels a step moves them, once their weights have gathered around them."""
    rng = np.random.default_rng(0)
    x, pull = jnp.asarray(np.concatenate([rng.normal(-1, 0.01, 500), rng.normal(1, 0.01, 500)]), jnp.float32), 8e-4

    def chatter(clipped):
        c, moves = jnp.array([-0.9, 1.1]), []
        for _ in range(60):
            drawn = draw_levels(x, c, c, pull)
            after = clip_levels(x, c, drawn, c) if clipped else drawn
            moves.append(float(jnp.abs(after - c).max() / (c[1] - c[0])))
            c = after
        return np.mean(moves[30:])

    assert 0.15 < chatter(clipped=False) < 0.25
    assert chatter(clipped=True) < 0.004
