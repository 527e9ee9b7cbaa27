"""3 x 3 convolution with a border of zeros as one matrix product, the form that CPUs run fast inside a loop.

As in `convolution`, images lie with the batch last, and XLA's own convolutions are left alone: inside
`scan` they take 10 to 30 times as long. With few filters it is copying patches that costs, not arithmetic, so one
column of the product then computes two rows of the result at once: 4/3 of the arithmetic, for 2/3 of the copies.
"""

import jax
import jax.numpy as jnp

_MANY = 64  # filters, from which on arithmetic costs more than copies


def convolve(images: jax.Array, kernels: jax.Array, stride: int = 1) -> jax.Array:
    """Convolve with 3 x 3 `kernels` at every `stride`-th pixel; beyond the images' edges, all is zero.

    `images` are (channels, height, width, batch) and `kernels` (filters, 3, 3, channels); the result is
    (filters, height', width', batch), where height' is height / stride, rounded up.
    """
    _, height, width, batch = images.shape
    filters = len(kernels)
    rows, columns = -(-height // stride), -(-width // stride)
    together = 1 if filters >= _MANY or rows == 1 else 2
    groups = -(-rows // together)
    tall = (together - 1) * stride + 3  # the rows of pixels that a group of rows sees
    shifted = [
        jnp.pad(kernels, ((0, 0), (row * stride, tall - 3 - row * stride), (0, 0), (0, 0))) for row in range(together)
    ]
    patches = _patches(images, groups, columns, tall, together * stride, stride)
    product = jnp.stack(shifted).reshape(together * filters, -1) @ patches
    product = product.reshape(together, filters, groups, columns, batch).transpose(1, 2, 0, 3, 4)
    return product.reshape(filters, groups * together, columns, batch)[:, :rows]  # a last group may be half empty


def _patches(images: jax.Array, rows: int, columns: int, tall: int, down: int, across: int) -> jax.Array:
    """Windows of `tall` x 3 pixels, `down` and `across` pixels apart: (row, column, channel) x (place, batch)."""
    channels, height, width, batch = images.shape
    below, right = (rows - 1) * down + tall - 1 - height, (columns - 1) * across + 2 - width
    framed = jnp.pad(images, ((0, 0), (1, below), (1, right), (0, 0)))
    windows = [
        framed[:, i : i + (rows - 1) * down + 1 : down, j : j + (columns - 1) * across + 1 : across]
        for i in range(tall)
        for j in range(3)
    ]
    return jnp.stack(windows).reshape(tall * 3 * channels, rows * columns * batch)
