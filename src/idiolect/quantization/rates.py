"""Schedules of step sizes, and of the strength of the pull towards levels."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple, TypeAlias

import jax.numpy as jnp
from annotated_types import Ge, Gt

from idiolect.contracts import Scalar


class Changing(NamedTuple):
    """(value + growth k) decay^k drop^j, after k whole periods of `every` local steps and j of the steps in `at`.

    QuPeL's lambda(t) = 1e-4 t is `growth = 1e-4` with an epoch's steps in `every`; its eta2 has `drop = 0.1`.
    """

    value: Annotated[float, Ge(0)] = 0.0
    growth: Annotated[float, Ge(0)] = 0.0
    decay: Annotated[float, Gt(0)] = 1.0
    every: Annotated[int, Ge(1)] = 1
    at: Sequence[Annotated[int, Ge(1)]] = ()
    drop: Annotated[float, Gt(0)] = 0.1


Rate: TypeAlias = Annotated[float, Ge(0)] | Changing


def rate_at(rate: Rate, step: Scalar) -> Scalar:
    """The rate after so many local steps."""
    if not isinstance(rate, Changing):
        return jnp.float32(rate)
    periods = (step // rate.every).astype(jnp.float32)
    dropped = sum((step >= moment).astype(jnp.float32) for moment in rate.at)
    return jnp.asarray((rate.value + rate.growth * periods) * rate.decay**periods * rate.drop**dropped, jnp.float32)


def is_zero(rate: Rate) -> bool:
    """Is it zero for ever?"""
    return rate.value == rate.growth == 0 if isinstance(rate, Changing) else rate == 0
