"""The server collects K updates, as they arrive, and then takes one step.

J. Nguyen, K. Malik, H. Zhan, A. Yousefpour, M. Rabbat, M. Malek, D. Huba. Federated learning with buffered asynchronous
aggregation (FedBuff). 2022, Algorithm 1.

| FedBuff, Alg. 1 | code |
| --- | --- |
| server: add the update to the buffer, weighted by its staleness | `absorb` |
| server: every K updates, w <- w - eta_g * average of the buffer | `absorb` |

Deviations: differential privacy and secure aggregation, which the paper discusses, are left out.

Laws: `buffered(size=1)` is `asynchronous`, to the bit.
"""

from typing import Annotated, NamedTuple

import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt

from idiolect.contracts import Params, Protocol, Scalar, Schedule, Server, Upload
from idiolect.protocols.exchange import send_difference
from idiolect.protocols.staleness import Staleness, staleness_weight


class Buffer(NamedTuple):
    """The model, the sum of what waits, and how many updates that is."""

    params: Params
    waiting: Params
    filled: Scalar


def buffered(
    *,
    size: Annotated[int, Ge(1)] = 10,
    beta: Annotated[float, Gt(0)] = 1.0,
    staleness: Staleness = "constant",
    staleness_a: Annotated[float, Ge(0)] = 0.5,
    staleness_b: Annotated[float, Ge(0)] = 4.0,
) -> Protocol:
    """Step by `beta` times the average of every `size` updates, each weighted by its staleness."""
    weigh = staleness_weight(staleness, staleness_a, staleness_b)

    def init(params: Params, clients: int) -> Buffer:
        return Buffer(params, optax.tree.zeros_like(params), jnp.int32(0))

    def absorb(state: Buffer, upload: Upload, staleness: Scalar) -> Buffer:
        waiting = optax.tree.add_scale(state.waiting, weigh(staleness), upload.delta)
        full = state.filled + 1 == size
        step, keep = jnp.where(full, beta / size, 0.0), jnp.where(full, 0.0, 1.0)
        params = optax.tree.add_scale(state.params, -step, waiting)
        return Buffer(params, optax.tree.scale(keep, waiting), jnp.where(full, 0, state.filled + 1))

    server = Server(init, lambda state: state.params, absorb, lambda state: state, lambda state: state.params)
    return Protocol(server, send_difference, Schedule(rounds=False, updates_per_step=size))
