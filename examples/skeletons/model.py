"""A model of your own for the image problems: parameters from a key, logits from parameters and images.

idiolect run demo --with examples/skeletons/model.py --set 'problem.model={name="wide_and_shallow",width=50}'
"""

from collections.abc import Sequence
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge

import idiolect
from idiolect.problems.models import Model


@idiolect.model
def wide_and_shallow(shape: Sequence[int], classes: int, *, width: Annotated[int, Ge(1)] = 100) -> Model:
    """One hidden layer of random features that do not learn, and a layer that does."""
    size = int(np.prod(shape))
    features = np.random.default_rng(0).normal(size=(size, width)) / np.sqrt(size)

    def init(key):
        return {"weight": jnp.zeros((width, classes)), "bias": jnp.zeros(classes)}

    def apply(params, images, key):
        hidden = jnp.tanh(images.reshape(len(images), -1) @ jnp.asarray(features, images.dtype))
        return hidden @ params["weight"] + params["bias"]

    return Model(init, apply)


if __name__ == "__main__":
    made = wide_and_shallow((8, 8, 1), 10)
    print(made.apply(made.init(jax.random.key(0)), jnp.zeros((2, 8, 8, 1)), None).shape)
