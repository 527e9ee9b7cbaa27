"""Codebooks: how many levels a client can afford for a layer, and where they begin.

A client's width is said in bits, or in levels. 32 bits mean full precision: no levels at all.
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Known
from idiolect.errors import UserMistake
from idiolect.quantization.quantizers import nearest

Widths: TypeAlias = int | list[int] | dict[int, int]  # for all, for each client, or {width: number of clients}
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


def check_start(start: Start, dealt: Dealt) -> None:
    """Refuse levels by hand that repeat themselves, or that are not as many as some client has."""
    if isinstance(start, str):
        return
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


def first_levels(weights: jax.Array, levels: int, start: Start) -> jax.Array:
    """The levels of a layer before training, in increasing order.

    `quantiles` gives every level as many weights; `kmeans` goes on from there until levels are the means of their
    weights; levels by hand are multiples of the layer's mean absolute weight.
    """
    flat = weights.ravel()
    if not isinstance(start, str):
        return jnp.sort(jnp.asarray(start, weights.dtype)) * jnp.abs(flat).mean()
    quantiles = jnp.quantile(flat, (jnp.arange(levels) + 0.5) / levels).astype(weights.dtype)
    return quantiles if start == "quantiles" else fit_levels(flat, quantiles)


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
