"""The same models three times: as PyTorch modules, and as hand-written JAX functions of the same weights."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from torch import nn

import idiolect
import idiolect.torch

CLIENTS, ROWS, SIDE, CLASSES = 4, 30, 10, 3


def make_mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 12), nn.ELU(), nn.Linear(12, CLASSES))


def make_cnn() -> nn.Module:
    torch.manual_seed(1)
    layers = [nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.Tanh(), nn.Flatten(), nn.Linear(64, CLASSES)]
    return nn.Sequential(*layers)


def data(kind=np.float32) -> list[dict[str, np.ndarray]]:
    """Images of clients whose classes have their own places."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(CLIENTS):
        centres, labels = rng.standard_normal((CLASSES, 1, SIDE, SIDE)), rng.integers(0, CLASSES, ROWS)
        images = centres[labels] + 0.5 * rng.standard_normal((ROWS, 1, SIDE, SIDE))
        made.append({"image": images.astype(kind), "label": labels})
    return made


def loss(module, batch):
    return nn.functional.cross_entropy(module(batch["image"]), batch["label"])


def right(module, batch):
    return module(batch["image"]).argmax(-1) == batch["label"]


def torch_problem(module, **options):
    return idiolect.torch.problem(module, loss, options.pop("data", data()), score=right, **options)


def jax_mlp(params, images):
    hidden = images.reshape(len(images), -1) @ params["1.weight"].T + params["1.bias"]
    return jax.nn.elu(hidden) @ params["3.weight"].T + params["3.bias"]


def jax_cnn(params, images):
    maps = jax.lax.conv_general_dilated(images, params["0.weight"], (1, 1), "VALID") + params["0.bias"][:, None, None]
    pooled = jax.lax.reduce_window(maps, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return jnp.tanh(pooled).reshape(len(images), -1) @ params["4.weight"].T + params["4.bias"]


def jax_problem(module, forward):
    """The hand-written twin, with the module's weights and the same rows in the same order."""
    start = {name: jnp.asarray(parameter.detach().numpy()) for name, parameter in module.named_parameters()}

    def twin_loss(params, batch):
        logits = forward(params, batch["image"])
        return optax.losses.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()

    def accuracy(params, batch):
        return (forward(params, batch["image"]).argmax(-1) == batch["label"]).mean()

    return idiolect.problem(lambda key: start, twin_loss, data(), score=accuracy)


TWINS = {"mlp": (make_mlp, jax_mlp), "cnn": (make_cnn, jax_cnn)}
