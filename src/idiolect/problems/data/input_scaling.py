"""Images of mean 0 and deviation 1 in each channel, by numbers that are given or that training parts have.

The rows themselves are changed, so that no function of the problem depends on the seed; bytes become floats and take
four times as much. What is exported takes images as they were, and scales them by itself.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Clients, Scaling, Split
from idiolect.errors import UserMistake

Normalize: TypeAlias = Literal["train"] | Scaling
_PARTS = ("train", "adapt", "validation", "test")


def normalized(clients: Clients, how: Normalize) -> tuple[Clients, Scaling]:
    """The same clients with every part of their images scaled, and by which numbers.

    With `train` these are the mean and the deviation of each channel over the training parts of all participating
    clients. That is what a simulation can do; real clients would have to share sums of their pixels for it, or be given
    the numbers, which then stand in the recipe.
    """
    pixels = as_floats(clients.train.rows["image"])
    if how == "train":
        scaling = fitted(pixels[members(clients.train, clients.participating)], axis=(0, 1, 2))
    else:
        scaling = _fitting(how, pixels.shape[-1])
    mean, deviation = (np.asarray(numbers, np.float32) for numbers in scaling)
    store = {**clients.train.rows, "image": jnp.asarray((pixels - mean) / deviation)}
    parts = {name: getattr(clients, name)._replace(rows=store) for name in _PARTS}
    return clients._replace(**parts), scaling


def as_floats(pixels: np.ndarray) -> np.ndarray:
    """Images as models take them: bytes are scaled to numbers between 0 and 1."""
    found = np.asarray(pixels)
    return found.astype(np.float32) / np.float32(255 if found.dtype == np.uint8 else 1)


def members(split: Split, clients: Sequence[int]) -> np.ndarray:
    """The row numbers of some clients in a part."""
    return np.concatenate([np.arange(split.starts[k], split.starts[k] + split.sizes[k]) for k in clients])


def fitted(values: np.ndarray, axis: int | tuple[int, ...] = 0) -> Scaling:
    """The mean and the deviation of the values; what is constant has a deviation of 1, so that it is only shifted."""
    mean, deviation = values.mean(axis=axis, dtype=np.float64), values.std(axis=axis, dtype=np.float64)
    # What is constant may differ from its mean by rounding, which is not to be blown up.
    deviation = np.where(deviation > 1e-6 * np.maximum(1.0, np.abs(mean)), deviation, 1.0)
    return Scaling(tuple(np.ravel(mean).tolist()), tuple(np.ravel(deviation).tolist()))


def _fitting(given: Scaling, channels: int) -> Scaling:
    for name, numbers in given._asdict().items():
        if len(numbers) != channels:
            raise UserMistake(
                f"problem.normalize.{name} has {len(numbers)} numbers, but the images have {channels} "
                f"channel{'s' if channels > 1 else ''}"
            )
    return given
