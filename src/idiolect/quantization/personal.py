"""The state of a client with levels of its own, and the model that it makes from it."""

from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from idiolect.contracts import Compressed, Info, Key, Oracle, Params, PyTree, Scalar
from idiolect.quantization.layers import named_leaves, replace_leaves
from idiolect.quantization.quantizers import distance, hard, soft

Levels: TypeAlias = dict[str, jax.Array]


class Own(NamedTuple):
    """x_i in full precision, c_i by layer (none if nothing is rounded), the optimizer's memory, local steps so far."""

    weights: Params
    levels: Levels
    memory: PyTree
    steps: Scalar


def round_weights(weights: Params, levels: Levels, sharpness: float | None = None) -> Params:
    """The model with every layer that has levels rounded to them; softly, if a sharpness is given."""
    leaves = named_leaves(weights)
    rounded = {
        name: hard(leaves[name], c) if sharpness is None else soft(leaves[name], c, sharpness)
        for name, c in levels.items()
    }
    return replace_leaves(weights, rounded)


def compress(own: Own) -> Compressed:
    """The client's model as it would be shipped."""
    return Compressed(round_weights(own.weights, own.levels), own.weights, own.levels)


def keep_own(oracle: Oracle, own: Own, params: Params, key: Key) -> Compressed:
    """A client that has a model of its own uses it, whatever it has received."""
    return compress(own)


def rounding(own: Own) -> Info:
    """How far, on average, a weight is from its level; 0 in full precision."""
    leaves = named_leaves(own.weights)
    total = sum((distance(leaves[name], c) for name, c in own.levels.items()), jnp.float32(0))
    return {"rounding": 2 * total / max(sum(leaves[name].size for name in own.levels), 1)}
