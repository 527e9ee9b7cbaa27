"""What is measured: two models, four objectives, ten local steps; and how much arithmetic that is.

Nothing here imports JAX or PyTorch, so that neither side's memory counts against the other.
"""

from typing import Any, NamedTuple

import numpy as np

LOCAL_STEPS, STEP_SIZE, INNER_STEP_SIZE, LAMBDA, INNER_STEPS = 10, 0.01, 0.01, 20.0, 5
BATCH = {"mlp": 50, "cnn": 32}
SAMPLES, CLIENTS = 18_000, 30

OBJECTIVES: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("plain", {}),
    "first-order MAML": ("maml", {"step_size": INNER_STEP_SIZE, "derivative": "first_order"}),
    "exact MAML": ("maml", {"step_size": INNER_STEP_SIZE}),
    "Moreau, 5 steps": ("moreau", {"lambda": LAMBDA, "iterations": INNER_STEPS}),
}

# In units of one gradient. A Hessian-vector product differentiates one: its primal, and twice that for the tangent.
GRADIENTS = {"plain": 1, "first-order MAML": 2, "exact MAML": 5, "Moreau, 5 steps": INNER_STEPS}


class Layer(NamedTuple):
    """A matrix product per sample: positions x inputs x outputs."""

    positions: int
    inputs: int
    outputs: int


LAYERS = {
    "mlp": [Layer(1, 784, 80), Layer(1, 80, 60), Layer(1, 60, 10)],
    "cnn": [Layer(24 * 24, 25, 16), Layer(8 * 8, 25 * 16, 32), Layer(1, 512, 128), Layer(1, 128, 10)],
}


def flops(model: str, objective: str) -> float:
    """Floating-point operations of a client update, as the textbook counts them: no layer is charged for a trick."""
    products = [2 * layer.positions * layer.inputs * layer.outputs for layer in LAYERS[model]]
    gradient = 3 * sum(products) - products[0]  # forward, and back to weights and inputs; pixels need no derivative
    return GRADIENTS[objective] * gradient * BATCH[model] * LOCAL_STEPS


def image_set(samples: int = SAMPLES) -> tuple[np.ndarray, np.ndarray]:
    """Random bytes in the shape of MNIST, and labels: speed does not depend on what is in them."""
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (samples, 28, 28, 1), np.uint8), rng.integers(0, 10, samples).astype(np.int32)
