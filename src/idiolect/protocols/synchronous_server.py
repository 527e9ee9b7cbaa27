"""Rounds: a fraction of the clients works from the same model, the server waits for all of them and averages.

H. B. McMahan et al. Communication-efficient learning of deep networks from decentralized data (FedAvg). 2017,
Algorithm 1. A. Fallah, A. Mokhtari, A. Ozdaglar. Per-FedAvg. 2020, Algorithm 1, (10). C. T. Dinh, N. H. Tran,
T. D. Nguyen. pFedMe. 2020, Algorithm 1 (server mixing beta). Robust combinations: see `idiolect.protocols.robust`;
adaptive steps (FedAdam, FedYogi, FedAdagrad, FedAvgM): see `idiolect.protocols.server_optimizers`.

| paper | code |
| --- | --- |
| Per-FedAvg, Alg. 1: choose rn users, send w_k | the timeline's rounds, `offer` |
| Per-FedAvg (10): average of the models received | `close`, `beta=1`, `weighting="uniform"` |
| FedAvg, Alg. 1: weights n_k / n | `weighting="samples"` |
| pFedMe, Alg. 1, l. 11: (1 - beta) w + beta average | `close` |

Deviations: differences are averaged rather than models, which is the same thing; a client that drops out of a round
is left out of that round's average, and a round nobody finishes changes nothing.

Laws: with everyone, no delay and `beta = 1` a run equals a hand-written FedAvg loop bit for bit.
"""

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Le, Lt

from idiolect.contracts import Params, Protocol, PyTree, Scalar, Schedule, Server, Upload
from idiolect.errors import UserMistake
from idiolect.protocols.exchange import send_difference
from idiolect.protocols.robust import Combine, Held, add, clip, combination, hold
from idiolect.protocols.server_step import Server as Optimizer
from idiolect.protocols.server_step import ServerStep, server_step


class RoundState(NamedTuple):
    """The model, what has arrived in the round so far, and what the server's optimizer knows."""

    params: Params
    total: Params
    weight: Scalar
    optimizer: PyTree = ()


class HeldRound(NamedTuple):
    """The same where updates are held one by one."""

    held: Held
    optimizer: PyTree = ()


def synchronous(
    *,
    participation: Annotated[float, Gt(0), Le(1)] = 1.0,
    beta: Annotated[float, Gt(0)] = 1.0,
    weighting: Literal["uniform", "samples"] = "uniform",
    combine: Combine = "mean",
    trim: Annotated[float, Ge(0), Lt(0.5)] = 0.2,
    clip_norm: Annotated[float, Gt(0)] | None = None,
    server: Optimizer = None,
) -> Protocol:
    """Average the work of a fraction `participation` of the clients a round; move by `beta` towards the average.

    Args:
        participation: The fraction of the clients that works in a round.
        beta: The server's step.
        weighting: Whether clients count alike, or by their samples.
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
        >>> from idiolect.protocols import synchronous
        >>> synchronous(participation=0.2).schedule.cohort(30)
        6
    """
    schedule, step = Schedule(rounds=True, participation=participation), server_step(beta, server)
    if combine != "mean":
        if weighting == "samples":
            raise UserMistake(
                f"protocol.combine is '{combine}', which counts everyone alike, but protocol.weighting is 'samples'"
            )
        return _robust(schedule, step, combination(combine, trim), clip_norm)

    def init(params: Params, clients: int) -> RoundState:
        return RoundState(params, optax.tree.zeros_like(params), jnp.float32(0), step.init(params))

    def absorb(state: RoundState, upload: Upload, staleness: Scalar) -> RoundState:
        weight = jnp.float32(upload.weight) if weighting == "samples" else jnp.float32(1)
        total = optax.tree.add_scale(state.total, weight, clip(upload.delta, clip_norm))
        return state._replace(total=total, weight=state.weight + weight)

    def close(state: RoundState) -> RoundState:
        moved = step.move(state.optimizer, state.params, state.total, jnp.maximum(state.weight, 1))  # Per-FedAvg (10)
        optimizer, params = _unless_empty(state.weight, moved, (state.optimizer, state.params))
        return RoundState(params, optax.tree.zeros_like(params), jnp.float32(0), optimizer)

    served = Server(init, lambda state: state.params, absorb, close, lambda state: state.params)
    return Protocol(served, send_difference, schedule)


def _unless_empty(arrived: Scalar, moved: PyTree, still: PyTree) -> PyTree:
    """Nobody has finished the round: not even momentum moves the server."""
    return jax.tree.map(lambda new, old: jnp.where(arrived > 0, new, old), moved, still)


def _robust(
    schedule: Schedule, step: ServerStep, combine: Callable[[PyTree, Scalar], Params], clip_norm: float | None
) -> Protocol:
    """The same rounds; updates are held one by one until the round closes."""

    def init(params: Params, clients: int) -> HeldRound:
        return HeldRound(hold(params, schedule.cohort(clients)), step.init(params))

    def absorb(state: HeldRound, upload: Upload, staleness: Scalar) -> HeldRound:
        return state._replace(held=add(state.held, clip(upload.delta, clip_norm)))

    def close(state: HeldRound) -> HeldRound:
        (params, rows, filled), optimizer = state
        moved = step.move(optimizer, params, combine(rows, filled), 1)
        optimizer, params = _unless_empty(filled, moved, (optimizer, params))
        return HeldRound(Held(params, rows, jnp.int32(0)), optimizer)

    served = Server(init, lambda state: state.held.params, absorb, close, lambda state: state.held.params)
    return Protocol(served, send_difference, schedule._replace(cohort_only=True))
