"""The server moves as each update arrives, and waits for nobody.

M. T. Toghani, S. Lee, C. A. Uribe. PersA-FL. 2023, Algorithm 1. With staleness weights: C. Xie, S. Koyejo, I. Gupta.
Asynchronous federated optimization (FedAsync). 2019.

| PersA-FL, Alg. 1 | code |
| --- | --- |
| l. 3: an update arrives | the engine calls `absorb` |
| l. 4: w <- w - beta Delta | `absorb` |
| l. 5: t <- t + 1 | the timeline counts versions |

Deviations: optional staleness weights multiply beta; `constant` is the paper's algorithm. FedAsync's own server mixes
models, (1 - a) w + a w_i; moving along the client's difference, as here, is PersA-FL's form of it (Option A).

Laws: equals `buffered(size=1)` to the bit.
"""

from typing import Annotated

import optax
from annotated_types import Ge, Gt

from idiolect.contracts import Params, Protocol, Scalar, Schedule, Server, Upload
from idiolect.protocols.exchange import send_difference
from idiolect.protocols.staleness import Staleness, staleness_weight


def asynchronous(
    *,
    beta: Annotated[float, Gt(0)] = 1.0,
    staleness: Staleness = "constant",
    staleness_a: Annotated[float, Ge(0)] = 0.5,
    staleness_b: Annotated[float, Ge(0)] = 4.0,
) -> Protocol:
    """Move by `beta` times each update as it arrives, weighted by its staleness.

    Args:
        beta: The server's step.
        staleness: How old updates are weighted: `constant`, `hinge`, `polynomial` or `delay_adaptive`.
        staleness_a: How fast weights fall with staleness.
        staleness_b: Up to which staleness `hinge` and `delay_adaptive` let an update count in full.

    Returns:
        The protocol.

    Example:
        >>> from idiolect.protocols import asynchronous
        >>> asynchronous(staleness="polynomial").schedule.rounds
        False
    """
    weigh = staleness_weight(staleness, staleness_a, staleness_b)

    def absorb(state: Params, upload: Upload, staleness: Scalar) -> Params:
        # The weight first, then beta: the order in which a buffer of one would round.
        return optax.tree.add_scale(state, -beta, optax.tree.scale(weigh(staleness), upload.delta))  # Alg. 1, l. 4

    server = Server(
        init=lambda params, clients: params,
        offer=lambda state: state,
        absorb=absorb,
        close=lambda state: state,
        read=lambda state: state,
    )
    return Protocol(server, send_difference, Schedule(rounds=False))
