"""The server mixes each model that arrives into its own, and waits for nobody.

C. Xie, S. Koyejo, I. Gupta. Asynchronous federated optimization (FedAsync). 2019, Algorithm 1.

| FedAsync, Alg. 1 | code |
| --- | --- |
| server: x_t = (1 - alpha_t) x_{t-1} + alpha_t x_new | `absorb` |
| server: alpha_t = alpha s(t - tau) | `staleness_weight` |
| worker: local steps on f + rho/2 ||x - x_t||^2, send x | the objective (`proximal`), `_send_model` |

Deviations: a worker takes a fixed number of local steps. `asynchronous` is the other form, which moves along a client's
difference (PersA-FL, Option A); the two differ as soon as the server has moved on while a client worked.

Laws: with alpha = 1 and one client the server's model is the client's.
"""

from typing import Annotated

import optax
from annotated_types import Ge, Gt, Le

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
from idiolect.protocols.staleness import Staleness, staleness_weight


def mixing(
    *,
    alpha: Annotated[float, Gt(0), Le(1)] = 0.6,
    staleness: Staleness = "constant",
    staleness_a: Annotated[float, Ge(0)] = 0.5,
    staleness_b: Annotated[float, Ge(0)] = 4.0,
) -> Protocol:
    """Replace a share `alpha` of the model by each model that arrives, less by an old one.

    Args:
        alpha: The share.
        staleness: How old models are weighted: `constant`, `hinge`, `polynomial` or `delay_adaptive`.
        staleness_a: How fast weights fall with staleness.
        staleness_b: Up to which staleness `hinge` and `delay_adaptive` let a model count in full.

    Returns:
        The protocol.

    Example:
        >>> from idiolect.protocols import mixing
        >>> mixing(alpha=0.6).schedule.rounds
        False
    """
    weigh = staleness_weight(staleness, staleness_a, staleness_b)

    def absorb(state: Params, upload: Upload, staleness: Scalar) -> Params:
        share = alpha * weigh(staleness)
        return optax.tree.add_scale(state, share, optax.tree.sub(upload.delta, state))  # Alg. 1, server

    server = Server(
        init=lambda params, clients: params,
        offer=lambda state: state,
        absorb=absorb,
        close=lambda state: state,
        read=lambda state: state,
    )
    return Protocol(server, _send_model, Schedule(rounds=False))


def _send_model(learner: Learner) -> Work:
    """A client that sends the model it has reached."""

    def turn(own: PyTree, offer: Params, shard: Shard, key: Key) -> tuple[PyTree, Upload, Info]:
        own, reached, info = learner.descend(own, offer, None, shard, key)
        return own, Upload(reached, shard.size), info

    return Work(learner.begin, turn, model=lambda own, offer: offer, own=lambda own: own)
