"""Rounds with control variates, which correct the drift of clients whose data differ.

S. P. Karimireddy, S. Kale, M. Mohri, S. J. Reddi, S. U. Stich, A. T. Suresh. SCAFFOLD: stochastic controlled averaging
for federated learning. 2020, Algorithm 1.

| SCAFFOLD, Alg. 1 | code |
| --- | --- |
| l. 5: send x and c | `offer` |
| l. 7-11: y <- y - eta_l (g_i(y) - c_i + c) | `turn`, through the learner's drift |
| l. 12, option I: c_i+ <- g_i(x) | `turn`, `option="I"` |
| l. 12, option II: c_i+ <- c_i - c + (x - y) / (K eta_l) | `turn`, `option="II"` |
| l. 13-14: send the differences, keep c_i+ | `turn` |
| l. 16-17: x <- x + eta_g mean(dy), c <- c + |S|/N mean(dc) | `close` |

Deviations: option I's pass over the local data is the mean of K gradient estimates at x, one for each local step. A
client that drops out of a round keeps its old c_i. Where clients have an optimizer, option II's difference is their
mean direction and not their mean gradient; option I's is the gradient.

Laws: with c = c_i = 0 forever it would be `synchronous`; c stays the mean of the c_i while everyone takes part.
"""

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

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


class Variates(NamedTuple):
    """A model and a control variate: what travels, in both directions."""

    params: Params
    control: Params


class Controlled(NamedTuple):
    """What stays on a client: its control variate c_i, and what its objective calls its own."""

    control: Params
    own: PyTree


class ControlledRound(NamedTuple):
    """The server's x and c, and the sums of what has arrived in the round."""

    current: Variates
    total: Variates
    arrived: Scalar
    clients: Scalar


def scaffold(
    *,
    option: Literal["I", "II"] = "II",
    participation: Annotated[float, Gt(0), Le(1)] = 1.0,
    beta: Annotated[float, Gt(0)] = 1.0,
) -> Protocol:
    """Average differences of models (server step `beta`) and of control variates over rounds.

    Args:
        option: How a client renews its control variate: I, by a gradient at the model received, which costs as many
            gradients again; II, by how far it went, which its authors take in their experiments.
        participation: The fraction of the clients that works in a round.
        beta: The server's step.

    Returns:
        The protocol.

    Example:
        >>> from idiolect.protocols import scaffold
        >>> scaffold(participation=0.5).schedule.cohort(10)
        5
    """

    def init(params: Params, clients: int) -> ControlledRound:
        zeros = optax.tree.zeros_like(params)
        return ControlledRound(Variates(params, zeros), Variates(zeros, zeros), jnp.float32(0), jnp.float32(clients))

    def absorb(state: ControlledRound, upload: Upload, staleness: Scalar) -> ControlledRound:
        return state._replace(total=optax.tree.add(state.total, upload.delta), arrived=state.arrived + 1)

    def close(state: ControlledRound) -> ControlledRound:
        x, c = state.current
        moved, turned = state.total
        x = optax.tree.add_scale(x, -beta / jnp.maximum(state.arrived, 1), moved)  # l. 16-17
        c = optax.tree.add_scale(c, -1 / state.clients, turned)  # |S|/N times the mean is the sum over N
        zeros = optax.tree.zeros_like(state.total)
        return ControlledRound(Variates(x, c), zeros, jnp.float32(0), state.clients)

    server = Server(init, lambda state: state.current, absorb, close, lambda state: state.current.params)
    return Protocol(server, _controlled(option), Schedule(rounds=True, participation=participation))


def _controlled(option: Literal["I", "II"]) -> Callable[[Learner], Work]:
    def work(learner: Learner) -> Work:
        def init(offer: Variates, client: int, key: Key) -> Controlled:
            return Controlled(optax.tree.zeros_like(offer.control), learner.begin(offer.params, client, key))

        def turn(personal: Controlled, offer: Variates, shard: Shard, key: Key) -> tuple[Controlled, Upload, Info]:
            x, c = offer
            c_i, own = personal
            descent, second_pass = jax.random.split(key)
            correction = optax.tree.sub(c, c_i)
            moved, y, info = learner.descend(own, x, lambda y: correction, shard, descent)  # l. 7-11
            if option == "I":
                renewed = _mean_gradient(learner, own, x, shard, second_pass)  # l. 12, I
            else:
                speed = optax.tree.scale(1 / (learner.steps_on(shard) * learner.step_size), optax.tree.sub(x, y))
                renewed = in_types_of(optax.tree.add(optax.tree.sub(c_i, c), speed), c_i)  # l. 12, II
            delta = Variates(optax.tree.sub(x, y), optax.tree.sub(c_i, renewed))
            return Controlled(renewed, moved), Upload(delta, shard.size), info  # l. 13-14

        return Work(init, turn, model=lambda personal, offer: offer.params, own=lambda personal: personal.own)

    return work


def _mean_gradient(learner: Learner, own: PyTree, params: Params, shard: Shard, key: Key) -> Params:
    def add(total: Params, key: Key) -> tuple[Params, Info]:
        return optax.tree.add(total, learner.gradient(own, params, shard, key)), {}

    total, _ = learner.fold(add, optax.tree.zeros_like(params), shard, key)
    return in_types_of(optax.tree.scale(1 / learner.steps_on(shard), total), params)
