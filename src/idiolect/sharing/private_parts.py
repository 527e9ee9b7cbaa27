"""Private parts: an objective whose clients share some layers of their model and keep the others to themselves.

M. G. Arivazhagan, V. Aggarwal, A. K. Singh, S. Choudhary. Federated learning with personalization layers (FedPer).
2019, Algorithms 1 and 2. P. P. Liang et al. Think locally, act globally (LG-FedAvg). 2020, Algorithm 1. L. Collins,
H. Hassani, A. Mokhtari, S. Shakkottai. Exploiting shared representations for personalized federated learning (FedRep).
2021, Algorithm 1. J. Oh, S. Kim, S.-Y. Yun. FedBABU: towards enhanced representation for federated image
classification. 2022, Algorithm 1.

| paper | code |
| --- | --- |
| FedPer, Alg. 1, l. 6: W_B and W_P learn together by SGD; only W_B is sent | `train_order="together"` |
| LG-FedAvg, Alg. 1: the other way round, the first layers stay | `private=["body"]` |
| FedRep, Alg. 1: tau_h steps of the head, then steps of the body | `train_order="private_first"`, `private_steps` |
| FedBABU, Alg. 1: the head keeps its first values, only the body learns | `train_order="shared_only"` |

Whatever the objective, its gradient is taken at the whole model; the client steps along the private part of it and
hands on the rest. `received` has the client's present private part in it, so that a pull back to what was received
(FedProx) pulls on what travels only.

Deviations: private parts begin alike on all clients, drawn with the run's own key, as in the authors' experiments.
FedRep's head and body steps are local steps of one turn, with one step size. FedBABU tunes all of the model after
training; here it is what is private, by `tune_steps` plain steps, and plain fine-tuning of all is one of the usual
columns of scores. A client that has never had a turn has a private part that nobody has trained, and tunes it likewise.

Laws: with nothing private an algorithm is itself; with everything private it is `local`.
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
    Objective,
    Oracle,
    Params,
    Protocol,
    PyTree,
    Scalar,
    Sharing,
)
from idiolect.contracts.step_rules import is_constant
from idiolect.errors import UserMistake
from idiolect.sharing.local_optimizers import local_rule, with_optimizer
from idiolect.sharing.parts import join, private_leaves, split
from idiolect.trees import in_types_of


class Kept(NamedTuple):
    """What stays on a client: its private part, what the objective keeps, and the local steps it has taken.

    `moments` is what the client's optimizer knows of the private part; `pace` how long the turn's steps are, where a
    rule changes that.
    """

    private: PyTree
    own: PyTree
    taken: Scalar
    moments: PyTree = ()
    pace: PyTree = ()


def keep_private(algorithm: Algorithm, init: Callable[[Key], Params]) -> Algorithm:
    """The algorithm with what it calls private taken out of what is shared, and its clients' optimizer at work.

    Args:
        algorithm: Any; if nothing of it is private and clients step along gradients, it is given back as it is.
        init: Draws the whole first model.

    Returns:
        The algorithm, whose server or peers see what travels and nothing else.

    Example:
        >>> from idiolect import Algorithm, objectives, protocols
        >>> from idiolect.problems.synthetic import quadratics
        >>> from idiolect.sharing import keep_private
        >>> mine = Algorithm("mine", objectives.plain(), protocols.asynchronous())
        >>> keep_private(mine, quadratics(clients=2).init) is mine
        True
    """
    sharing = algorithm.sharing
    names = private_leaves(jax.eval_shape(init, jax.random.key(0)), sharing.private) if sharing.private else None
    if not names:
        return with_optimizer(algorithm, lambda step: None)
    if sharing.train_order == "private_first" and algorithm.epochs is not None:
        raise UserMistake(
            f"training.epochs is {algorithm.epochs}, but {algorithm.name} trains its private part first, by "
            "private_steps of the local steps of a turn; give training.local_steps instead"
        )
    if sharing.train_order == "private_first" and sharing.private_steps >= algorithm.local_steps:
        raise UserMistake(
            f"private_steps is {sharing.private_steps}, which leaves nothing of training.local_steps, "
            f"{algorithm.local_steps}, for the shared part; it must be smaller"
        )
    parted = algorithm._replace(objective=_parted(algorithm, init, names), sharing=Sharing())
    return with_optimizer(parted, lambda step: _turns(sharing, step)[0])


def _parted(algorithm: Algorithm, init: Callable[[Key], Params], names: frozenset[str]) -> Objective:
    objective, step_size, sharing = algorithm.objective, algorithm.step_size, algorithm.sharing
    rule = local_rule(algorithm)
    paced = isinstance(algorithm.protocol, Protocol) and not is_constant(algorithm.step_rule)

    def begin(params: Params, client: int, key: Key) -> Kept:
        private = split(init(key), names)[1]
        own = objective.begin(join(params, private), client, key)
        return Kept(private, own, jnp.int32(0), rule.init(private), jnp.float32(1) if paced else ())

    def rouse(kept: Kept, pace: Scalar | float) -> Kept:
        own, moments = objective.rouse(kept.own, pace), rule.rouse(kept.moments)
        return kept._replace(own=own, moments=moments, pace=jnp.asarray(pace, jnp.float32) if paced else ())

    def value(oracle: Oracle, kept: Kept, params: Params, received: Params, key: Key) -> Scalar:
        whole, anchor = join(params, kept.private), join(received, kept.private)
        return objective.value(oracle, kept.own, whole, anchor, key)

    def gradient(oracle: Oracle, kept: Kept, params: Params, received: Params, key: Key) -> tuple[Kept, Params, Info]:
        whole, anchor = join(params, kept.private), join(received, kept.private)
        own, grads, info = objective.gradient(oracle, kept.own, whole, anchor, key)
        travels, stays = split(grads, names)
        place = kept.taken % algorithm.local_steps
        ours, mine = _turns(sharing, place)
        moments, direction = rule.direct(kept.moments, stays, mine)
        length = step_size * kept.pace if paced else step_size
        moved = optax.tree.add_scale(kept.private, -length, direction)  # FedPer, Alg. 1, l. 6; FedRep, Alg. 1
        kept = Kept(in_types_of(moved, kept.private), own, kept.taken + 1, moments, kept.pace)
        return kept, travels if ours is None else optax.tree.scale(ours, travels), info

    def tuned(oracle: Oracle, private: PyTree, params: Params, key: Key) -> PyTree:
        def step(private: PyTree, key: Key) -> tuple[PyTree, None]:
            grads = split(oracle.gradient(join(params, private), key)[1], names)[1]
            return in_types_of(optax.tree.add_scale(private, -step_size, grads), private), None

        return jax.lax.scan(step, private, jax.random.split(key, sharing.tune_steps))[0]

    def adapt(oracle: Oracle, kept: Kept, params: Params, key: Key) -> Compressed:
        untrained = jnp.bool_(True) if sharing.train_order == "shared_only" else kept.taken == 0
        better = tuned(oracle, kept.private, params, key) if sharing.tune_steps else kept.private
        private = jax.tree.map(lambda new, old: jnp.where(untrained, new, old), better, kept.private)
        return objective.adapt(oracle, kept.own, join(params, private), key)

    return objective._replace(
        begin=begin,
        value=value,
        gradient=gradient,
        rouse=rouse,
        adapt=adapt,
        minimises=None,
        family=None,
        shared=lambda params: split(params, names)[0],
        whole=lambda kept, params: join(params, kept.private),
    )


def _turns(sharing: Sharing, step: Scalar) -> tuple[Scalar | None, Scalar | None]:
    """How much the shared and the private part move in this step of a turn; None for a part that always does."""
    if sharing.train_order == "together":
        return None, None
    if sharing.train_order == "shared_only":
        return None, jnp.float32(0)
    first = step < sharing.private_steps
    return jnp.where(first, 0.0, 1.0), jnp.where(first, 1.0, 0.0)
