"""A personal model mixed with the shared one, in a proportion that every client learns.

Y. Deng, M. M. Kamani, M. Mahdavi. Adaptive personalized federated learning (APFL). 2020, Algorithm 1 and Section 4.1.

| APFL | code |
| --- | --- |
| Alg. 1: w_i <- w_i - eta grad f_i(w_i) | the gradient that `apfl` hands on |
| Alg. 1: v_i <- v_i - eta grad_v f_i(alpha_i v_i + (1 - alpha_i) w_i) | `gradient` |
| Sec. 4.1: alpha_i <- alpha_i - eta <v_i - w_i, grad f_i(mixed)> | `gradient`, `learn_alpha` |
| the personalized model is alpha_i v_i + (1 - alpha_i) w_i | `adapt` |

Deviations: all three step on the same batch. alpha is kept within 0 and 1. The chain rule's alpha_i in front of the
gradient of v_i, which the printed algorithm leaves to the notation, is written out.

Laws: the shared model is that of `plain` under the same protocol, to the bit; with alpha = 0 that does not learn, a
client's model is the shared one, and with alpha = 1 that of a client alone.
"""

from typing import Annotated, NamedTuple

import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Le

from idiolect.contracts import Compressed, Info, Key, Objective, Oracle, Params, Scalar, uncompressed
from idiolect.trees import in_types_of


class Mixed(NamedTuple):
    """What a client keeps: its own part of the mixture, and how much it counts."""

    model: Params
    alpha: Scalar


def apfl(
    *,
    alpha: Annotated[float, Ge(0), Le(1)] = 0.5,
    step_size: Annotated[float, Gt(0)] = 0.01,
    learn_alpha: bool = True,
) -> Objective:
    """Learn the shared model as `plain` does, and beside it a personal one that is good when mixed with it.

    Args:
        alpha: How much the personal model counts at first.
        step_size: Of the personal model, and of alpha.
        learn_alpha: Whether every client learns its own alpha.

    Returns:
        The objective; a client keeps its personal model and its alpha.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from idiolect.objectives import apfl
        >>> float(apfl(alpha=0.25).begin(jnp.zeros(2), 0, jax.random.key(0)).alpha)
        0.25
    """

    def begin(params: Params, client: int, key: Key) -> Mixed:
        return Mixed(params, jnp.float32(alpha))

    def mixture(own: Mixed, params: Params) -> Params:
        share = optax.tree.scale(own.alpha, optax.tree.sub(own.model, params))
        return in_types_of(optax.tree.add(params, share), params)

    def value(oracle: Oracle, own: Mixed, params: Params, received: Params, key: Key) -> Scalar:
        return oracle.value(params, key)

    def gradient(oracle: Oracle, own: Mixed, params: Params, received: Params, key: Key) -> tuple[Mixed, Params, Info]:
        loss, grads = oracle.gradient(params, key)
        mixed, slope = oracle.gradient(mixture(own, params), key)
        model = optax.tree.add_scale(own.model, -step_size * own.alpha, slope)  # Alg. 1, the step of v_i
        proportion = own.alpha
        if learn_alpha:  # Sec. 4.1
            apart = optax.tree.vdot(optax.tree.sub(own.model, params), slope)
            proportion = jnp.clip(own.alpha - step_size * apart, 0, 1).astype(own.alpha.dtype)
        return Mixed(in_types_of(model, own.model), proportion), grads, {"loss": loss, "personal_loss": mixed}

    def adapt(oracle: Oracle, own: Mixed, params: Params, key: Key) -> Compressed:
        return uncompressed(mixture(own, params))

    return Objective(begin, value, gradient, adapt)
