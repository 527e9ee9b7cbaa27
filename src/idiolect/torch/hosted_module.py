"""A module on the host: copies of it for every thread, which share all that does not learn, and calls with weights.

`torch.func.functional_call` changes the module that it is given while it lasts. So every thread has copies of its own:
one that trains, one that is scored, and one that measures statistics of batches.
"""

import copy
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import torch

from idiolect.torch.module_parts import Parts, frozen_digest

Use = Literal["train", "score", "measure"]
Reckon = Callable[[torch.nn.Module, Any], torch.Tensor]  # (module, batch) -> a loss, or scores


class _Bound(torch.nn.Module):
    """A module with what is reckoned by it, so that one call sees the weights it is given wherever it looks."""

    def __init__(self, inner: torch.nn.Module, reckon: Reckon) -> None:
        super().__init__()
        self.inner, self.reckon = inner, reckon

    def forward(self, batch: Any) -> torch.Tensor:
        """Reckon a batch."""
        return self.reckon(self.inner, batch)


class HostedModule:
    """A module whose weights come with every call; what does not learn is stored here, once."""

    def __init__(self, module: torch.nn.Module, train: Parts) -> None:
        self.parts = train
        self.template = copy.deepcopy(module).requires_grad_(False)
        self.digest = frozen_digest(self.template, train)
        self._held = {**dict(self.template.named_parameters()), **dict(self.template.named_buffers())}
        self._mine = threading.local()

    @property
    def identity(self) -> dict[str, Any]:
        """What an experiment is told apart by: the frozen part, and what learns."""
        return {"module": type(self.template).__qualname__, "frozen": self.digest, **self.parts._asdict()}

    @property
    def frozen(self) -> dict[str, torch.Tensor]:
        """All that does not learn."""
        moving = {*self.parts.trained, *self.parts.statistics}
        return {name: tensor for name, tensor in self._held.items() if name not in moving}

    def start(self) -> dict[str, torch.Tensor]:
        """What learns and what is measured, as the module came."""
        return {name: self._held[name].detach() for name in (*self.parts.trained, *self.parts.statistics)}

    def __call__(self, use: Use, reckon: Reckon, weights: Mapping[str, torch.Tensor], batch: Any) -> torch.Tensor:
        """Reckon a batch by the module with these weights, in this use of it."""
        copies: dict[Any, _Bound] = self._mine.__dict__.setdefault("copies", {})
        if (use, reckon) not in copies:
            copies[use, reckon] = _Bound(self._copy(use), reckon)
        given = {f"inner.{name}": tensor for name, tensor in weights.items()}
        # A training step counts itself, in place.
        given |= {f"inner.{name}": self._held[name].clone() for name in self.parts.counters if name not in weights}
        return torch.func.functional_call(copies[use, reckon], given, (batch,))

    def _copy(self, use: Use) -> torch.nn.Module:
        made = copy.deepcopy(self.template, {id(tensor): tensor for tensor in self._held.values()})
        made.train(use == "train")
        if use == "measure":
            for name in self.parts.statistics:
                owner: Any = made.get_submodule(name.rpartition(".")[0])
                owner.train()
                owner.momentum = 1.0  # what is measured counts alone, not an average with what was there before
        return made

    def filled(self, weights: Mapping[str, torch.Tensor]) -> torch.nn.Module:
        """A copy of the module, for use, that has these weights."""
        made = copy.deepcopy(self.template).eval()
        held = {**dict(made.named_parameters()), **dict(made.named_buffers())}
        for name, tensor in weights.items():
            held[name].copy_(tensor)
        return made


_lock, _inside, _before = threading.Lock(), [0], [True]


@contextmanager
def plain_attention() -> Iterator[None]:
    """While anybody is inside, attention is made of products, which can be differentiated twice.

    The fused kernel cannot, and PyTorch's switch between the two is one for all threads: if only Hessian products
    used it, it would be up to chance which kernel the gradients of other threads meet.
    """
    with _lock:
        if not _inside[0]:
            _before[0] = torch.backends.cuda.flash_sdp_enabled()
            torch.backends.cuda.enable_flash_sdp(False)
        _inside[0] += 1
    try:
        yield
    finally:
        with _lock:
            _inside[0] -= 1
            if not _inside[0]:
                torch.backends.cuda.enable_flash_sdp(_before[0])
