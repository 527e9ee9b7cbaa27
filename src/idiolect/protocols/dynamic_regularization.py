"""Rounds in which every client's loss is bent so that its own minimiser agrees with everybody's.

D. A. E. Acar, Y. Zhao, R. Matas Navarro, M. Mattina, P. N. Whatmough, V. Saligrama. Federated learning based on dynamic
regularization (FedDyn). 2021, Algorithm 1.

| FedDyn, Alg. 1 | code |
| --- | --- |
| theta_k minimises L_k - <grad L_k(theta_k^{t-1}), theta> + alpha/2 ||theta - theta^{t-1}||^2 | `turn`, by drift |
| grad L_k(theta_k^t) = grad L_k(theta_k^{t-1}) - alpha (theta_k^t - theta^{t-1}) | `turn`, what the client keeps |
| h^t = h^{t-1} - alpha / m sum_k (theta_k^t - theta^{t-1}) | `close` |
| theta^t = mean of the theta_k^t - h^t / alpha | `close` |

Deviations: the client's problem is solved by the learner's fixed number of local steps. A round nobody finishes changes
nothing.

Laws: where the clients' steps reach their minimisers, a run stands still only at a stationary point of the average
loss, which FedAvg's does not.
"""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Gt, Le

from idiolect.contracts import (
    Info,
    Key,
    Learner,
    Params,
    Protocol,
    PyTree,
    Scalar,
    Schedule,
    Server,
    Shard,
    Upload,
    Work,
)
from idiolect.trees import in_types_of


class Bent(NamedTuple):
    """What stays on a client: its last gradient as the algorithm tracks it, and what its objective calls its own."""

    gradient: Params
    own: PyTree


class DynamicRound(NamedTuple):
    """The server's theta and h, the sum of what has arrived in the round, of how many, and m."""

    params: Params
    h: Params
    total: Params
    arrived: Scalar
    clients: Scalar


def feddyn(*, alpha: Annotated[float, Gt(0)] = 0.1, participation: Annotated[float, Gt(0), Le(1)] = 1.0) -> Protocol:
    """Average models over rounds, and correct for where each client's loss would pull by itself.

    Args:
        alpha: How strongly clients are held near the model they receive.
        participation: The fraction of the clients that works in a round.

    Returns:
        The protocol.

    Example:
        >>> from idiolect.protocols import feddyn
        >>> feddyn(alpha=0.1, participation=0.5).schedule.cohort(10)
        5
    """

    def init(params: Params, clients: int) -> DynamicRound:
        zeros = optax.tree.zeros_like(params)
        return DynamicRound(params, zeros, zeros, jnp.float32(0), jnp.float32(clients))

    def absorb(state: DynamicRound, upload: Upload, staleness: Scalar) -> DynamicRound:
        return state._replace(total=optax.tree.add(state.total, upload.delta), arrived=state.arrived + 1)

    def close(state: DynamicRound) -> DynamicRound:
        # `total` is the sum of theta^{t-1} - theta_k^t.
        h = in_types_of(optax.tree.add_scale(state.h, alpha / state.clients, state.total), state.h)
        mean = optax.tree.add_scale(state.params, -1 / jnp.maximum(state.arrived, 1), state.total)
        params = in_types_of(optax.tree.add_scale(mean, -1 / alpha, h), state.params)
        params, h = jax.tree.map(
            lambda new, old: jnp.where(state.arrived > 0, new, old), (params, h), (state.params, state.h)
        )
        return DynamicRound(params, h, optax.tree.zeros_like(params), jnp.float32(0), state.clients)

    def work(learner: Learner) -> Work:
        def begin(offer: Params, client: int, key: Key) -> Bent:
            return Bent(optax.tree.zeros_like(offer), learner.begin(offer, client, key))

        def turn(personal: Bent, offer: Params, shard: Shard, key: Key) -> tuple[Bent, Upload, Info]:
            def drift(theta: Params) -> Params:
                return optax.tree.add_scale(
                    optax.tree.scale(alpha, optax.tree.sub(theta, offer)), -1.0, personal.gradient
                )

            own, reached, info = learner.descend(personal.own, offer, drift, shard, key)
            moved = optax.tree.sub(offer, reached)
            gradient = optax.tree.add_scale(personal.gradient, alpha, moved)
            return Bent(gradient, own), Upload(moved, shard.size), info

        return Work(begin, turn, model=lambda personal, offer: offer, own=lambda personal: personal.own)

    server = Server(init, lambda state: state.params, absorb, close, lambda state: state.params)
    return Protocol(server, work, Schedule(rounds=True, participation=participation))
