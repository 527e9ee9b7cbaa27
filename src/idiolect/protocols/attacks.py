"""Clients that misbehave, for experiments: some of them falsify what they send, whatever the algorithm.

An attack wraps the clients' side of a protocol. Honest clients do to the bit what they would do without it, and the
server cannot tell who is who.
"""

import math
from functools import partial
from typing import Annotated, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Gt

from idiolect.contracts import Info, Key, Learner, Params, Protocol, PyTree, Scalar, Shard, Upload, Work
from idiolect.contracts.protocol import ChooseModel
from idiolect.errors import UserMistake

_APART = 2**31 - 1  # what the honest turn splits off its key has small numbers
Kind: TypeAlias = Literal["sign_flip", "nan", "scale", "noise"]


class Attack(NamedTuple):
    """Who falsifies its updates, and how.

    Args:
        clients: A share, spread evenly over their numbers (of 0.2, every fifth), or a list.
        kind: `sign_flip` sends -scale times the honest update, `scale` scale times the update, `noise` adds Gaussian
            noise scale times as long as the update, `nan` sends nothing but NaN.
        scale: How much.

    Example:
        >>> from idiolect import Attack
        >>> Attack(0.2, "noise", scale=2.0).kind
        'noise'
    """

    clients: float | list[int]
    kind: Kind = "sign_flip"
    scale: Annotated[float, Gt(0)] = 10.0


class AttackedState(NamedTuple):
    """What stays on a client: whether it lies, and what it would keep anyway."""

    lies: Scalar | np.bool_
    honest: PyTree


def attackers(attack: Attack, clients: int) -> frozenset[int]:
    """The clients that lie."""
    who = attack.clients
    if isinstance(who, list):
        strangers = [client for client in who if not 0 <= client < clients]
        if strangers:
            raise UserMistake(f"attack.clients has {strangers[0]}, but clients are 0 to {clients - 1}")
        return frozenset(who)
    if not 0 <= who <= 1:
        raise UserMistake(f"attack.clients is {who}, but must be a share from 0 to 1 or a list of clients")
    reached = [math.floor(who * client + 1e-9) for client in range(clients + 1)]
    return frozenset(client for client in range(clients) if reached[client + 1] > reached[client])


def under_attack(protocol: Protocol, attack: Attack, clients: int) -> Protocol:
    """The protocol, with some of its clients lying."""
    liars = attackers(attack, clients)

    def work(learner: Learner) -> Work:
        honest = protocol.work(learner)

        def init(offer: PyTree, client: int, key: Key) -> AttackedState:
            return AttackedState(np.bool_(client in liars), honest.init(offer, client, key))

        def turn(personal: AttackedState, offer: PyTree, shard: Shard, key: Key) -> tuple[AttackedState, Upload, Info]:
            kept, upload, info = honest.turn(personal.honest, offer, shard, key)
            lie = falsified(upload.delta, attack, jax.random.fold_in(key, _APART))
            said = jax.tree.map(lambda false, true: jnp.where(personal.lies, false, true), lie, upload.delta)
            return AttackedState(jnp.asarray(personal.lies), kept), upload._replace(delta=said), info

        return Work(
            init,
            turn,
            model=lambda personal, offer: honest.model(personal.honest, offer),
            own=lambda personal: honest.own(personal.honest),
            choose=None if honest.choose is None else partial(_choose, honest.choose),
        )

    return protocol._replace(work=work)


def _choose(choose: ChooseModel, personal: AttackedState, offer: PyTree, shard: Shard, key: Key) -> AttackedState:
    return personal._replace(honest=choose(personal.honest, offer, shard, key))


def falsified(delta: Params, attack: Attack, key: Key) -> Params:
    """What a liar sends in place of its update."""
    if attack.kind == "noise":
        leaves, structure = jax.tree.flatten(delta)
        keys = jax.random.split(key, len(leaves))
        drawn = [jax.random.normal(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)]
        # Each array has noise of its own length, so that no layer is drowned by another's.
        spreads = [attack.scale * jnp.sqrt(jnp.square(x).mean()) for x in leaves]
        noisy = [x + s * z for x, s, z in zip(leaves, spreads, drawn, strict=True)]
        return jax.tree.unflatten(structure, noisy)
    factor = {"nan": math.nan, "scale": attack.scale, "sign_flip": -attack.scale}[attack.kind]
    return jax.tree.map(lambda leaf: factor * leaf, delta)
