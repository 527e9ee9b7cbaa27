"""Images that differ a little each time they are trained on: shifted and mirrored at random.

K. He, X. Zhang, S. Ren, J. Sun. Deep residual learning for image recognition. 2016, Sec. 4.2: four pixels of padding on
each side, a random crop of the old size, and a random horizontal flip. Scored images are left as they are.
"""

import jax
import jax.numpy as jnp

from idiolect.contracts import Key

_PADDING = 4


def crop_and_flip(images: jax.Array, key: Key) -> jax.Array:
    """Every image (of height, width, channels) shifted by up to four pixels either way and, half of them, mirrored.

    Args:
        images: (count, height, width, channels).
        key: Of the shifts and the mirrors.

    Returns:
        As many images of the same size.

    Example:
        >>> import jax
        >>> from idiolect.problems.augmentation import crop_and_flip
        >>> crop_and_flip(jax.numpy.ones((2, 8, 8, 1)), jax.random.key(0)).shape
        (2, 8, 8, 1)
    """
    count, shape = len(images), images.shape[1:]
    where, mirror = jax.random.split(key)
    starts = jax.random.randint(where, (count, 2), 0, 2 * _PADDING + 1)
    padded = jnp.pad(images, ((0, 0), (_PADDING, _PADDING), (_PADDING, _PADDING), (0, 0)))
    cropped = jax.vmap(lambda image, at: jax.lax.dynamic_slice(image, (at[0], at[1], 0), shape))(padded, starts)
    return jnp.where(jax.random.bernoulli(mirror, shape=(count, 1, 1, 1)), cropped[:, :, ::-1], cropped)
