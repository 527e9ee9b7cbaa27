"""Step sizes that change with the shared model: what a server offers says how long the steps of a turn are.

The rule is part of what is offered, so that clients need no calendar: a simulator, actors elsewhere and real devices do
the same. With rounds t is the number of rounds that have closed; without them, of updates absorbed (of `buffered`, of
full buffers). A turn keeps the pace of the version it began with, however late it comes to its end. Where nothing is
shared there are no versions, and t is the number of turns that the client has taken.

Deviations: models that an objective moves by itself (Ditto's, APFL's, QuPeL's x_i) step as that objective says.

Laws: a rule that is constant changes no byte.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import (
    Info,
    Key,
    Learner,
    Params,
    Protocol,
    PyTree,
    Scalar,
    Server,
    Shard,
    StepRule,
    Upload,
    Work,
)
from idiolect.contracts.protocol import ChooseModel
from idiolect.contracts.step_rules import decayed, is_constant, own_theta


class Counted(NamedTuple):
    """A state, and how much has come before it: rounds, updates, or turns of a client."""

    state: PyTree
    past: Scalar


class PacedOffer(NamedTuple):
    """What is offered, and how long the steps of a turn with it are, in step sizes."""

    offer: PyTree
    pace: Scalar


def pace_at(rule: StepRule, t: Scalar) -> Scalar:
    """theta(t) / c."""
    if rule.name == "own":
        theta = own_theta(rule)
        number = jax.eval_shape(lambda: jnp.float32(0))
        return jax.pure_callback(lambda t: np.float32(theta(int(t))), number, t, vmap_method="sequential")
    time = t.astype(jnp.float32)
    if rule.name == "decreasing":
        return 1 / (time + rule.offset)
    if rule.name == "inverse":
        return jnp.where(t > 0, 1 / jnp.maximum(time, 1), 0.0)  # PARS-Push, Proposition 1: theta(0) = 0
    return jnp.asarray(decayed(rule, t), jnp.float32)


def changing_steps(protocol: Protocol, rule: StepRule) -> Protocol:
    """The protocol whose clients step as the rule says; itself, if that is constant."""
    if is_constant(rule):
        return protocol
    if rule.name == "own":
        own_theta(rule)(0)  # so that a mistake shows before anybody works
    return _by_version(protocol, rule) if protocol.shares else _by_turn(protocol, rule)


def _by_version(protocol: Protocol, rule: StepRule) -> Protocol:
    server, rounds, each = protocol.server, protocol.schedule.rounds, protocol.schedule.updates_per_step
    pace = jax.jit(lambda past: pace_at(rule, past if rounds else past // each))

    def absorb(state: Counted, upload: Upload, staleness: Scalar) -> Counted:
        return Counted(server.absorb(state.state, upload, staleness), state.past + (not rounds))

    paced = Server(
        init=lambda params, clients: Counted(server.init(params, clients), jnp.int32(0)),
        offer=lambda state: PacedOffer(server.offer(state.state), pace(state.past)),
        absorb=absorb,
        close=lambda state: Counted(server.close(state.state), state.past + rounds),
        read=lambda state: server.read(state.state),
    )

    def work(learner: Learner) -> Work:
        plain = protocol.work(learner)

        def turn(personal: PyTree, offer: PacedOffer, shard: Shard, key: Key) -> tuple[PyTree, Upload, Info]:
            return protocol.work(learner.at(offer.pace)).turn(personal, offer.offer, shard, key)

        return Work(
            init=lambda offer, client, key: plain.init(offer.offer, client, key),
            turn=turn,
            model=lambda personal, offer: plain.model(personal, offer.offer),
            own=plain.own,
            choose=None if plain.choose is None else partial(_choose, plain.choose),
        )

    return protocol._replace(server=paced, work=work, sends=lambda offer: protocol.sends(offer.offer))


def _choose(choose: ChooseModel, personal: PyTree, offer: PacedOffer, shard: Shard, key: Key) -> PyTree:
    return choose(personal, offer.offer, shard, key)


def _by_turn(protocol: Protocol, rule: StepRule) -> Protocol:
    def work(learner: Learner) -> Work:
        plain = protocol.work(learner)

        def turn(personal: Counted, offer: Params, shard: Shard, key: Key) -> tuple[Counted, Upload, Info]:
            paced = protocol.work(learner.at(pace_at(rule, personal.past)))
            kept, upload, info = paced.turn(personal.state, offer, shard, key)
            return Counted(kept, personal.past + 1), upload, info

        return Work(
            init=lambda offer, client, key: Counted(plain.init(offer, client, key), jnp.int32(0)),
            turn=turn,
            model=lambda personal, offer: plain.model(personal.state, offer),
            own=lambda personal: plain.own(personal.state),
        )

    return protocol._replace(work=work)
