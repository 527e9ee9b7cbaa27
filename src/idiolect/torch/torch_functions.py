"""A module's loss, derivatives and scores as functions of NumPy arrays, computed by PyTorch.

Every call works on one core, as other clients keep the others busy; with more, sums would be added up in an order that
depends on how many there are.
"""

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import torch

from idiolect.torch.hosted_module import HostedModule, Reckon, Use, plain_attention
from idiolect.torch.keyed_randomness import DrawsFrom

_thread = threading.local()


class Told(NamedTuple):
    """What is known of a module beforehand: the types of its batches, and whether it draws at random."""

    kinds: Any  # a tree like a batch
    draws: bool


class TorchFunctions:
    """What the compiled program calls. In go flat arrays: the weights by name, the rows of a batch, and a seed."""

    def __init__(self, module: HostedModule, loss: Reckon, score: Reckon | None, told: Told) -> None:
        self.module, self.loss, self.score, self.told = module, loss, score, told
        self._names = list(module.start())  # as JAX flattens an ordered dict
        self._order = [self._names.index(name) for name in module.parts.trained]

    def value(self, *flat: np.ndarray) -> list[np.ndarray]:
        """The loss."""
        with torch.no_grad():
            weights, batch, seed = self._read(flat)
            return [self._reckon("train", self.loss, weights, batch, seed).numpy()]

    def gradient(self, *flat: np.ndarray) -> list[np.ndarray]:
        """The loss and its gradient."""
        weights, batch, seed = self._read(flat)
        leaves = self._leaves(weights)
        loss = self._reckon("train", self.loss, weights, batch, seed)
        grads = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
        return [loss.detach().numpy(), *self._spread(weights, grads)]

    def product(self, *flat: np.ndarray) -> list[np.ndarray]:
        """`vjp(grad(f))`: the Hessian is symmetric, and `torch.func.jvp` fails under threads."""
        vector, rest = flat[: len(self._names)], flat[len(self._names) :]
        weights, batch, seed = self._read(rest)
        leaves = self._leaves(weights)
        loss = self._reckon("train", self.loss, weights, batch, seed)
        grads = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True, materialize_grads=True)
        pairs = [(g, _tensor(vector[place])) for g, place in zip(grads, self._order, strict=True) if g.requires_grad]
        if not pairs:  # the loss is linear
            return [np.zeros_like(array) for array in vector]
        slopes, along = zip(*pairs, strict=True)
        found = torch.autograd.grad(slopes, leaves, along, allow_unused=True, materialize_grads=True)
        return self._spread(weights, found)

    def scores(self, *flat: np.ndarray) -> list[np.ndarray]:
        """One number for each row: its score or, if there is no such function, its loss."""
        with torch.no_grad():
            weights, batch, seed = self._read(flat)
            if self.score:
                found = self._reckon("score", self.score, weights, batch, seed)
            else:
                found = torch.stack([self._reckon("score", self.loss, weights, row, seed) for row in _rows(batch)])
            return [found.to(torch.float32).numpy()]

    def statistics(self, *flat: np.ndarray) -> list[np.ndarray]:
        """Those of the batch."""
        with torch.no_grad():
            weights, batch, seed = self._read(flat)
            self._reckon("measure", self.loss, weights, batch, seed)
            return [weights[name].numpy() for name in self.module.parts.statistics]

    def _reckon(
        self, use: Use, reckon: Reckon, weights: dict[str, torch.Tensor], batch: Any, seed: int
    ) -> torch.Tensor:
        if not hasattr(_thread, "ready"):
            torch.set_num_threads(1)
            _thread.ready = True
        with plain_attention():
            if not self.told.draws:
                return self.module(use, reckon, weights, batch)
            with DrawsFrom(torch.Generator().manual_seed(seed)):
                return self.module(use, reckon, weights, batch)

    def _read(self, flat: Sequence[np.ndarray]) -> tuple[dict[str, torch.Tensor], Any, int]:
        """Weights by name, a batch in the types that the user's data has, and a seed."""
        *leaves, (high, low) = flat
        arrays, rows = leaves[: len(self._names)], leaves[len(self._names) :]
        weights = {name: _tensor(array) for name, array in zip(self._names, arrays, strict=True)}
        for name in self.module.parts.statistics:
            weights[name] = weights[name].clone()  # a training step changes them in place, which counts for nothing
        tensors = map(_row, rows, jax.tree.leaves(self.told.kinds))
        batch = jax.tree.unflatten(jax.tree.structure(self.told.kinds), tensors)
        return weights, batch, int(high) << 32 | int(low)

    def _leaves(self, weights: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        return [weights[name].requires_grad_() for name in self.module.parts.trained]

    def _spread(self, weights: dict[str, torch.Tensor], found: Sequence[torch.Tensor]) -> list[np.ndarray]:
        """What was found of the trained parameters, in its place; of statistics there is nothing to learn."""
        by_name = dict(zip(self.module.parts.trained, found, strict=True))
        zeros = {name: torch.zeros_like(weights[name]) for name in self.module.parts.statistics}
        return [(zeros | by_name)[name].detach().numpy() for name in self._names]


def _rows(batch: Any) -> list[Any]:
    """Batches of a row each."""
    columns = [leaf.split(1) for leaf in jax.tree.leaves(batch)]
    return [jax.tree.unflatten(jax.tree.structure(batch), row) for row in zip(*columns, strict=True)]


def _tensor(array: np.ndarray) -> torch.Tensor:
    """The array as PyTorch sees it, without a copy where DLPack allows."""
    return torch.from_dlpack(array)


def _row(array: np.ndarray, kind: torch.dtype) -> torch.Tensor:
    """Integers in the type they were given in, which may be wider than JAX's; floats as JAX holds them."""
    tensor = _tensor(array)
    return tensor if kind.is_floating_point else tensor.to(kind)
