"""The rival: one client's local steps as a careful hand-written PyTorch loop, one client after the other."""

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812

from cases import BATCH, INNER_STEP_SIZE, INNER_STEPS, LAMBDA, LOCAL_STEPS, STEP_SIZE, image_set

Weights = list[torch.Tensor]


def weights(model: str) -> Weights:
    """Fresh parameters."""
    shapes = {
        "mlp": [(80, 784), (80,), (60, 80), (60,), (10, 60), (10,)],
        "cnn": [(16, 1, 5, 5), (16,), (32, 16, 5, 5), (32,), (128, 512), (128,), (10, 128), (10,)],
    }[model]
    torch.manual_seed(0)
    return [(0.05 * torch.randn(shape)).requires_grad_() for shape in shapes]


def loss(model: str, w: Weights, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the model's logits."""
    if model == "mlp":
        x = F.elu(F.linear(x.flatten(1), w[0], w[1]))
        x = F.elu(F.linear(x, w[2], w[3]))
        return F.cross_entropy(F.linear(x, w[4], w[5]), y)
    x = F.relu(F.max_pool2d(F.conv2d(x, w[0], w[1]), 2))
    x = F.relu(F.max_pool2d(F.conv2d(x, w[2], w[3]), 2))
    x = F.relu(F.linear(x.flatten(1), w[4], w[5]))
    return F.cross_entropy(F.linear(x, w[6], w[7]), y)


def client_update(model: str, objective: str, start: Weights, images: torch.Tensor, labels: torch.Tensor) -> Weights:
    """Ten local steps of one of the four objectives."""

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        index = torch.randint(len(labels), (BATCH[model],))
        return images[index].float().div_(255), labels[index]

    def gradient(w: Weights, data: tuple[torch.Tensor, torch.Tensor]) -> Weights:
        return list(torch.autograd.grad(loss(model, w, *data), w))

    def moved(w: Weights, by: Weights, rate: float) -> Weights:
        with torch.no_grad():
            return [(a - rate * b).requires_grad_() for a, b in zip(w, by, strict=True)]

    def hessian_product(w: Weights, vector: Weights) -> Weights:
        first = torch.autograd.grad(loss(model, w, *batch()), w, create_graph=True)
        return list(torch.autograd.grad(first, w, vector))

    w = start
    for _ in range(LOCAL_STEPS):
        if objective == "plain":
            direction = gradient(w, batch())
        elif objective == "Moreau, 5 steps":
            data, theta = batch(), w
            for _ in range(INNER_STEPS):
                g = gradient(theta, data)
                with torch.no_grad():
                    pull = [a + LAMBDA * (t - b) for a, t, b in zip(g, theta, w, strict=True)]
                theta = moved(theta, pull, 0.5 / LAMBDA)
            with torch.no_grad():
                direction = [LAMBDA * (a - t) for a, t in zip(w, theta, strict=True)]
        else:
            direction = gradient(moved(w, gradient(w, batch()), INNER_STEP_SIZE), batch())
            if objective == "exact MAML":
                direction = moved(direction, hessian_product(w, direction), INNER_STEP_SIZE)
        w = moved(w, direction, STEP_SIZE)
    return w


def updates(model: str, objective: str) -> Callable[[int], float]:
    """Seconds per update of so many client updates, one after the other."""
    images, labels = (torch.from_numpy(column) for column in image_set(600))
    images, labels, start = images.permute(0, 3, 1, 2).contiguous(), labels.long(), weights(model)

    def timed(count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            client_update(model, objective, start, images, labels)
        return (time.perf_counter() - began) / count

    return timed
