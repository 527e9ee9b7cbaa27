"""How a client's own weights take a step before anything is rounded: SGD or Adam, near a shared model."""

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple, TypeAlias

import optax
from annotated_types import Ge, Lt

from idiolect.contracts import Params, PyTree, Scalar

Optimizer: TypeAlias = Literal["sgd", "adam"]


class Descent(NamedTuple):
    """`start(weights)` gives the optimizer's memory; `step` a move from the weights, and the memory after it."""

    start: Callable[[Params], PyTree]
    step: Callable[[Params, Params, Params, PyTree, Scalar], tuple[Params, PyTree]]
    # (weights, gradient of the loss, shared model, memory, step size)


def descent(
    optimizer: Optimizer,
    momentum: Annotated[float, Ge(0), Lt(1)],
    weight_decay: Annotated[float, Ge(0)],
    lambda_p: Annotated[float, Ge(0)],
) -> Descent:
    """Steps on the loss plus lambda_p/2 ||x - w||^2 (QuPeL, (2)) plus weight_decay/2 ||x||^2."""
    plain = optax.trace(momentum) if momentum else optax.identity()
    scale = optax.scale_by_adam() if optimizer == "adam" else plain

    def step(
        weights: Params, grads: Params, shared: Params, memory: PyTree, step_size: Scalar
    ) -> tuple[Params, PyTree]:
        if lambda_p:
            grads = optax.tree.add_scale(grads, lambda_p, optax.tree.sub(weights, shared))
        if weight_decay:
            grads = optax.tree.add_scale(grads, weight_decay, weights)
        direction, memory = scale.update(grads, memory)
        return optax.tree.add_scale(weights, -step_size, direction), memory

    return Descent(scale.init, step)
