"""Bit planes: what is packed comes back, in as few bytes as promised."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idiolect.export.packing import bits_for, pack, unpack


@given(st.integers(1, 8), st.integers(0, 40), st.integers(0, 1000))
def test_what_is_packed_comes_back(bits, count, seed):
    indices = np.random.default_rng(seed).integers(0, 2**bits, count)
    planes = pack(indices, bits)
    assert planes.dtype == np.uint8
    assert planes.shape == (bits, -(-count // 8))
    np.testing.assert_array_equal(unpack(planes, count), indices)


@given(st.integers(1, 70_000))
def test_bits_tell_all_levels_apart_and_one_bit_less_would_not(levels):
    bits = bits_for(levels)
    assert 2**bits >= levels
    assert bits == 1 or 2 ** (bits - 1) < levels


def test_a_plane_holds_one_bit_of_every_index_the_first_lowest():
    assert pack(np.array([1, 0, 2, 3, 0, 0, 0, 0, 2]), 2).tolist() == [[0b1001, 0], [0b1100, 1]]


@pytest.mark.parametrize("wrong", [[0, 4], [-1, 0]])
def test_an_index_that_takes_more_bits_is_refused(wrong):
    with pytest.raises(ValueError, match="2 bits hold 0 to 3"):
        pack(np.array(wrong), 2)
