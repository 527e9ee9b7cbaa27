"""Packed layers: nothing is wasted, what goes in comes out, and products are those of the floats."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect.device import packing
from idiolect.device.packing import PackedLayer, group, has_unused_bits, largest_index, pack
from idiolect.device.programs import Layer


def layer_of(rows, columns, levels, seed=0):
    """A packed layer, and its indices."""
    rng = np.random.default_rng(seed)
    layer = Layer((rows, columns), levels)
    indices = rng.integers(0, levels, (rows, columns))
    return PackedLayer(layer, rng.normal(size=levels).astype(np.float32), pack(indices, layer.bits)), indices


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 256), st.integers(0, 99))
@settings(max_examples=80, deadline=None)
def test_what_is_packed_comes_back(rows, columns, levels, seed):
    packed, indices = layer_of(rows, columns, levels, seed)
    assert len(packed.codes) == packed.layer.codes == packed.layer.bits * -(-rows * columns // 8)
    np.testing.assert_array_equal(packed.weights(), packed.numbers[indices])
    assert largest_index(packed.codes, packed.layer) == indices.max()
    assert not has_unused_bits(packed.codes, packed.layer)


@pytest.mark.parametrize("levels", [2, 3, 4, 8, 16, 20, 60, 100, 256])
def test_the_stream_is_where_it_says(levels):
    """By hand, bit by bit: groups of inputs, in each the outputs, in each its inputs; what is left likewise."""
    packed, indices = layer_of(13, 5, levels)
    bits, together = packed.layer.bits, group(packed.layer.bits)
    stream = np.unpackbits(packed.codes, bitorder="little")
    place = 0
    for first in range(0, 13, together):
        for column in range(5):
            for row in range(first, min(first + together, 13)):
                index = sum(int(stream[place + k]) << k for k in range(bits))
                assert index == indices[row, column]
                place += bits
    assert not stream[place:].any()


@pytest.mark.parametrize("samples", [1, 30])
@pytest.mark.parametrize("levels", [2, 3, 4, 7, 16, 40, 256])
def test_products_are_those_of_the_floats(levels, samples, monkeypatch):
    monkeypatch.setattr(packing, "_BLOCK", 4096)  # several blocks, even here
    packed, indices = layer_of(61, 300, levels)
    x = np.random.default_rng(1).normal(size=(samples, 61)).astype(np.float32)
    expected = x.astype(np.float64) @ packed.numbers[indices].astype(np.float64)
    np.testing.assert_allclose(packed.product(x), expected, rtol=1e-4, atol=1e-4)


def test_a_product_never_holds_the_weights(monkeypatch):
    packed, _ = layer_of(512, 512, 4)
    sizes = []
    blocks = PackedLayer.blocks
    monkeypatch.setattr(packing, "_BLOCK", 1 << 14)
    monkeypatch.setattr(PackedLayer, "blocks", lambda self: (sizes.append(b.size) or (k, b) for k, b in blocks(self)))
    packed.product(np.ones((20, 512), np.float32))
    assert sum(sizes) == 512 * 512
    assert max(sizes) <= 1 << 14


def test_bits_behind_the_last_index_are_seen():
    packed, _ = layer_of(3, 1, 4)
    spoiled = packed.codes.copy()
    spoiled[-1] |= 128
    assert has_unused_bits(spoiled, packed.layer)


def test_indices_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="indices go from 0 to 4, but 2 bits hold 0 to 3"):
        pack(np.array([[0, 4]]), 2)
