"""Rounding to levels, hard and soft (QuPeL, Sec. 2), against the definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect.quantization.quantizers import distance, hard, nearest, put, soft

# Numbers on a coarse grid, so that ties and equal levels are common.
GRID = st.integers(-12, 12).map(lambda k: k / 4)
WEIGHTS = st.lists(GRID, min_size=6, max_size=6).map(lambda v: np.array(v, np.float32))


def levels_of(count: int):
    return st.lists(GRID, min_size=count, max_size=count).map(lambda v: np.sort(np.array(v, np.float32)))


@pytest.mark.parametrize("count", [2, 3, 20])
def test_hard_rounds_to_a_nearest_level_exactly(count):
    @settings(max_examples=60, deadline=None)
    @given(WEIGHTS, levels_of(count))
    def check(x, levels):
        rounded = np.asarray(hard(jnp.asarray(x), jnp.asarray(levels)))
        assert set(rounded) <= set(levels)
        np.testing.assert_array_equal(np.abs(x - rounded), np.abs(x[:, None] - levels).min(1))
        ours = levels[np.asarray(nearest(jnp.asarray(x), jnp.asarray(levels)))]
        np.testing.assert_array_equal(ours, rounded)
        assert float(distance(jnp.asarray(x), jnp.asarray(levels))) == pytest.approx(0.5 * np.abs(x - rounded).sum())

    check()


def test_halfway_goes_down():
    assert hard(jnp.array([0.5, 1.5]), jnp.array([0.0, 1.0, 2.0])).tolist() == [0.0, 1.0]


def naive_soft(x, c, sharpness):
    """Sec. 2.2, written out."""
    sigma = lambda u: 1 / (1 + np.exp(-u))  # noqa: E731
    return sum((c[j] - c[j - 1]) * sigma(sharpness * (x - (c[j] + c[j - 1]) / 2)) for j in range(1, len(c))) + c[0]


@pytest.mark.parametrize("sharpness", [0.5, 4.0, 50.0])
def test_soft_is_the_sum_of_sigmoids(sharpness):
    x, c = np.linspace(-2, 2, 41), np.array([-1.0, -0.2, 0.7])
    np.testing.assert_allclose(soft(jnp.asarray(x), jnp.asarray(c), sharpness), naive_soft(x, c, sharpness), atol=1e-6)


def test_soft_tends_to_hard_as_it_sharpens():
    x, c = jnp.array([-2.0, -0.55, -0.3, 0.2, 0.4, 3.0]), jnp.array([-1.0, -0.2, 0.7])
    gaps = [float(jnp.abs(soft(x, c, p) - hard(x, c)).max()) for p in (5, 50, 500)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-5


def test_the_limit_has_no_gradient_in_weights_and_sums_in_levels():
    # Sec. 7.1, "Using P -> infinity".
    x, c, upstream = jnp.array([-0.9, 0.1, 0.2, 0.8]), jnp.array([-1.0, 0.0, 1.0]), jnp.array([1.0, 2.0, 3.0, 5.0])
    by_x, by_c = jax.grad(lambda x, c: (hard(x, c) * upstream).sum(), argnums=(0, 1))(x, c)
    assert by_x.tolist() == [0, 0, 0, 0]
    assert by_c.tolist() == [1.0, 5.0, 5.0]


@pytest.mark.parametrize("count", [4, 40])
def test_put_follows_levels_that_have_moved(count):
    levels = jnp.arange(count, dtype=jnp.float32)
    x = jnp.array([0.2, 2.9, 1.1])
    assert put(x, levels, levels * 10).tolist() == [0.0, 30.0, 10.0]
