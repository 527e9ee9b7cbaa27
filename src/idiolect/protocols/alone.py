"""Every client alone: the baseline that shares nothing.

Deviations: a client keeps the calendar it would have as an asynchronous client, so that it does as much local work in
the same virtual time; what it would send is dropped.

Laws: clients never influence each other; with one client and `beta = 1` it does what `asynchronous` does.
"""

from typing import NamedTuple

import jax.numpy as jnp
import optax

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


def local() -> Protocol:
    """Train a model per client, from one common start, without any exchange.

    Returns:
        The protocol.

    Example:
        >>> from idiolect.protocols import local
        >>> local().shares
        False
    """

    def absorb(state: Params, upload: Upload, staleness: Scalar) -> Params:
        return state

    server = Server(
        init=lambda params, clients: params,
        offer=lambda state: state,
        absorb=absorb,
        close=lambda state: state,
        read=lambda state: state,
    )
    return Protocol(server, _keep_own_model, Schedule(rounds=False), shares=False)


class Alone(NamedTuple):
    """What a client has: its model, and what its objective calls its own."""

    params: Params
    own: PyTree


def _keep_own_model(learner: Learner) -> Work:
    def init(offer: Params, client: int, key: Key) -> Alone:
        return Alone(offer, learner.begin(offer, client, key))

    def turn(personal: Alone, offer: Params, shard: Shard, key: Key) -> tuple[Alone, Upload, Info]:
        own, params, info = learner.descend(personal.own, personal.params, None, shard, key)
        return Alone(params, own), Upload(optax.tree.zeros_like(offer), jnp.float32(0)), info

    return Work(init, turn, model=lambda personal, offer: personal.params, own=lambda personal: personal.own)
