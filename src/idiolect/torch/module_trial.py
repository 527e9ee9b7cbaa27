"""A module is tried on a few rows before anything runs: what it draws, what it counts, and what is wrong with it."""

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import torch

from idiolect.errors import UserMistake
from idiolect.torch.hosted_module import HostedModule, Reckon, plain_attention
from idiolect.torch.keyed_randomness import DrawsFrom
from idiolect.torch.module_parts import Choose, Parts, moving_buffers, trained_names


class Tried(NamedTuple):
    """What a trial has shown."""

    module: HostedModule
    draws: bool  # whether a training step draws at random
    called: tuple[tuple[Any, ...], dict[str, Any]]  # how the module was called when it was scored


def try_module(
    module: torch.nn.Module, loss: Reckon, score: Reckon | None, batch: Any, train: str | Sequence[str] | Choose | None
) -> Tried:
    """Take a training step's loss on a few rows, and score them, with a copy of the module."""
    trained, trial = trained_names(module, train), copy.deepcopy(module).train()
    before = {name: buffer.clone() for name, buffer in trial.named_buffers()}
    with plain_attention(), DrawsFrom(torch.Generator().manual_seed(0)) as chance:
        found = _run("loss", loss, trial, batch)
    if not isinstance(found, torch.Tensor) or found.dim() or not found.is_floating_point():
        raise UserMistake(f"loss gives {_shape(found)}, but must give one number, the mean over the batch")
    if not found.requires_grad:
        raise UserMistake("loss gives a number that does not depend on the module's parameters")
    statistics, counters = moving_buffers(before, dict(trial.named_buffers()))
    called: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    trial.eval().register_forward_pre_hook(lambda _, args, named: called.append((args, named)), with_kwargs=True)
    rows = _run("score" if score else "loss", score or loss, trial, batch)
    count = len(jax.tree.leaves(batch)[0])
    if score and (not isinstance(rows, torch.Tensor) or tuple(rows.shape) != (count,)):
        raise UserMistake(
            f"score gives {_shape(rows)} for {count} samples, but must give one number for each; leave out its .mean()"
        )
    parts = Parts(trained, tuple(statistics), tuple(counters))
    return Tried(HostedModule(module, parts), chance.drew, called[0] if called else ((), {}))


def _run(what: str, reckon: Reckon, module: torch.nn.Module, batch: Any) -> Any:
    try:
        return reckon(module, batch)
    except UserMistake:
        raise
    except Exception as reason:
        said = str(reason).strip().partition("\n")[0]
        raise UserMistake(f"{what}(module, batch) fails on the first rows: {type(reason).__name__}: {said}") from reason


def _shape(found: Any) -> str:
    return f"a tensor of shape {tuple(found.shape)}" if isinstance(found, torch.Tensor) else f"{type(found).__name__}"
