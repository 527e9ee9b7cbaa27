"""A personal model beside the shared one, pulled towards it.

T. Li, S. Hu, A. Beirami, V. Smith. Ditto: fair and robust federated learning through personalization. 2021,
Algorithm 1.

| Ditto, Alg. 1 | code |
| --- | --- |
| the client solves G_k, here by the learner's local steps on f_k | the gradient that `ditto` hands on |
| v_k <- v_k - eta (grad F_k(v_k) + lambda (v_k - w^t)), s steps | `gradient`, one for every local step |
| the personalized models are the v_k | `adapt` |

Deviations: both models step on the same batch, one personal step for every local step of the shared model (s = Q). A
client that has never had a turn begins with v = w and takes `tune_steps` of the same steps on its adaptation data.

Laws: the shared model is that of `plain` under the same protocol, to the bit; with lambda = 0 a personal model is that
of a client alone.
"""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt

from idiolect.contracts import Compressed, Info, Key, Objective, Oracle, Params, Scalar, uncompressed
from idiolect.trees import in_types_of


class Personal(NamedTuple):
    """What a client keeps: its own model, and how often it has moved it."""

    model: Params
    taken: Scalar


def ditto(
    *,
    lambda_: Annotated[float, Ge(0)] = 1.0,
    step_size: Annotated[float, Gt(0)] = 0.01,
    tune_steps: Annotated[int, Ge(0)] = 10,
) -> Objective:
    """Learn the shared model as `plain` does, and beside it a personal one that is pulled to what was received.

    Args:
        lambda_: How strongly the personal model is pulled to the shared one.
        step_size: Of the personal model.
        tune_steps: How many personal steps a client takes before its model is used, if it has never had a turn.

    Returns:
        The objective; a client keeps its personal model.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from idiolect.objectives import ditto
        >>> ditto(lambda_=0.5).begin(jnp.zeros(2), 0, jax.random.key(0)).model.shape
        (2,)
    """

    def begin(params: Params, client: int, key: Key) -> Personal:
        return Personal(params, jnp.int32(0))

    def value(oracle: Oracle, own: Personal, params: Params, received: Params, key: Key) -> Scalar:
        return oracle.value(params, key)

    def personal_step(oracle: Oracle, model: Params, received: Params, key: Key) -> tuple[Params, Scalar]:
        loss, grads = oracle.gradient(model, key)
        grads = optax.tree.add_scale(grads, lambda_, optax.tree.sub(model, received))
        return in_types_of(optax.tree.add_scale(model, -step_size, grads), model), loss  # Alg. 1, the step of v_k

    def gradient(
        oracle: Oracle, own: Personal, params: Params, received: Params, key: Key
    ) -> tuple[Personal, Params, Info]:
        loss, grads = oracle.gradient(params, key)
        model, personal = personal_step(oracle, own.model, received, key)
        return Personal(model, own.taken + 1), grads, {"loss": loss, "personal_loss": personal}

    def adapt(oracle: Oracle, own: Personal, params: Params, key: Key) -> Compressed:
        def step(model: Params, key: Key) -> tuple[Params, None]:
            return personal_step(oracle, model, params, key)[0], None

        tuned = jax.lax.scan(step, params, jax.random.split(key, tune_steps))[0] if tune_steps else params
        fresh = own.taken == 0
        return uncompressed(jax.tree.map(lambda new, kept: jnp.where(fresh, new, kept), tuned, own.model))

    return Objective(begin, value, gradient, adapt)
