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


def rounded(params: Params, count: int, keep: Sequence[str] = (), by_output: bool = False) -> Compressed:
    """Every quantized layer, but vectors, with its own `count` levels: quantiles of its weights, or by output."""
    leaves, levels, changed = named_leaves(params), {}, {}
    for name in quantized_layers(params, [*keep, VECTORS]):
        levels[name], changed[name] = (_by_output if by_output else _to_quantiles)(np.asarray(leaves[name]), count)
    return jax.tree.map(jnp.asarray, Compressed(replace_leaves(params, changed), params, levels))


def _to_quantiles(weights: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    levels = np.quantile(weights, (np.arange(count) + 0.5) / count).astype(np.float32)
    return levels, levels[np.argmin(np.abs(weights[..., None] - levels), axis=-1)]


def _by_output(weights: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Matrices have their outputs last, kernels first."""
    axis = 0 if weights.ndim == 4 else -1
    pairs = [_to_quantiles(own, count) for own in np.moveaxis(weights, axis, 0)]
    return np.stack([levels for levels, _ in pairs]), np.stack([own for _, own in pairs], axis)


def _spread(shape: tuple[int, ...]) -> float:
    if len(shape) < 2:
        return 0.3
    return float(np.sqrt(2 / (shape[0] if len(shape) == 2 else np.prod(shape[1:]))))
