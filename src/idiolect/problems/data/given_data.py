"""Checks of the data that a user brings: a tree of arrays for each client, all alike, all finite.

What is wrong is told with the client and the array, since later it would look as if training had diverged.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.errors import UserMistake
from idiolect.trees import PyTree

_WANTED = "must be a list with one tree of arrays for each client, such as [{'x': x0, 'y': y0}, {'x': x1, 'y': y1}]"


def checked_data(data: Sequence[PyTree]) -> list[PyTree]:
    """The clients' data as trees of NumPy arrays, or one sentence on which client's array cannot be used."""
    single = isinstance(data, str | bytes | Mapping) or getattr(data, "shape", None) == ()
    if single or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        made = "; list(data) makes one" if hasattr(data, "__next__") else ""
        raise UserMistake(f"data is of type {type(data).__name__}, but {_WANTED}{made}")
    if len(data) == 0:
        raise UserMistake("data is empty, but a problem needs at least one client")
    found = [_checked_client(client, rows) for client, rows in enumerate(data)]
    for client, rows in enumerate(found):
        _check_alike(client, rows, found[0])
    return found


def row_count(client: int, rows: PyTree) -> int:
    """How many samples a client has."""
    counts = {name: len(leaf) for name, leaf in _named(rows).items()}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise UserMistake(f"client {client} has arrays of different lengths ({told}); one row must be one sample")
    return next(iter(counts.values()))


def _checked_client(client: int, rows: PyTree) -> PyTree:
    leaves = _named(rows)
    if not leaves:
        raise UserMistake(
            f"client {client}'s data is {_shown(rows)}, but must be a tree of arrays, as {{'x': x, 'y': y}}"
        )
    for name, leaf in leaves.items():
        _check_array(client, name, leaf)
    return jax.tree.map(np.asarray, rows)


def _check_array(client: int, name: str, leaf: Any) -> None:
    where = f"client {client}'s {name}"
    if np.ndim(leaf) == 0:
        raise UserMistake(
            f"{where} is {_shown(leaf)}, but must be an array whose first axis runs over samples; of a list, "
            "numpy.asarray makes one"
        )
    values = np.asarray(leaf)
    if not (jnp.issubdtype(values.dtype, jnp.number) or values.dtype == bool):
        raise UserMistake(f"{where} is an array of {values.dtype}, but must be one of numbers")
    if jnp.issubdtype(values.dtype, jnp.inexact) and not (whole := np.isfinite(_as_learned(values))).all():
        place = np.argwhere(~whole)[0]
        number = values[tuple(place)]
        held = " in 32 bits; scale the data" if np.isfinite(number) else "; leave such rows out, or fill them in"
        raise UserMistake(
            f"{where} has {number} in row {place[0]}, but every number that a client learns from must be finite{held}"
        )


def _as_learned(values: np.ndarray) -> np.ndarray:
    """The numbers in the type that they are learned from, in which they may be infinite."""
    with np.errstate(over="ignore"):
        return values.astype(jax.dtypes.canonicalize_dtype(values.dtype), copy=False)


def _check_alike(client: int, rows: PyTree, first: PyTree) -> None:
    mine, theirs = _named(rows), _named(first)
    if str(jax.tree.structure(rows)) != str(jax.tree.structure(first)):
        raise UserMistake(
            f"client {client} has the arrays {', '.join(mine)}, but client 0 has {', '.join(theirs)}; all clients must "
            "have the same"
        )
    for name, leaf in mine.items():
        here, there = leaf.shape[1:], theirs[name].shape[1:]
        if here != there:
            raise UserMistake(f"client {client}'s {name} has rows of shape {here}, but client 0's of {there}")


def _named(rows: PyTree) -> dict[str, Any]:
    leaves = jax.tree_util.tree_leaves_with_path(rows)
    return {jax.tree_util.keystr(path, simple=True, separator=".") or "data": leaf for path, leaf in leaves}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"
