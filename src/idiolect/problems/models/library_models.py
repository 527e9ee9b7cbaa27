"""Models of Equinox, Flax (NNX and linen) and Haiku: an adapter of a few lines for each.

A loss and a score get a model that can be called as its library's models are. Dropout follows the key that idiolect
gives, and is off where a model is scored (in linen and Haiku, the loss and the score say so as they call the model).
The libraries are imported when one of their models is seen.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from idiolect.contracts import Key, Params
from idiolect.errors import UserMistake

Use = Callable[[Any], Any]  # call a model on some rows


class Adapter(NamedTuple):
    """A library's model as parameters, and a model from parameters."""

    start: Callable[[Key, Use], Params]  # what training starts with; some libraries find out as the model is used
    bind: Callable[[Params, Key | None], Any]  # a model that can be called; it is scored where there is no key


def adapted(model: Any) -> Adapter:
    """The adapter for a model of one of the libraries.

    Args:
        model: An Equinox or NNX module with its parameters; a linen module; a pair that `haiku.transform` made.

    Returns:
        How to get parameters from it, and a model from parameters.

    Example:
        >>> from idiolect import UserMistake
        >>> from idiolect.problems.models.library_models import adapted
        >>> try:
        ...     adapted("resnet")
        ... except UserMistake:
        ...     print("that is no model")
        that is no model
    """
    homes = [f"{kind.__module__}." for kind in type(model).__mro__]
    for home, adapt in _LIBRARIES.items():
        if any(name.startswith(f"{home}.") for name in homes):
            return adapt(model)
    if any(name.startswith("torch.") for name in homes):
        raise UserMistake("model is a PyTorch module; use idiolect.torch.problem(module, loss, data)")
    raise UserMistake(
        f"model is {type(model).__name__}, but must be an Equinox, NNX or linen module, or made by haiku.transform"
    )


def _equinox(model: Any) -> Adapter:
    import equinox

    start, static = equinox.partition(model, equinox.is_inexact_array)

    def bind(params: Params, key: Key | None) -> Any:
        return equinox.nn.inference_mode(equinox.combine(params, static), key is None)

    return Adapter(lambda key, use: start, bind)


def _nnx(model: Any) -> Adapter:
    from flax import nnx

    graph, learned, rest = nnx.split(model, nnx.Param, ...)
    if jax.tree.leaves(nnx.filter_state(rest, nnx.BatchStat)):
        raise _keeps_statistics("nnx.BatchNorm", "nnx.LayerNorm or nnx.GroupNorm")
    start = nnx.to_pure_dict(learned)

    def bind(params: Params, key: Key | None) -> Any:
        state = jax.tree.map(lambda leaf: leaf, learned)
        nnx.replace_by_pure_dict(state, params)
        made = nnx.merge(graph, state, rest, copy=True)  # else its random state belongs to another trace
        if key is None:
            made.eval()
        else:
            made.train()
            nnx.reseed(made, default=key, dropout=key)
        return made

    return Adapter(lambda key, use: start, bind)


def _linen(model: Any) -> Adapter:
    def bind(params: Params, key: Key | None) -> Any:
        rngs = None if key is None else {"dropout": key}
        return lambda *args, **named: model.apply({"params": params}, *args, rngs=rngs, **named)

    def start(key: Key, use: Use) -> Params:
        def init(*args: Any, **named: Any) -> Params:
            variables = model.init({"params": key, "dropout": key}, *args, **named)
            if set(variables) != {"params"}:
                raise _keeps_statistics(f"the collections {sorted(set(variables) - {'params'})}", "nn.LayerNorm")
            return variables["params"]

        return _found(init, bind, key, use)

    return Adapter(start, bind)


def _haiku(model: Any) -> Adapter:
    if not {"init", "apply"} == set(getattr(model, "_fields", ())) or type(model).__name__ != "Transformed":
        raise _keeps_statistics("haiku.transform_with_state", "haiku.transform and hk.LayerNorm")

    def bind(params: Params, key: Key | None) -> Any:
        return lambda *args, **named: model.apply(params, key, *args, **named)

    def start(key: Key, use: Use) -> Params:
        return _found(lambda *args, **named: model.init(key, *args, **named), bind, key, use)

    return Adapter(start, bind)


def _found(init: Callable[..., Params], bind: Callable[[Params, Key | None], Any], key: Key, use: Use) -> Params:
    """What `init` gives for the arguments with which the model is called first."""
    seen: list[Params] = []

    def stand_in(*args: Any, **named: Any) -> Any:
        if not seen:
            seen.append(init(*args, **named))
        return bind(seen[0], key)(*args, **named)

    use(stand_in)
    if not seen:
        raise UserMistake("loss does not call the model, so that its parameters are not known")
    return seen[0]


def _keeps_statistics(what: str, instead: str) -> UserMistake:
    return UserMistake(
        f"model has {what}, whose state is no parameter, and would have to stay on the client; use {instead}, or "
        "PyTorch, whose statistics of batches do"
    )


_LIBRARIES = {"equinox": _equinox, "flax.nnx": _nnx, "flax.linen": _linen, "haiku": _haiku}
