"""Convolution with max-pooling as one matrix product, the form that CPUs run fast inside a loop.

XLA's own convolutions are many times slower inside `scan` on CPUs, and turn into grouped ones under `vmap`. Here images
lie with the batch last, so that cutting out patches copies whole rows, and one column of the product computes all
positions of one pooling window: for 2 x 2 windows and 5 x 5 kernels that is 1.44 times the arithmetic, for 2.8 times
fewer patches to copy. `benchmarks/client_update.py` measures it.
"""

import jax
import jax.numpy as jnp


def convolve_and_pool(images: jax.Array, kernels: jax.Array, pool: int = 2) -> jax.Array:
    """Convolve (no padding) and take maxima over `pool` x `pool` windows; what does not fill a window is left out.

    `images` are (channels, height, width, batch) and `kernels` (filters, height, width, channels); the result is
    (filters, height', width', batch).
    """
    _, height, width, batch = images.shape
    filters, tall, wide, _ = kernels.shape
    rows, columns = (height - tall + 1) // pool, (width - wide + 1) // pool
    # A pooling window sees tall + pool - 1 rows: so many blocks of `pool` rows.
    down, across = -(-(tall + pool - 1) // pool), -(-(wide + pool - 1) // pool)
    shifted = [
        jnp.pad(kernels, ((0, 0), (i, down * pool - tall - i), (j, across * pool - wide - j), (0, 0)))
        for i in range(pool)
        for j in range(pool)
    ]
    product = jnp.stack(shifted).reshape(pool * pool * filters, -1) @ _blocks(images, rows, columns, down, across, pool)
    return _first_max(product.reshape(pool * pool, filters, rows, columns, batch))


def _blocks(images: jax.Array, rows: int, columns: int, down: int, across: int, pool: int) -> jax.Array:
    """What each pooling window sees, as columns: (kernel row, kernel column, channel) x (row, column, batch)."""
    channels, _, _, batch = images.shape
    tall, wide = rows + down - 1, columns + across - 1
    cut = images[:, : tall * pool, : wide * pool]
    missing = (tall * pool - cut.shape[1], wide * pool - cut.shape[2])
    cut = jnp.pad(cut, ((0, 0), (0, missing[0]), (0, missing[1]), (0, 0)))
    cut = cut.reshape(channels, tall, pool, wide, pool, batch).transpose(2, 4, 0, 1, 3, 5)
    windows = [
        jnp.stack([cut[:, :, :, i : i + rows, j : j + columns] for j in range(across)], axis=1) for i in range(down)
    ]
    return jnp.stack(windows).reshape(down * pool * across * pool * channels, rows * columns * batch)


@jax.custom_jvp
def _first_max(values: jax.Array) -> jax.Array:
    """The maximum over the first axis; where it is attained more than once, the first one counts.

    The derivative is a mask, which costs a sixth of what differentiating a chain of maxima does.
    """
    return _max_and_place(values)[0]


@_first_max.defjvp
def _first_max_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (values,), (moves,) = primals, tangents
    largest, place = _max_and_place(values)
    chosen = jax.lax.broadcasted_iota(jnp.int8, values.shape, 0) == place[None]
    return largest, jnp.where(chosen, moves, 0).sum(0)


def _max_and_place(values: jax.Array) -> tuple[jax.Array, jax.Array]:
    largest, place = values[0], jnp.zeros(values.shape[1:], jnp.int8)
    for k in range(1, len(values)):
        larger = values[k] > largest
        largest, place = jnp.where(larger, values[k], largest), jnp.where(larger, jnp.int8(k), place)
    return largest, place
