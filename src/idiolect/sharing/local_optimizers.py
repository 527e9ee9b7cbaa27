"""Local optimizers: clients that step along momentum or Adam's direction, and keep to themselves what these know.

B. T. Polyak. Some methods of speeding up the convergence of iteration methods. 1964 (momentum). D. P. Kingma, J. Ba.
Adam: a method for stochastic optimization. 2015, Algorithm 1. Both from optax.

| paper | code |
| --- | --- |
| momentum: d <- beta1 d + g, w <- w - eta d | `optax.trace` |
| Adam, Alg. 1: bias-corrected averages of g and of g^2, w <- w - eta m / (sqrt(v) + epsilon) | `optax.scale_by_adam` |

An optimizer stands between an objective's gradient, a protocol's drift included (SCAFFOLD's c - c_i), and the client's
step, so it serves every objective that descends by steps: f_i, FedProx's, MAML's outer steps, Moreau's outer steps. A
model that an objective moves by itself (Ditto's, APFL's, QuPeL's x_i) steps as that objective says. What is private
steps by the same rule as what is shared, with averages of its own: both rules work coordinate by coordinate.

Deviations: none. With `keep`, averages are the client's from one turn to the next, in its personal state and in
checkpoints; without, every turn begins afresh. They never travel.

Laws: `momentum` with beta1 = 0 is `sgd`; where a part does not learn in a step (FedRep), its averages stand still.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from idiolect.contracts import (
    Algorithm,
    Compressed,
    Info,
    Key,
    LocalOptimizer,
    Objective,
    Oracle,
    Params,
    PyTree,
    Scalar,
)
from idiolect.errors import UserMistake
from idiolect.trees import in_types_of


class LocalRule(NamedTuple):
    """What an optimizer knows of a part of the model at first, and how it turns a gradient into a direction."""

    init: Callable[[Params], PyTree]
    direct: Callable[[PyTree, Params, Scalar | None], tuple[PyTree, Params]]
    # (what it knows, gradient, whether the part learns in this step) -> (what it knows, direction)
    rouse: Callable[[PyTree], PyTree] = lambda moments: moments  # what it knows when a turn begins


class Stepping(NamedTuple):
    """What a client keeps: what its objective does, what its optimizer knows, and the steps of the turn so far."""

    own: PyTree
    moments: PyTree
    taken: Scalar


def local_rule(algorithm: Algorithm) -> LocalRule:
    """The optimizer of an algorithm's clients."""
    chosen = algorithm.optimizer
    if chosen.name == "sgd":
        return LocalRule(lambda params: (), lambda moments, grads, learns: (moments, _only_if(learns, grads)))
    if not chosen.keep and algorithm.local_steps == 1 and algorithm.epochs is None:
        raise UserMistake(
            f"training.optimizer.keep is false, but training.local_steps is 1, so that {chosen.name} would forget all "
            "after every step; let it keep what it knows, or take more local steps"
        )
    momentum = optax.trace(chosen.beta1)
    rule = momentum if chosen.name == "momentum" else optax.scale_by_adam(chosen.beta1, chosen.beta2, chosen.epsilon)

    def direct(moments: PyTree, grads: Params, learns: Scalar | None) -> tuple[PyTree, Params]:
        direction, after = rule.update(grads, moments)
        after = in_types_of(after, moments)
        if learns is not None:
            after = jax.tree.map(lambda new, old: jnp.where(learns > 0, new, old), after, moments)
        return after, _only_if(learns, in_types_of(direction, grads))

    return LocalRule(rule.init, direct, (lambda moments: moments) if chosen.keep else optax.tree.zeros_like)


def _only_if(learns: Scalar | None, direction: Params) -> Params:
    return direction if learns is None else optax.tree.scale(learns, direction)


def with_optimizer(algorithm: Algorithm, learns: Callable[[Scalar], Scalar | None]) -> Algorithm:
    """The algorithm whose clients step as their optimizer says.

    `learns` tells whether what is shared learns in a step of a turn.
    """
    objective, rule = algorithm.objective, local_rule(algorithm)
    if algorithm.optimizer.name == "sgd":
        return algorithm

    def begin(params: Params, client: int, key: Key) -> Stepping:
        return Stepping(objective.begin(params, client, key), rule.init(params), jnp.int32(0))

    def value(oracle: Oracle, kept: Stepping, params: Params, received: Params, key: Key) -> Scalar:
        return objective.value(oracle, kept.own, params, received, key)

    def gradient(
        oracle: Oracle, kept: Stepping, params: Params, received: Params, key: Key
    ) -> tuple[Stepping, Params, Info]:
        own, grads, info = objective.gradient(oracle, kept.own, params, received, key)
        return kept._replace(own=own), grads, info

    def direct(kept: Stepping, grads: Params) -> tuple[Stepping, Params]:
        moments, direction = rule.direct(kept.moments, grads, learns(kept.taken))
        return Stepping(kept.own, moments, kept.taken + 1), direction

    def rouse(kept: Stepping, pace: Scalar | float) -> Stepping:
        return Stepping(objective.rouse(kept.own, pace), rule.rouse(kept.moments), jnp.zeros_like(kept.taken))

    def adapt(oracle: Oracle, kept: Stepping, params: Params, key: Key) -> Compressed:
        return objective.adapt(oracle, kept.own, params, key)

    stepping: Objective = objective._replace(
        begin=begin,
        value=value,
        gradient=gradient,
        direct=direct,
        rouse=rouse,
        adapt=adapt,
        family=None,
        whole=lambda kept, params: objective.whole(kept.own, params),
    )
    return algorithm._replace(objective=stepping, optimizer=LocalOptimizer())
