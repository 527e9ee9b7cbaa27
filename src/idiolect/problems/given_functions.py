"""Checks of the functions that a user brings: they are called once, on shapes alone, before anything is computed."""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Batch, Params, PyTree
from idiolect.errors import UserMistake

_NUMPY = (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError)
_ROWS = 2  # of the batch that functions are tried on


def checked_start(init: Callable[..., Params]) -> Params:
    """The shapes of the parameters that `init(key)` gives, or one sentence on why they cannot be learned."""
    shapes = _tried("init(key)", init, jax.random.key(0))
    leaves = jax.tree_util.tree_leaves_with_path(shapes)
    if not leaves:
        raise UserMistake("init(key) gives no parameters, but must give a tree of arrays")
    for path, leaf in leaves:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            raise UserMistake(
                f"init(key) gives {name or 'parameters'} of type {leaf.dtype}, but parameters must be floating-point "
                "numbers, which have gradients"
            )
    return shapes


def check_number(what: str, function: Callable[..., Any], *given: Any, gradient: bool) -> None:
    """Refuse a function of parameters and a batch that does not give one number, for `gradient` one that has any."""
    found = jax.tree.leaves(_tried(what, function, *given))
    if len(found) != 1:
        raise UserMistake(f"{what} gives {len(found)} arrays, but must give one number: the mean over the batch")
    (number,) = found
    if number.shape != ():
        raise UserMistake(
            f"{what} gives an array of shape {number.shape} for {_ROWS} samples, but must give one number: the mean "
            "over the batch"
        )
    if gradient and not jnp.issubdtype(number.dtype, jnp.floating):
        raise UserMistake(f"{what} gives a number of type {number.dtype}, which has no gradient; make it a float")


def check_callable(what: str, function: Any, takes: tuple[int, ...]) -> None:
    """Refuse what is no function, or one that cannot take so many arguments."""
    if not callable(function):
        raise UserMistake(f"{what.partition('(')[0]} is {function!r}, but must be a function: {what}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C, and says nothing
        return
    for count in takes:
        try:
            signature.bind(*range(count))
            return
        except TypeError:
            continue
    raise UserMistake(f"{what.partition('(')[0]} takes {signature}, but is called as {what}")


def few_rows(rows: PyTree) -> Batch:
    """The shapes of a small batch of a client's rows, in the types that they are learned from."""

    def shape(leaf: np.ndarray) -> jax.ShapeDtypeStruct:
        kind = jax.dtypes.canonicalize_dtype(leaf.dtype)
        return jax.ShapeDtypeStruct((_ROWS, *leaf.shape[1:]), kind)  # type: ignore[no-untyped-call]

    return jax.tree.map(shape, rows)


def _tried(what: str, function: Callable[..., Any], *given: Any) -> Any:
    try:
        return jax.eval_shape(function, *given)
    except UserMistake:
        raise
    except _NUMPY as reason:
        raise UserMistake(
            f"{what} turns what it is given into NumPy or Python numbers, which cannot be compiled; compute with "
            "jax.numpy, and without `if` on values"
        ) from reason
    except Exception as reason:  # whatever a user's function may raise
        first = (str(reason).strip().splitlines() or [""])[0]
        raise UserMistake(f"{what} fails with {type(reason).__name__}: {first}") from reason
