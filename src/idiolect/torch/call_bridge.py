"""The bridge `call`: value, gradient and Hessian product are PyTorch's, called from the compiled program.

It runs any operator, with the speed of PyTorch. To JAX, the loss is a function like any other: its first derivative is
PyTorch's gradient, and that one's derivative is PyTorch's Hessian product. There is no third.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Batch, Key, Params, Scalar
from idiolect.torch.host_calls import Shapes, host_call
from idiolect.torch.hosted_module import HostedModule, Reckon
from idiolect.torch.torch_functions import Told, TorchFunctions


class Bridge(NamedTuple):
    """A module's functions as JAX sees them."""

    loss: Callable[[Params, Batch, Key], Scalar]
    score: Callable[[Params, Batch], Scalar]
    measure: Callable[[Params, Batch], Params]  # statistics of a batch, in the place of those before


def call_bridge(module: HostedModule, loss: Reckon, score: Reckon | None, told: Told) -> Bridge:
    """The module's functions, with derivatives by PyTorch. Without a score, the loss is scored."""
    host = TorchFunctions(module, loss, score, told)

    @jax.custom_jvp
    def value(params: Params, batch: Batch, seed: jax.Array) -> Scalar:
        return host_call(host.value, (_like(_first(params), ()),), *_flat(params, batch, seed))[0]

    @jax.custom_jvp
    def slopes(params: Params, batch: Batch, seed: jax.Array) -> tuple[Scalar, Params]:
        shapes = (_like(_first(params), ()), *_shapes(params))
        first, *grads = host_call(host.gradient, shapes, *_flat(params, batch, seed))
        return first, jax.tree.unflatten(jax.tree.structure(params), grads)

    def product(params: Params, vector: Params, batch: Batch, seed: jax.Array) -> Params:
        flat = [*jax.tree.leaves(vector), *_flat(params, batch, seed)]
        found = host_call(host.product, _shapes(params), *flat)
        return jax.tree.unflatten(jax.tree.structure(params), found)

    @value.defjvp
    def _value(at: Sequence[Any], along: Sequence[Any]) -> tuple[Scalar, Scalar]:
        found, grads = slopes(*at)
        return found, _inner(grads, along[0])

    @slopes.defjvp
    def _slopes(at: Sequence[Any], along: Sequence[Any]) -> tuple[Any, Any]:
        found, grads = slopes(*at)
        return (found, grads), (_inner(grads, along[0]), product(at[0], along[0], *at[1:]))

    def keyed(params: Params, batch: Batch, key: Key) -> Scalar:
        return value(params, batch, jax.random.bits(key, (2,), np.uint32))

    return Bridge(keyed, _rowwise(host), partial(_measured, host))


def _rowwise(host: TorchFunctions) -> Callable[[Params, Batch], Scalar]:
    """The mean of the scores of all rows. Batches that share their parameters are scored as one."""

    def plain(params: Params, batch: Batch) -> jax.Array:
        rows = len(jax.tree.leaves(batch)[0])
        shape = jax.ShapeDtypeStruct((rows,), np.float32)
        return host_call(host.scores, (shape,), *_flat(params, batch, np.zeros(2, np.uint32)))[0]

    rows = jax.custom_batching.custom_vmap(plain)

    @rows.def_vmap
    def _together(size: int, mapped: list[Any], params: Params, batch: Batch) -> tuple[jax.Array, bool]:
        if any(jax.tree.leaves(mapped[0])) or not all(jax.tree.leaves(mapped[1])):
            axes = jax.tree.map(lambda each: 0 if each else None, mapped)
            return jax.vmap(plain, in_axes=axes)(params, batch), True
        merged = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), batch)
        return rows(params, merged).reshape(size, -1), True

    return lambda params, batch: rows(params, batch).mean()


def _measured(host: TorchFunctions, params: Params, batch: Batch) -> Params:
    names = host.module.parts.statistics
    flat = _flat(params, batch, np.zeros(2, np.uint32))
    found = host_call(host.statistics, tuple(_like(params[name]) for name in names), *flat)
    return params | dict(zip(names, found, strict=True))


def _flat(params: Params, batch: Batch, seed: Any) -> list[Any]:
    return [*jax.tree.leaves(params), *jax.tree.leaves(batch), seed]


def _first(params: Params) -> jax.Array:
    return jax.tree.leaves(params)[0]


def _like(leaf: jax.Array, shape: tuple[int, ...] | None = None) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape if shape is None else shape, leaf.dtype)


def _shapes(params: Params) -> Shapes:
    return tuple(map(_like, jax.tree.leaves(params)))


def _inner(left: Params, right: Params) -> Scalar:
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return sum((jnp.vdot(a, b) for a, b in pairs), start=jnp.zeros((), _first(left).dtype))
