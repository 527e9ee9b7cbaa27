"""What travels to actors and back, as arrays."""

import jax.numpy as jnp
import numpy as np
import pytest

from idiolect.engines.ray.packed_arrays import ALIGNED, leaves_of, packed, unpacked
from idiolect.engines.ray.turn_backend import BATCHES, WIDEST, WIDEST_LARGE, width_for


def test_what_is_packed_comes_out_as_it_was():
    number = np.random.default_rng(0)
    trees = [
        [number.normal(size=(3, 5)).astype(np.float32).T, np.array(True), np.zeros((0, 4))],
        [],
        leaves_of({"half": jnp.ones(7, jnp.bfloat16), "whole": np.arange(11, dtype=np.int8)}),
    ]
    sent = packed(trees)
    assert sent.bytes.size % ALIGNED == 0
    for before, after in zip(trees, unpacked(sent), strict=True):
        for one, other in zip(before, after, strict=True):
            assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


@pytest.mark.parametrize("small", [True, False])
def test_an_actor_has_two_messages_while_a_third_gathers(small):
    for members in range(1, 100):
        width = width_for(members, small)
        assert 1 <= width <= (WIDEST if small else WIDEST_LARGE)
        assert width == 1 or BATCHES * width <= members
