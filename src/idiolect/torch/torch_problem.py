"""The door for PyTorch: a problem from a module, a loss and every client's data."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import torch

from idiolect.contracts import Batch, Key, Metric, Origin, Params, Problem, PyTree, Shard
from idiolect.errors import UserMistake
from idiolect.problems.data.client_splits import Shares, split_clients
from idiolect.problems.supervised import supervised_problem
from idiolect.torch.call_bridge import Bridge, call_bridge
from idiolect.torch.give_back import state_dict, write_model
from idiolect.torch.hosted_module import Reckon
from idiolect.torch.module_parts import Choose
from idiolect.torch.module_trial import Tried, try_module
from idiolect.torch.torch_functions import Told
from idiolect.torch.trace_bridge import trace_bridge

_BRIDGES = {"call": call_bridge, "trace": trace_bridge}
_MEASURED = 128  # rows that a client's statistics of batches are taken from


def problem(
    module: torch.nn.Module,
    loss: Callable[[torch.nn.Module, Any], torch.Tensor],
    data: Sequence[PyTree],
    *,
    train: str | Sequence[str] | Choose | None = None,
    bridge: Literal["call", "trace"] = "call",
    score: Callable[[torch.nn.Module, Any], torch.Tensor] | None = None,
    score_name: str = "accuracy",
    higher_is_better: bool = True,
    unseen: float = 0.0,
    shares: Shares = Shares(),
    name: str = "torch",
    seed: int = 0,
) -> Problem:
    """Make a problem from a PyTorch module, a loss, and one tree of arrays or tensors per client.

    The module is copied and never changed. It is in training mode where the loss is differentiated, and in evaluation
    mode where it is scored. Training starts from its weights, whatever the seed.

    Args:
        module: The model.
        loss: `loss(module, batch)`, a mean over the batch, as a tensor that can be differentiated.
        data: For each client a tree (a dict, say) of arrays or tensors whose first axis runs over its samples.
        train: What learns and travels: by default all parameters that require a gradient; `"lora"` is what peft adds;
            otherwise a pattern of parameter names (`"head.*"`), several of them, or a function of a name and a
            parameter. The rest is stored once, never sent, and in no checkpoint.
        bridge: `call` lets PyTorch compute and runs any operator; `trace` makes the module JAX code by torchax.
        score: `score(module, batch)` gives one number for each sample, whose mean is what runs report; by default the
            loss, sample by sample, which is slower.
        score_name: What it is called.
        higher_is_better: Whether more of it is better; the loss is better lower.
        unseen: The share of clients that take no part in training.
        shares: How much of a client's data goes to training, adaptation and validation; the rest is for tests.
        name: What the problem is called.
        seed: Of the order of rows, and of who is unseen.

    Returns:
        The problem, for `learn`, or for an `Experiment`.

    Example:
        >>> import idiolect.torch, numpy as np, torch
        >>> data = [{"x": np.ones((10, 3), np.float32), "y": np.full(10, k % 2)} for k in range(4)]
        >>> def loss(module, batch):
        ...     return torch.nn.functional.cross_entropy(module(batch["x"]), batch["y"])
        >>> made = idiolect.torch.problem(torch.nn.Linear(3, 2), loss, data)
        >>> made.clients.total, made.origin.bridge
        (4, 'call')
    """
    if bridge not in _BRIDGES:
        raise UserMistake(f"bridge is {bridge!r}, but must be 'call' or 'trace'")
    if not isinstance(module, torch.nn.Module):
        raise UserMistake(f"module is {type(module).__name__}, but must be a torch.nn.Module")
    arrays = [jax.tree.map(_as_array, rows) for rows in data]
    clients = split_clients(arrays, shares=shares, unseen=unseen, rng=np.random.default_rng(seed))
    kinds = jax.tree.map(lambda leaf: torch.from_numpy(leaf[:0]).dtype, arrays[0])
    tried = try_module(module, loss, score, jax.tree.map(lambda leaf: torch.tensor(leaf[:4]), arrays[0]), train)
    told = Told(kinds, tried.draws)
    # In the module's order, which JAX keeps: whoever asks for the last layer means the one that PyTorch has last.
    start = OrderedDict((name, _as_array(tensor)) for name, tensor in tried.module.start().items())
    _check_floats(start)

    def made_with(bridge: str) -> Problem:
        crossed = _in_own_floats(_BRIDGES[bridge](tried.module, loss, score, told), start)
        metric = _metric(crossed, score, score_name, higher_is_better)
        init = partial(_start, start)
        whole = supervised_problem(name, init, crossed.loss, metric, clients, calibrate=_calibration(tried, crossed))
        return whole._replace(origin=_origin(tried, bridge, made_with))

    return made_with(bridge)


def _in_own_floats(crossed: Bridge, start: Params) -> Bridge:
    """A module works in the floats it has, whatever its parameters are held in; PyTorch does not mix them."""

    def own(params: Params) -> Params:
        return OrderedDict((name, params[name].astype(leaf.dtype)) for name, leaf in start.items())

    def measured(params: Params, batch: Batch) -> Params:
        found = crossed.measure(own(params), batch)
        return params | {name: found[name].astype(leaf.dtype) for name, leaf in params.items()}

    return Bridge(
        lambda params, batch, key: crossed.loss(own(params), batch, key),
        lambda params, batch: crossed.score(own(params), batch),
        measured,
    )


def _start(weights: Params, key: Key) -> Params:
    return jax.tree.map(jnp.asarray, weights)


def _metric(crossed: Bridge, score: Reckon | None, score_name: str, higher_is_better: bool) -> Metric:
    if score is None:
        return Metric("loss", crossed.score, higher_is_better=False)
    return Metric(score_name, crossed.score, higher_is_better)


def _calibration(tried: Tried, crossed: Bridge) -> Callable[[Params, Shard], Params]:
    """Fill in the statistics of batches from a client's first rows, again from the first if it has too few."""
    if not tried.module.parts.statistics:
        return lambda params, shard: params

    def calibrate(params: Params, shard: Shard) -> Params:
        index = shard.start + jnp.arange(_MEASURED) % shard.size
        return crossed.measure(params, jax.tree.map(lambda rows: rows[index], shard.rows))

    return calibrate


def _origin(tried: Tried, bridge: str, made_with: Callable[[str], Problem]) -> Origin:
    return Origin(
        "PyTorch",
        bridge,
        {other: partial(made_with, other) for other in _BRIDGES if other != bridge},
        partial(state_dict, tried.module),
        partial(write_model, tried.module, tried.called),
    )


def _check_floats(start: Params) -> None:
    for name, leaf in start.items():
        if leaf.dtype == np.float64 and jnp.result_type(float) != np.float64:
            raise UserMistake(
                f"{name} is torch.float64, but JAX works in 32 bits; use .float(), or set JAX_ENABLE_X64=1"
            )


def _as_array(leaf: Any) -> np.ndarray:
    return leaf.detach().cpu().numpy() if isinstance(leaf, torch.Tensor) else np.asarray(leaf)
