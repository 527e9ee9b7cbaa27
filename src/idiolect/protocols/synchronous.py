"""Rounds: a fraction of the clients works from the same model, the server waits for all of them and averages.

H. B. McMahan et al. Communication-efficient learning of deep networks from decentralized data (FedAvg). 2017,
Algorithm 1. A. Fallah, A. Mokhtari, A. Ozdaglar. Per-FedAvg. 2020, Algorithm 1, (10). C. T. Dinh, N. H. Tran,
T. D. Nguyen. pFedMe. 2020, Algorithm 1 (server mixing beta).

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

from typing import Annotated, Literal, NamedTuple

import jax.numpy as jnp
import optax
from annotated_types import Gt, Le

from idiolect.contracts import Params, Protocol, Scalar, Schedule, Server, Upload
from idiolect.protocols.exchange import send_difference


class RoundState(NamedTuple):
    """The model, and what has arrived in the round so far."""

    params: Params
    total: Params
    weight: Scalar


def synchronous(
    *,
    participation: Annotated[float, Gt(0), Le(1)] = 1.0,
    beta: Annotated[float, Gt(0)] = 1.0,
    weighting: Literal["uniform", "samples"] = "uniform",
) -> Protocol:
    """Average the work of a fraction `participation` of the clients a round; move by `beta` towards the average."""

    def init(params: Params, clients: int) -> RoundState:
        return RoundState(params, optax.tree.zeros_like(params), jnp.float32(0))

    def absorb(state: RoundState, upload: Upload, staleness: Scalar) -> RoundState:
        weight = jnp.float32(upload.weight) if weighting == "samples" else jnp.float32(1)
        total = optax.tree.add_scale(state.total, weight, upload.delta)
        return RoundState(state.params, total, state.weight + weight)

    def close(state: RoundState) -> RoundState:
        share = beta / jnp.maximum(state.weight, 1)
        params = optax.tree.add_scale(state.params, -share, state.total)  # Per-FedAvg (10); pFedMe, Alg. 1, l. 11
        return init(params, 0)

    server = Server(init, lambda state: state.params, absorb, close, lambda state: state.params)
    return Protocol(server, send_difference, Schedule(rounds=True, participation=participation))
