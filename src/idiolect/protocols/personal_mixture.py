"""Every client has a model of its own, and models are drawn to their average.

F. Hanzely, P. Richtarik. Federated learning of a mixture of global and local models (L2GD). 2020, Algorithm 1. It
minimises the mean of f_i(x_i) + lambda/2 ||x_i - average||^2 over everybody's x_i.

| L2GD, Alg. 1 | code |
| --- | --- |
| with probability 1 - p: x_i <- x_i - alpha / (n (1 - p)) grad f_i(x_i) | a local step of `turn` |
| with probability p: x_i <- (1 - alpha lambda / (n p)) x_i + alpha lambda / (n p) average | how `turn` begins |

Between two averages the coin falls on (1 - p) / p local steps in the mean. With Q of them and a step size eta, which is
alpha / (n (1 - p)), the share that an average takes is alpha lambda / (n p) = lambda eta Q.

Deviations: a turn has Q local steps, where the paper's coin makes the number random. Clients send how their model has
moved, so that the average is that of all clients while some of them rest. A client begins, in its first turn, with the
average of that time; so does one that never has a turn, and that is its model.

Laws: with `lambda = 0` it is `local`, to rounding; with lambda eta Q = 1 and everyone it is FedAvg.
"""

from typing import Annotated, NamedTuple

import jax.numpy as jnp
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
from idiolect.errors import UserMistake
from idiolect.trees import in_types_of


class OwnModel(NamedTuple):
    """What stays on a client: its model, whether it never had a turn, and what its objective calls its own."""

    params: Params
    fresh: Scalar
    own: PyTree


class AverageRound(NamedTuple):
    """The average of all models, the first model, how far the average moves when the round closes, and n."""

    average: Params
    first: Params
    moved: Params
    clients: Scalar


def l2gd(*, lambda_: Annotated[float, Ge(0)] = 1.0, participation: Annotated[float, Gt(0), Le(1)] = 1.0) -> Protocol:
    """Train a model per client, each drawn to the average of all at the beginning of its turns.

    Args:
        lambda_: How strongly. Of the average a turn takes the share lambda times step size times local steps, which
            must not exceed 1.
        participation: The fraction of the clients that works in a round.

    Returns:
        The protocol.

    Example:
        >>> from idiolect.protocols import l2gd
        >>> l2gd(lambda_=0.5).schedule.rounds
        True
    """

    def init(params: Params, clients: int) -> AverageRound:
        return AverageRound(params, params, optax.tree.zeros_like(params), jnp.float32(clients))

    def absorb(state: AverageRound, upload: Upload, staleness: Scalar) -> AverageRound:
        # Until its first update, a client counts with the first model, but it begins with the average of its round.
        began = optax.tree.scale(upload.about, optax.tree.sub(state.average, state.first))
        moved = optax.tree.add(state.moved, optax.tree.sub(upload.delta, began))
        return state._replace(moved=in_types_of(moved, state.moved))

    def close(state: AverageRound) -> AverageRound:
        average = in_types_of(optax.tree.add_scale(state.average, -1 / state.clients, state.moved), state.average)
        return AverageRound(average, state.first, optax.tree.zeros_like(average), state.clients)

    def work(learner: Learner) -> Work:
        if learner.steps is None:
            raise UserMistake(
                "training.epochs is given, but protocol.lambda weighs the average against a fixed number of steps; "
                "give training.local_steps instead"
            )
        share = lambda_ * learner.step_size * learner.steps
        if not isinstance(share, float):  # the steps of this turn are longer or shorter than usual
            share = jnp.minimum(share, 1)
        elif share > 1:
            raise UserMistake(
                f"protocol.lambda is {lambda_:g}, which with training.step_size {learner.step_size:g} and "
                f"training.local_steps {learner.steps} takes {share:.3g} of the average; it must be at most "
                f"{1 / (learner.step_size * learner.steps):.4g}"
            )

        def begin(offer: Params, client: int, key: Key) -> OwnModel:
            return OwnModel(offer, jnp.float32(1), learner.begin(offer, client, key))

        def turn(personal: OwnModel, offer: Params, shard: Shard, key: Key) -> tuple[OwnModel, Upload, Info]:
            x, fresh, own = personal
            drawn = optax.tree.add_scale(x, share, optax.tree.sub(offer, x))  # Alg. 1, with probability p
            own, reached, info = learner.descend(own, drawn, None, shard, key)  # Alg. 1, with probability 1 - p
            return OwnModel(reached, 0 * fresh, own), Upload(optax.tree.sub(x, reached), shard.size, fresh), info

        return Work(begin, turn, model=lambda personal, offer: personal.params, own=lambda personal: personal.own)

    server = Server(init, lambda state: state.average, absorb, close, lambda state: state.average)
    return Protocol(server, work, Schedule(rounds=True, participation=participation))
