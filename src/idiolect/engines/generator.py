"""The random numbers of training: JAX's default generator, written out.

J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw. Parallel random numbers: as easy as 1, 2, 3. 2011: Threefry-2x32,
20 rounds. On CPUs JAX compiles it as a loop, which costs about ten microseconds a call however few numbers are drawn,
as much as a small client's gradient. Written out it becomes one fused operation, with the same numbers to the bit.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import define_prng_impl

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def _threefry(key: jax.Array, high: jax.Array, low: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Encrypt the counters (high, low) with the key."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    high, low = high + keys[0], low + keys[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            high = high + low
            low = high ^ (low << np.uint32(rotation) | low >> np.uint32(32 - rotation))
        high = high + keys[(group + 1) % 3]
        low = low + keys[(group + 2) % 3] + np.uint32(group + 1)
    return high, low


def _counters(shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    low = jax.lax.iota(np.uint32, int(np.prod(shape))).reshape(shape)
    return jnp.zeros_like(low), low


def _seed(number: jax.Array | int) -> jax.Array:
    whole = jnp.asarray(number)
    high = (whole >> 32).astype(np.uint32) if whole.dtype.itemsize > 4 else jnp.zeros_like(whole, np.uint32)
    return jnp.stack([high, whole.astype(np.uint32)])


def _split(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jnp.stack(_threefry(key, *_counters(shape)), axis=-1)


def _fold_in(key: jax.Array, number: jax.Array | int) -> jax.Array:
    return jnp.stack(_threefry(key, *_seed(number)))


def _bits(key: jax.Array, width: int, shape: tuple[int, ...]) -> jax.Array:
    high, low = _threefry(key, *_counters(shape))
    if width == 64:
        return high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
    return (high ^ low).astype(f"uint{width}")


WRITTEN_OUT = define_prng_impl(
    key_shape=(2,), seed=_seed, split=_split, random_bits=_bits, fold_in=_fold_in, name="threefry", tag="tf"
)
