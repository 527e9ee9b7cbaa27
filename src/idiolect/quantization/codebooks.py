"""Codebooks: how many levels a client can afford for a layer, and where they begin.

A client's width is said in bits, or in levels. 32 bits mean full precision: no levels at all. Some layers may have a
width of their own, and each output of a layer a codebook of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, Le

from idiolect.contracts import Known, Params
from idiolect.errors import UserMistake
from idiolect.quantization.channels import Books, by_output, has_outputs
from idiolect.quantization.layers import quantized_layers
from idiolect.quantization.quantizers import nearest

Widths: TypeAlias = int | list[int] | dict[int, int]  # for all, for each client, or {width: number of clients}
LayerBits: TypeAlias = Annotated[int, Ge(1), Le(8)]
Start: TypeAlias = Literal["quantiles", "kmeans"] | list[float]

FULL_PRECISION = 32
MOST_BITS = 8
_ROUNDS = 20  # of Lloyd's algorithm, for "kmeans"


class Dealt(NamedTuple):
    """How many levels each client has (0: full precision), and how many clients that was written for."""

    levels: Callable[[int], int]
    clients: int | None

    def check(self, known: Known) -> tuple[str, ...]:
        """Refuse a problem with another number of clients."""
        if self.clients not in (None, known.clients):
            raise UserMistake(f"objective.bits is for {self.clients} clients, but the problem has {known.clients}")
        return ()


def deal_widths(bits: Widths, levels: Widths | None = None) -> Dealt:
    """Read the widths of all clients: `3`, `[3, 3, 2]`, or `{3: 15, 2: 5}` for 15 clients at 3 bits and then 5 at 2."""
    if levels is not None:
        return _deal("levels", levels, _checked_levels)
    return _deal("bits", bits, _levels_of_bits)


def _deal(what: str, widths: Widths, read: Callable[[int], int]) -> Dealt:
    if isinstance(widths, int):
        everyone = read(widths)
        return Dealt(lambda client: everyone, None)
    if isinstance(widths, Mapping):
        for width, count in widths.items():
            if count < 1:
                raise UserMistake(f"objective.{what} gives the width {width} to {count} clients, but must to 1 or more")
        widths = [width for width, count in widths.items() for _ in range(count)]
    each = [read(width) for width in widths]
    return Dealt(lambda client: each[client], len(each))


def _levels_of_bits(bits: int) -> int:
    if bits != FULL_PRECISION and not 1 <= bits <= MOST_BITS:
        raise UserMistake(f"objective.bits is {bits}, but must be 1 to {MOST_BITS}, or 32 for full precision")
    return 0 if bits == FULL_PRECISION else 2**bits


def _checked_levels(levels: int) -> int:
    if not 2 <= levels <= 2**MOST_BITS:
        raise UserMistake(f"objective.levels is {levels}, but must be 2 to {2**MOST_BITS}; one level would be no model")
    return levels


def layer_widths(params: Params, keep: Sequence[str], usual: int, own: Mapping[str, int] | None) -> dict[str, int]:
    """How many levels each layer has that is quantized: those of the first pattern that matches it, or the usual ones.

    Who has full precision, 0 levels, has it in every layer.
    """
    if not usual:
        return {}
    layers, own = quantized_layers(params, keep), own or {}
    for pattern in own:
        if not any(fnmatchcase(name, pattern) for name in layers):
            raise UserMistake(
                f"objective.layer_bits has '{pattern}', which matches none of the layers that have levels; say a "
                f"pattern for one of {', '.join(layers)}"
            )
    return {
        name: next((2**bits for pattern, bits in own.items() if fnmatchcase(name, pattern)), usual) for name in layers
    }


def check_start(start: Start, dealt: Dealt, own: Mapping[str, int] | None = None) -> None:
    """Refuse levels by hand that repeat themselves, or that are not as many as some client or layer has."""
    if isinstance(start, str):
        return
    if own:
        raise UserMistake("objective.layer_bits is given, and then objective.centers must be quantiles or kmeans")
    if len(set(start)) != len(start):
        raise UserMistake(f"objective.centers is {start}, but the levels of a layer must differ")
    if not np.isfinite(start).all():
        raise UserMistake(f"objective.centers is {start}, but must be finite numbers")
    for client in range(dealt.clients or 1):
        if dealt.levels(client) not in (0, len(start)):
            raise UserMistake(
                f"objective.centers has {len(start)} levels, but client {client} has {dealt.levels(client)}; "
                "say so many, or quantiles or kmeans"
            )


def first_levels(weights: jax.Array, levels: int, start: Start, books: Books = "layer") -> jax.Array:
    """The levels of a layer before training, in increasing order; of each of its outputs, if `books` say so.

    `quantiles` gives every level as many weights; `kmeans` goes on from there until levels are the means of their
    weights; levels by hand are multiples of the layer's mean absolute weight.
    """
    if books == "channel" and has_outputs(weights):
        return jax.vmap(lambda row: first_levels(row, levels, start))(by_output(weights))
    flat = weights.ravel()
    if not isinstance(start, str):
        return jnp.sort(jnp.asarray(start, weights.dtype)) * jnp.abs(flat).mean()
    quantiles = jnp.quantile(flat, (jnp.arange(levels) + 0.5) / levels).astype(weights.dtype)
    return quantiles if start == "quantiles" else fit_levels(flat, quantiles)


def no_levels(weights: jax.Array, levels: int, books: Books) -> jax.Array:
    """Room for so many levels, all zero: of a layer, or of each of its outputs."""
    outputs = [len(by_output(weights))] if books == "channel" and has_outputs(weights) else []
    return jnp.zeros((*outputs, levels))


@jax.jit
def fit_levels(weights: jax.Array, levels: jax.Array) -> jax.Array:
    """Lloyd's algorithm: each level becomes the mean of its weights, again and again; one without any stays."""

    def improve(_: int, levels: jax.Array) -> jax.Array:
        index = nearest(weights, levels)
        count = jnp.zeros_like(levels).at[index].add(1)
        total = jnp.zeros_like(levels).at[index].add(weights)
        return jnp.sort(jnp.where(count > 0, total / jnp.maximum(count, 1), levels))

    weights = weights.ravel()
    return jax.lax.fori_loop(0, _ROUNDS, improve, levels)
