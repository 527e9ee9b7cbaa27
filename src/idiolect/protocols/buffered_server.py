"""The server collects K updates, as they arrive, and then takes one step.

J. Nguyen, K. Malik, H. Zhan, A. Yousefpour, M. Rabbat, M. Malek, D. Huba. Federated learning with buffered asynchronous
aggregation (FedBuff). 2022, Algorithm 1. Robust combinations: see `idiolect.protocols.robust`; adaptive steps: see
`idiolect.protocols.server_optimizers`.

| FedBuff, Alg. 1 | code |
| --- | --- |
| server: add the update to the buffer, weighted by its staleness | `absorb` |
| server: every K updates, w <- w - eta_g * average of the buffer | `absorb` |

Deviations: differential privacy and secure aggregation, which the paper discusses, are left out.

Laws: `buffered(size=1)` is `asynchronous`, to the bit.
"""

from collections.abc import Callable
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Lt

from idiolect.contracts import Params, Protocol, PyTree, Scalar, Schedule, Server, Upload
from idiolect.protocols.exchange import send_difference
from idiolect.protocols.robust import Combine, Held, add, clip, combination, hold
from idiolect.protocols.server_step import Server as Optimizer
from idiolect.protocols.server_step import ServerStep, server_step
from idiolect.protocols.staleness import Staleness, staleness_weight


class Buffer(NamedTuple):
    """The model, the sum of what waits, how many updates that is, and what the server's optimizer knows."""

    params: Params
    waiting: Params
    filled: Scalar
    optimizer: PyTree = ()


class HeldBuffer(NamedTuple):
    """The same where updates are held one by one."""

    held: Held
    optimizer: PyTree = ()


def buffered(
    *,
    size: Annotated[int, Ge(1)] = 10,
    beta: Annotated[float, Gt(0)] = 1.0,
    staleness: Staleness = "constant",
    staleness_a: Annotated[float, Ge(0)] = 0.5,
    staleness_b: Annotated[float, Ge(0)] = 4.0,
    combine: Combine = "mean",
    trim: Annotated[float, Ge(0), Lt(0.5)] = 0.2,
    clip_norm: Annotated[float, Gt(0)] | None = None,
    server: Optimizer = None,
) -> Protocol:
    """Step by `beta` times the average of every `size` updates, each weighted by its staleness.

    Args:
        size: K, the updates of a step.
        beta: The server's step.
        staleness: How old updates are weighted: `constant`, `hinge`, `polynomial` or `delay_adaptive`.
        staleness_a: How fast weights fall with staleness.
        staleness_b: Up to which staleness `hinge` and `delay_adaptive` let an update count in full.
        combine: By means or, to guard against clients that lie, by medians or trimmed means of coordinates, or by
            geometric medians, centered clipping or Krum. All of them leave out something of honest clients that are
            unlike the others; what that costs is measured in docs/lies.md.
        trim: The share that a trimmed mean leaves out at each end; for Krum, the share of clients that may lie.
        clip_norm: Bounds the length of every update, which guards against clients that lie as well.
        server: An optimizer that steps along the average in place of `beta`: `sgd` (with momentum), `adam`, `yogi` or
            `adagrad`; in Python, also any of optax's.

    Returns:
        The protocol.

    Example:
        >>> from idiolect.protocols import buffered
        >>> buffered(size=5).schedule.updates_per_step
        5
    """
    weigh = staleness_weight(staleness, staleness_a, staleness_b)
    schedule, step = Schedule(rounds=False, updates_per_step=size), server_step(beta, server)
    if combine != "mean":
        return _robust(schedule, step, weigh, combination(combine, trim), clip_norm)

    def init(params: Params, clients: int) -> Buffer:
        return Buffer(params, optax.tree.zeros_like(params), jnp.int32(0), step.init(params))

    def leap(state: Buffer) -> Buffer:
        optimizer, params = step.move(state.optimizer, state.params, state.waiting, size)
        return Buffer(params, optax.tree.zeros_like(params), jnp.int32(0), optimizer)

    def absorb(state: Buffer, upload: Upload, staleness: Scalar) -> Buffer:
        waiting = optax.tree.add_scale(state.waiting, weigh(staleness), clip(upload.delta, clip_norm))
        state = state._replace(waiting=waiting, filled=state.filled + 1)
        return jax.lax.cond(state.filled == size, leap, lambda state: state, state)

    served = Server(init, lambda state: state.params, absorb, lambda state: state, lambda state: state.params)
    return Protocol(served, send_difference, schedule)


def _robust(
    schedule: Schedule,
    step: ServerStep,
    weigh: Callable[[Scalar], Scalar],
    combine: Callable[[PyTree, Scalar], Params],
    clip_norm: float | None,
) -> Protocol:
    """The same buffer; weighted updates are held one by one until it is full."""
    size = schedule.updates_per_step

    def init(params: Params, clients: int) -> HeldBuffer:
        return HeldBuffer(hold(params, size), step.init(params))

    def leap(state: HeldBuffer) -> HeldBuffer:
        (params, rows, filled), optimizer = state
        optimizer, params = step.move(optimizer, params, combine(rows, filled), 1)
        return HeldBuffer(Held(params, rows, jnp.int32(0)), optimizer)

    def absorb(state: HeldBuffer, upload: Upload, staleness: Scalar) -> HeldBuffer:
        held = add(state.held, optax.tree.scale(weigh(staleness), clip(upload.delta, clip_norm)))
        state = state._replace(held=held)
        return jax.lax.cond(held.filled == size, leap, lambda state: state, state)

    served = Server(init, lambda state: state.held.params, absorb, lambda state: state, lambda state: state.held.params)
    return Protocol(served, send_difference, schedule)
