"""A buffer whose average counts everybody: those who are not in it by the last update that they sent.

Y. Wang, Y. Cao, J. Wu, R. Chen, J. Chen. Tackling the data heterogeneity in asynchronous federated learning with cached
update calibration (CA2FL). 2024, Algorithm 2.

| CA2FL, Alg. 2 | code |
| --- | --- |
| a client's update Delta_i against the cached one, Delta_i - h_i | `turn` |
| h_i <- Delta_i | `turn`, what the client keeps |
| every M updates: v = h + mean of (Delta_i - h_i), h the mean of the h_i of all N clients | `absorb` |
| x <- x + eta v | `absorb` |

Deviations: a client keeps its h_i itself and sends the difference, where the paper's server has a cache of everybody's
updates; the server needs h alone, which the differences move by 1 / N each. A client that is in a buffer twice counts
the second time against the first. What a server refuses, the client does not cache.

Laws: where clients send the same update again and again, v is the mean of all clients', whoever is in the buffer.
"""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt

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


class Cached(NamedTuple):
    """What stays on a client: the update that it sent last, and what its objective calls its own."""

    update: Params
    own: PyTree


class CalibratedBuffer(NamedTuple):
    """The model, the mean h of all cached updates, the sum of the differences that wait, how many, and N."""

    params: Params
    cached: Params
    waiting: Params
    filled: Scalar
    clients: Scalar


def calibrated(*, size: Annotated[int, Ge(1)] = 10, beta: Annotated[float, Gt(0)] = 1.0) -> Protocol:
    """Step, after every `size` updates, along the mean of everybody's last update, corrected by those that came.

    Args:
        size: M, the updates of a step.
        beta: The server's step.

    Returns:
        The protocol.

    Example:
        >>> from idiolect.protocols import calibrated
        >>> calibrated(size=5).schedule.updates_per_step
        5
    """

    def init(params: Params, clients: int) -> CalibratedBuffer:
        zeros = optax.tree.zeros_like(params)
        return CalibratedBuffer(params, zeros, zeros, jnp.int32(0), jnp.float32(clients))

    def leap(state: CalibratedBuffer) -> CalibratedBuffer:
        v = optax.tree.add_scale(state.cached, 1 / size, state.waiting)
        params = optax.tree.add_scale(state.params, -beta, v)
        cached = in_types_of(optax.tree.add_scale(state.cached, 1 / state.clients, state.waiting), state.cached)
        return CalibratedBuffer(params, cached, optax.tree.zeros_like(params), jnp.int32(0), state.clients)

    def absorb(state: CalibratedBuffer, upload: Upload, staleness: Scalar) -> CalibratedBuffer:
        state = state._replace(waiting=optax.tree.add(state.waiting, upload.delta), filled=state.filled + 1)
        return jax.lax.cond(state.filled == size, leap, lambda state: state, state)

    server = Server(init, lambda state: state.params, absorb, lambda state: state, lambda state: state.params)
    return Protocol(server, _send_news, Schedule(rounds=False, updates_per_step=size))


def _send_news(learner: Learner) -> Work:
    """A client that sends how its update differs from its last one."""

    def init(offer: Params, client: int, key: Key) -> Cached:
        return Cached(optax.tree.zeros_like(offer), learner.begin(offer, client, key))

    def turn(personal: Cached, offer: Params, shard: Shard, key: Key) -> tuple[Cached, Upload, Info]:
        own, reached, info = learner.descend(personal.own, offer, None, shard, key)
        update = optax.tree.sub(offer, reached)
        return Cached(update, own), Upload(optax.tree.sub(update, personal.update), shard.size), info

    return Work(init, turn, model=lambda personal, offer: offer, own=lambda personal: personal.own)
