"""Which parameters of a module learn and travel, which buffers are statistics of a client, and what stays as it is."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeAlias

import torch

from idiolect.errors import UserMistake
from idiolect.trees import digest

Choose: TypeAlias = Callable[[str, torch.nn.Parameter], bool]
LORA = ("*lora_*", "*modules_to_save*")  # what peft calls what it trains


class Parts(NamedTuple):
    """The names of what is not frozen."""

    trained: tuple[str, ...]  # parameters that learn and travel
    statistics: tuple[str, ...] = ()  # of batches; each client fills in its own
    counters: tuple[str, ...] = ()  # buffers that change as well, but are no floats


def trained_names(module: torch.nn.Module, train: str | Sequence[str] | Choose | None) -> tuple[str, ...]:
    """The parameters that `train` chooses, in the module's order."""
    named = dict(module.named_parameters())
    if train is None:
        chosen = [name for name, parameter in named.items() if parameter.requires_grad]
        missing = "every parameter has requires_grad=False"
    elif callable(train):
        chosen = [name for name, parameter in named.items() if train(name, parameter)]
        missing = "it chooses none of the parameters"
    else:
        patterns = LORA if train == "lora" else (train,) if isinstance(train, str) else tuple(train)
        chosen = [name for name in named if any(fnmatchcase(name, pattern) for pattern in patterns)]
        missing = f"no parameter has such a name; they are called {_some(list(named))}"
    if not chosen:
        hint = "; wrap the module with peft.get_peft_model first" if train == "lora" else ""
        raise UserMistake(f"train is {train!r}, but {missing}{hint}")
    for name in chosen:
        if named[name].dtype not in (torch.float32, torch.float64):
            raise UserMistake(f"{name} is {named[name].dtype}, but what is trained must be torch.float32; use .float()")
    return tuple(chosen)


def moving_buffers(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> tuple[list[str], list[str]]:
    """The buffers that a training step has changed: statistics, which are floats, and counters."""
    moved = [name for name, buffer in before.items() if not torch.equal(buffer, after[name])]
    return [name for name in moved if before[name].is_floating_point()], [
        name for name in moved if not before[name].is_floating_point()
    ]


def frozen_digest(module: torch.nn.Module, parts: Parts) -> str:
    """A digest of the module's structure and of all that it has and that does not learn."""
    moving = {*parts.trained, *parts.statistics}
    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    frozen = {name: tensor.detach().cpu() for name, tensor in held.items() if name not in moving}
    arrays = {name: tensor.reshape(-1).view(torch.uint8).numpy() for name, tensor in frozen.items()}
    kinds = {name: f"{tensor.dtype}{tuple(tensor.shape)}" for name, tensor in frozen.items()}
    return digest({"module": repr(module), **kinds}, arrays)


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:4])
    return f"{shown}, and {len(names) - 4} more" if len(names) > 4 else shown
