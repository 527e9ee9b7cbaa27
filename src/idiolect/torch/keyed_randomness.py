"""Randomness of PyTorch from a generator of one's own, so that dropout follows the key that idiolect gives.

PyTorch draws from one generator for all threads; which thread draws first would be left to chance.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from idiolect.errors import UserMistake


class DrawsFrom(TorchDispatchMode):
    """While it lasts, whatever this thread draws comes from the generator; `drew` tells whether anything did."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.drew, self._generator = False, generator

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operator, with the generator if it draws."""
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags and kwargs.get("generator") is None:
            self.drew = True
            return _taking_generators(func)(*args, **kwargs, generator=self._generator)
        return func(*args, **kwargs)


def _taking_generators(func: Any) -> Callable[..., Any]:
    """The operator, in the form that takes a generator."""
    if "generator" in _arguments(func):
        return func
    packet, wanted = func.overloadpacket, _arguments(func)
    for name in packet.overloads():
        other = getattr(packet, name)
        if sorted(_arguments(other)) == sorted([*wanted, "generator"]):
            return other
    raise UserMistake(
        f"the module draws with {func}, which takes no generator, so that a seed would not settle what it draws; "
        "use torch.nn.Dropout or torch.bernoulli"
    )


def _arguments(func: Any) -> list[str]:
    return [argument.name for argument in func._schema.arguments]
