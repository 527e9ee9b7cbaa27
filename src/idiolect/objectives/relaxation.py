"""Weights relaxed ever closer to a scaled grid of levels: the rival that projects instead of thresholding.

P. Yin, S. Zhang, J. Lyu, S. Osher, Y. Qi, J. Xin. BinaryRelax: a relaxation approach for training deep neural networks
with quantized weights. 2018, Algorithm 1.

| BinaryRelax | code |
| --- | --- |
| Sec. 2: levels s q with q a fixed grid and s > 0; for one bit s = mean |y| | `fit_scale` |
| Alg. 1: y <- y - gamma grad f(x) | `gradient`, `Descent.step` |
| Alg. 1: x = (lambda Proj(y) + y) / (lambda + 1), lambda growing | `_relax` |
| phase II: x = Proj(y) | `fine_tune_after` |

Deviations: for more than one bit, s takes one step of alternating least squares an iteration from where it was. With
`lambda_p` the weights are held near the shared model, as QuPeL holds its own; the paper knows one client.

Laws: with `lambda = 0` and no phase II it is plain training of y.
"""

from collections.abc import Sequence
from typing import Annotated

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Lt

from idiolect.contracts import Info, Key, Objective, Oracle, Params, Scalar
from idiolect.quantization.channels import Books, by_codebook, by_output, has_outputs
from idiolect.quantization.codebooks import LayerBits, Widths, deal_widths, layer_widths
from idiolect.quantization.descent import Optimizer, descent
from idiolect.quantization.layers import USUALLY_KEPT, named_leaves, replace_leaves
from idiolect.quantization.personal import Own, keep_own, round_weights, rounding
from idiolect.quantization.quantizers import put
from idiolect.quantization.rates import Changing, Rate, rate_at


def binary_relax(
    *,
    bits: Widths = 1,
    levels: Widths | None = None,
    layer_bits: dict[str, LayerBits] | None = None,
    codebooks: Books = "layer",
    keep: Sequence[str] = USUALLY_KEPT,
    lambda_: Rate = Changing(value=1.0, decay=1.02, every=100),
    lambda_p: Annotated[float, Ge(0)] = 0.0,
    step_size: Rate = 0.1,
    optimizer: Optimizer = "sgd",
    momentum: Annotated[float, Ge(0), Lt(1)] = 0.0,
    weight_decay: Annotated[float, Ge(0)] = 0.0,
    fine_tune_after: Annotated[int, Ge(0)] | None = None,
) -> Objective:
    """Train at a mixture of weights and rounded weights that tends to the latter; after `fine_tune_after`, at those.

    Args:
        bits: The width of all clients, of each (`[3, 3, 2]`), or `{width: number of clients}`; 32 is full precision.
        levels: The same in numbers of levels, in place of bits.
        layer_bits: Widths of some layers, by patterns of their names: `{"convolutions.*": 4}`; the first match counts.
        codebooks: Whether a layer has one codebook, or each of its outputs (channels) has its own.
        keep: Which layers stay in full precision: `first`, `last`, `vectors`, or patterns such as `dense.*`.
        lambda_: How much rounded weights count in the mixture.
        lambda_p: Pulls weights to the shared model.
        step_size: gamma, of the weights.
        optimizer: `sgd` or `adam`.
        momentum: Of `sgd`.
        weight_decay: Of the weights.
        fine_tune_after: After so many local steps only rounded weights count (phase II).

    Returns:
        The objective; a client keeps its weights, its levels and what the optimizer remembers.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from idiolect.objectives import binary_relax
        >>> own = binary_relax(bits=1, keep=[]).begin({"weight": jnp.ones((2, 2))}, 0, jax.random.key(0))
        >>> own.levels["weight"].tolist()
        [-1.0, 1.0]
    """
    dealt, steps = deal_widths(bits, levels), descent(optimizer, momentum, weight_decay, lambda_p)

    def begin(params: Params, client: int, key: Key) -> Own:
        leaves, count = named_leaves(params), dealt.levels(client)
        widths = layer_widths(params, keep, count, layer_bits)
        grids = {name: _first_grid(leaves[name], width, codebooks) for name, width in widths.items()}
        own = {name: fit_scale(leaves[name], grid) for name, grid in grids.items()}
        return Own(params, own, steps.start(params), jnp.int32(0))

    def used(own: Own) -> Params:
        strength = rate_at(lambda_, own.steps)
        mixture = strength / (strength + 1)
        if fine_tune_after is not None:
            mixture = jnp.where(own.steps < fine_tune_after, mixture, 1.0)
        return _relax(own, mixture)

    def value(oracle: Oracle, own: Own, params: Params, received: Params, key: Key) -> Scalar:
        apart = optax.tree.norm(optax.tree.sub(own.weights, params), squared=True)
        return oracle.value(used(own), key) + 0.5 * lambda_p * apart

    def gradient(oracle: Oracle, own: Own, params: Params, received: Params, key: Key) -> tuple[Own, Params, Info]:
        loss, grads = oracle.gradient(used(own), key)
        y, memory = steps.step(own.weights, grads, params, own.memory, rate_at(step_size, own.steps))
        leaves = named_leaves(y)
        moved = Own(y, {name: fit_scale(leaves[name], c) for name, c in own.levels.items()}, memory, own.steps + 1)
        return moved, optax.tree.scale(lambda_p, optax.tree.sub(params, y)), {"loss": loss, **rounding(moved)}

    return Objective(begin, value, gradient, keep_own, check=dealt.check)


@by_codebook("levels")
def fit_scale(weights: jax.Array, levels: jax.Array) -> jax.Array:
    """The grid with the scale that fits best the weights as they are now assigned; for two levels, the best of all."""
    grid = _grid(len(levels), weights.dtype)
    q = put(weights, levels, grid)
    return grid * jnp.maximum((weights * q).sum() / (q * q).sum(), 0)


def _first_grid(weights: jax.Array, count: int, books: Books) -> jax.Array:
    if books == "channel" and has_outputs(weights):
        return jax.vmap(lambda row: _first_grid(row, count, "layer"))(by_output(weights))
    grid = _grid(count, weights.dtype)
    return grid * jnp.abs(weights).mean() / jnp.abs(grid).mean()


def _grid(count: int, dtype: jnp.dtype) -> jax.Array:
    return 2 * jnp.arange(count, dtype=dtype) - (count - 1)


def _relax(own: Own, mixture: Scalar) -> Params:
    projected, leaves = named_leaves(round_weights(own.weights, own.levels)), named_leaves(own.weights)
    mixed = {name: mixture * projected[name] + (1 - mixture) * leaves[name] for name in own.levels}
    return replace_leaves(own.weights, mixed)
