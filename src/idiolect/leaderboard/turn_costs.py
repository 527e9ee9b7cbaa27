"""What one turn of a client costs: gradient evaluations and bytes, counted while a turn is taken.

The turn is taken without a compiler, so that loops are loops of Python and every call of the client's oracle is seen,
whatever the objective and the protocol make of it: MAML's inner steps and Hessian products, the iterations of a Moreau
envelope, a personal model beside the shared one, SCAFFOLD's second gradient. The oracle only counts: it answers with
slopes that change from call to call, so that no inner problem is ever solved and iterations count up to their cap.
Messages are weighed as the protocol makes them.
"""

from collections import Counter
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Algorithm, Key, Oracle, Params, Peer, Problem, Protocol, Scalar
from idiolect.engines.learner import descent, learner
from idiolect.trees import bytes_of, widest

# In units of a gradient, which is a forward and a backward pass, the latter as two of the former. The derivative of a
# gradient along a vector is as two gradients.
WEIGHTS = {"gradient": 1.0, "hessian_product": 2.0, "value": 1 / 3}


class TurnCost(NamedTuple):
    """What one turn costs; without a server, one waking."""

    calls: dict[str, int]  # of the client's oracle, by kind
    received: int  # bytes that the server offers; without a server nothing is offered
    sent: int  # bytes of the update, or of a message to one neighbour; zero where nothing reaches anybody

    @property
    def evaluations(self) -> float:
        """In units of a gradient on one batch."""
        return sum(WEIGHTS[kind] * count for kind, count in self.calls.items())


def turn_cost(problem: Problem, algorithm: Algorithm) -> TurnCost:
    """Take one turn of the first client, and count."""
    calls: Counter[str] = Counter()
    watched = problem._replace(oracle=lambda shard, batch_size: _counting(calls))
    with jax.disable_jit():
        if isinstance(algorithm.protocol, Peer):
            received, sent = 0, _waking(watched, algorithm, algorithm.protocol)
        else:
            received, sent = _turn(watched, algorithm, algorithm.protocol)
    return TurnCost(dict(calls), received, sent)


def _counting(calls: Counter[str]) -> Oracle:
    """An oracle that counts its calls and knows nothing."""

    def slope(params: Params) -> Params:
        steep = 1e-3 / (1 + calls.total())
        return jax.tree.map(lambda leaf: np.full(leaf.shape, steep, leaf.dtype), params)

    def value(params: Params, key: Key) -> Scalar:
        calls["value"] += 1
        return jnp.float32(1.0)

    def gradient(params: Params, key: Key) -> tuple[Scalar, Params]:
        calls["gradient"] += 1
        return jnp.float32(1.0), slope(params)

    def hessian_product(params: Params, vector: Params, key: Key) -> Params:
        calls["hessian_product"] += 1
        return slope(vector)

    return Oracle(value, gradient, hessian_product)


def _turn(problem: Problem, algorithm: Algorithm, protocol: Protocol) -> tuple[int, int]:
    """One turn with a server: bytes down, and bytes up."""
    key, clients, work = jax.random.key(0), problem.clients, protocol.work(learner(problem, algorithm))
    first, params = clients.participating[0], algorithm.objective.shared(problem.init(key))
    offer = protocol.server.offer(protocol.server.init(params, len(clients.participating)))
    personal = work.init(offer, first, key)
    _, upload, _ = work.turn(personal, offer, clients.train.shard(first), key)
    return (bytes_of(offer), bytes_of(upload.delta)) if protocol.shares else (0, 0)


def _waking(problem: Problem, algorithm: Algorithm, peer: Peer) -> int:
    """One waking without a server: the bytes of what is told to one neighbour."""
    key, first, objective = jax.random.key(0), problem.clients.participating[0], algorithm.objective
    params = objective.shared(problem.init(key))
    own, shard = objective.begin(params, first, key), problem.clients.train.shard(first)
    _, moved, _ = descent(problem, algorithm)(own, params, shard, key, jnp.float32(algorithm.step_size))
    with jax.enable_x64(True):  # in which agents add up
        state = peer.init(params, jnp.int32(1))
        _, message = jax.eval_shape(peer.emit, state, widest(moved), jnp.int32(0))
        return bytes_of(message.content)
