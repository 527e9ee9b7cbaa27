"""Calls from compiled programs to functions of this process: NumPy arrays in, arrays out.

`jax.pure_callback` hands larger arrays to a callback by way of XLA's threads, which may all be waiting for callbacks:
with more than 100 KiB and as many callbacks as cores, programs hang (jax 0.10.2; see also jax issue 24255). Models are
larger than that. So this is a primitive of its own, whose function gets the arrays as XLA has them. They must not be
written to, nor used after the call.
"""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

Host = Callable[..., Sequence[np.ndarray]]  # it must be pure, and can be called by several threads at once
Shapes = tuple[jax.ShapeDtypeStruct, ...]

_host_call = Primitive("host_call")
_host_call.multiple_results = True


def host_call(host: Host, results: Shapes, *args: jax.Array) -> list[jax.Array]:
    """What `host(*args)` returns, whose shapes and types are told beforehand. Under `vmap` it is called for each."""
    found = _host_call.bind(*args, host=_InWords(host), results=tuple(map(_in_words, results)))
    return [
        jax.lax.bitcast_convert_type(words, result.dtype) if result.dtype.itemsize == _WIDE else words
        for words, result in zip(found, results, strict=True)
    ]


_WIDE = 8  # bytes of a number that JAX would narrow in a thread that does not know of 64 bits


@dataclass(frozen=True)
class _InWords:
    """A function of the host that returns wide numbers as two words each."""

    host: Host

    def __call__(self, *args: np.ndarray) -> Sequence[np.ndarray]:
        found = [np.asarray(each) for each in self.host(*args)]
        return [
            np.asarray(each, order="C")[..., None].view(np.uint32) if each.itemsize == _WIDE else each for each in found
        ]


def _in_words(result: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    wide = result.dtype.itemsize == _WIDE
    return jax.ShapeDtypeStruct((*result.shape, 2), np.uint32) if wide else result


@dataclass(frozen=True)
class _ForEach:
    """A function of the host for each row of some of its arguments, on all cores."""

    host: Host
    mapped: tuple[bool, ...]

    def __call__(self, *args: np.ndarray) -> Sequence[np.ndarray]:
        size = next(len(arg) for arg, mapped in zip(args, self.mapped, strict=True) if mapped)

        def one(row: int) -> Sequence[np.ndarray]:
            return self.host(*(a[row] if mapped else a for a, mapped in zip(args, self.mapped, strict=True)))

        rows = range(size)
        # Who waits for the pool must not be part of it.
        found = list(map(one, rows)) if getattr(_within, "pool", False) else list(_pool().map(one, rows))
        return [np.stack(column) for column in zip(*found, strict=True)]


_within = threading.local()


@cache
def _pool() -> ThreadPoolExecutor:
    def enter() -> None:
        _within.pool = True

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ThreadPoolExecutor(cores, thread_name_prefix="host", initializer=enter)


def _shapes(*args: Any, host: Host, results: Shapes) -> list[ShapedArray]:
    return [ShapedArray(result.shape, result.dtype) for result in results]


def _now(*args: jax.Array, host: Host, results: Shapes) -> list[jax.Array]:
    return [jnp.asarray(found) for found in host(*map(np.asarray, args))]


def _lower(ctx: mlir.LoweringRuleContext, *args: Any, host: Host, results: Shapes) -> Any:
    found, _, _ = mlir.emit_python_callback(
        ctx,
        lambda *arrays: tuple(host(*map(np.asarray, arrays))),
        None,
        list(args),
        list(ctx.avals_in),  # type: ignore[arg-type]
        list(ctx.avals_out),
        has_side_effect=False,
        returns_token=False,
    )
    return found


def _batch(
    args: Sequence[jax.Array], axes: Sequence[int | None], *, host: Host, results: Shapes
) -> tuple[list[jax.Array], list[int]]:
    mapped = tuple(axis is not None for axis in axes)
    moved = [arg if axis is None else jnp.moveaxis(arg, axis, 0) for arg, axis in zip(args, axes, strict=True)]
    size = next(len(arg) for arg, each in zip(moved, mapped, strict=True) if each)
    wide = tuple(jax.ShapeDtypeStruct((size, *result.shape), result.dtype) for result in results)
    return _host_call.bind(*moved, host=_ForEach(host, mapped), results=wide), [0] * len(results)


_host_call.def_abstract_eval(_shapes)
_host_call.def_impl(_now)
mlir.register_lowering(_host_call, _lower)
batching.primitive_batchers[_host_call] = _batch
