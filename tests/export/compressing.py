"""Models with few values for the tests of export: random weights, rounded to the nearest of a few levels.

Made in NumPy, which compiles nothing.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Compressed, Params
from idiolect.problems.models.networks import Model
from idiolect.quantization.layers import VECTORS, named_leaves, quantized_layers, replace_leaves


def randomly(model: Model, seed: int) -> Params:
    """Random parameters of a model, none of them zero, of a size that lets every layer have a say."""
    rng, shapes = np.random.default_rng(seed), jax.eval_shape(model.init, jax.random.key(0))
    return jax.tree.map(lambda leaf: rng.normal(0, _spread(leaf.shape), leaf.shape).astype(np.float32), shapes)


def rounded(params: Params, count: int, keep: Sequence[str] = ()) -> Compressed:
    """Every quantized layer, but vectors, with its own `count` levels: quantiles of its weights."""
    leaves, levels, changed = named_leaves(params), {}, {}
    for name in quantized_layers(params, [*keep, VECTORS]):
        levels[name] = np.quantile(leaves[name], (np.arange(count) + 0.5) / count).astype(np.float32)
        changed[name] = levels[name][np.argmin(np.abs(leaves[name][..., None] - levels[name]), axis=-1)]
    return jax.tree.map(jnp.asarray, Compressed(replace_leaves(params, changed), params, levels))


def _spread(shape: tuple[int, ...]) -> float:
    if len(shape) < 2:
        return 0.3
    return float(np.sqrt(2 / (shape[0] if len(shape) == 2 else np.prod(shape[1:]))))
