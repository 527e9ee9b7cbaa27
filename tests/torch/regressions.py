"""A small PyTorch problem on which a law shows in seconds: a net of two layers, fitted by each client to its line."""

import numpy as np
import torch

import idiolect.torch

N, ROWS = 4, 20


def data(kind):
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((ROWS, 3)) for _ in range(N)]
    return [{"x": x.astype(kind), "y": (x @ rng.standard_normal(3) + k).astype(kind)} for k, x in enumerate(inputs)]


def loss(module, batch):
    return 0.5 * ((module(batch["x"]).squeeze(-1) - batch["y"]) ** 2).mean() + 0.1 * module[0].weight.square().sum()


def regression(kind=np.float32, **options):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    floats = torch.float64 if kind == np.float64 else torch.float32
    return idiolect.torch.problem(module.to(floats), loss, data(kind), **options)
