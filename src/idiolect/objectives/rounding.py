"""Train in full precision and round at the end: what every quantized training must beat.

Levels are fitted to the finished weights of each layer, by quantiles or by Lloyd's algorithm (S. P. Lloyd. Least
squares quantization in PCM. 1982), and nothing is trained after that.

Laws: training is that of full precision; the levels are a function of the weights alone.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import jax.numpy as jnp
import optax
from annotated_types import Ge, Lt

from idiolect.contracts import Compressed, Info, Key, Objective, Oracle, Params, Scalar
from idiolect.quantization.channels import Books
from idiolect.quantization.codebooks import LayerBits, Widths, deal_widths, first_levels, layer_widths, no_levels
from idiolect.quantization.descent import Optimizer, descent
from idiolect.quantization.layers import USUALLY_KEPT, named_leaves
from idiolect.quantization.personal import Own, compress
from idiolect.quantization.rates import Rate, rate_at


def post_training(
    *,
    bits: Widths = 2,
    levels: Widths | None = None,
    layer_bits: dict[str, LayerBits] | None = None,
    codebooks: Books = "layer",
    keep: Sequence[str] = USUALLY_KEPT,
    centers: Literal["quantiles", "kmeans"] = "kmeans",
    lambda_p: Annotated[float, Ge(0)] = 0.0,
    step_size: Rate = 0.1,
    optimizer: Optimizer = "sgd",
    momentum: Annotated[float, Ge(0), Lt(1)] = 0.0,
    weight_decay: Annotated[float, Ge(0)] = 0.0,
) -> Objective:
    """Train a client's own weights without a thought of levels, and round them when they are used.

    Args:
        bits: The width of all clients, of each (`[3, 3, 2]`), or `{width: number of clients}`; 32 is full precision.
        levels: The same in numbers of levels, in place of bits.
        layer_bits: Widths of some layers, by patterns of their names: `{"convolutions.*": 4}`; the first match counts.
        codebooks: Whether a layer has one codebook, or each of its outputs (channels) has its own.
        keep: Which layers stay in full precision: `first`, `last`, `vectors`, or patterns such as `dense.*`.
        centers: Whether levels are fitted by quantiles or by Lloyd's algorithm.
        lambda_p: Pulls weights to the shared model.
        step_size: Of the weights.
        optimizer: `sgd` or `adam`.
        momentum: Of `sgd`.
        weight_decay: Of the weights.

    Returns:
        The objective; a client keeps its weights and what the optimizer remembers.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from idiolect.objectives import post_training
        >>> own = post_training(bits=2, keep=[]).begin({"weight": jnp.ones((2, 2))}, 0, jax.random.key(0))
        >>> own.levels["weight"].shape
        (4,)
    """
    dealt, steps = deal_widths(bits, levels), descent(optimizer, momentum, weight_decay, lambda_p)

    def begin(params: Params, client: int, key: Key) -> Own:
        widths = layer_widths(params, keep, dealt.levels(client), layer_bits)
        leaves = named_leaves(params)
        empty = {name: no_levels(leaves[name], width, codebooks) for name, width in widths.items()}
        return Own(params, empty, steps.start(params), jnp.int32(0))

    def value(oracle: Oracle, own: Own, params: Params, received: Params, key: Key) -> Scalar:
        apart = optax.tree.norm(optax.tree.sub(own.weights, params), squared=True)
        return oracle.value(own.weights, key) + 0.5 * lambda_p * apart

    def gradient(oracle: Oracle, own: Own, params: Params, received: Params, key: Key) -> tuple[Own, Params, Info]:
        loss, grads = oracle.gradient(own.weights, key)
        x, memory = steps.step(own.weights, grads, params, own.memory, rate_at(step_size, own.steps))
        moved = Own(x, own.levels, memory, own.steps + 1)
        return moved, optax.tree.scale(lambda_p, optax.tree.sub(params, x)), {"loss": loss}

    def adapt(oracle: Oracle, own: Own, params: Params, key: Key) -> Compressed:
        leaves = named_leaves(own.weights)
        fitted = {n: first_levels(leaves[n], c.shape[-1], centers, codebooks) for n, c in own.levels.items()}
        return compress(own._replace(levels=fitted))

    return Objective(begin, value, gradient, adapt, check=dealt.check)
