"""The generator of the engines is JAX's own: the same numbers, to the bit."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect.engines.generator import WRITTEN_OUT


def pair(seed: int) -> tuple[jax.Array, jax.Array]:
    return jax.random.key(seed), jax.random.key(seed, impl=WRITTEN_OUT)


def same_keys(one: jax.Array, other: jax.Array) -> bool:
    return np.array_equal(jax.random.key_data(one), jax.random.key_data(other))


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), st.integers(1, 7))
def test_seeds_folds_and_splits_are_those_of_jax(seed, number, count):
    jaxs, ours = pair(seed)
    assert same_keys(jaxs, ours)
    assert same_keys(jax.random.fold_in(jaxs, number), jax.random.fold_in(ours, number))
    assert same_keys(jax.random.split(jaxs, count), jax.random.split(ours, count))
    assert same_keys(jax.random.split(jaxs, (2, count)), jax.random.split(ours, (2, count)))


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 4), (0,)])
@pytest.mark.parametrize("width", ["uint8", "uint16", "uint32"])
def test_bits_of_every_width_and_shape_are_those_of_jax(shape, width):
    jaxs, ours = pair(11)
    expected, drawn = jax.random.bits(jaxs, shape, width), jax.random.bits(ours, shape, width)
    assert drawn.dtype == expected.dtype
    np.testing.assert_array_equal(drawn, expected)


def test_64_bits_are_those_of_jax():
    with jax.enable_x64(True):
        jaxs, ours = pair(2**40 + 17)
        assert same_keys(jaxs, ours)
        np.testing.assert_array_equal(jax.random.bits(ours, (6,), "uint64"), jax.random.bits(jaxs, (6,), "uint64"))


def test_distributions_and_vectorized_keys_follow():
    jaxs, ours = pair(3)
    for draw in (jax.random.normal, jax.random.uniform):
        np.testing.assert_array_equal(draw(ours, (4, 3)), draw(jaxs, (4, 3)))
    np.testing.assert_array_equal(jax.random.bernoulli(ours, 0.3, (50,)), jax.random.bernoulli(jaxs, 0.3, (50,)))
    np.testing.assert_array_equal(jax.random.permutation(ours, 9), jax.random.permutation(jaxs, 9))
    drawn = [jax.vmap(lambda key: jax.random.normal(key, (2,)))(jax.random.split(key, 5)) for key in (jaxs, ours)]
    np.testing.assert_array_equal(*drawn)
