"""Gossip averaging on undirected graphs: everyone moves toward the models of its neighbours.

X. Lian, C. Zhang, H. Zhang, C.-J. Hsieh, W. Zhang, J. Liu. Can decentralized algorithms outperform centralized
algorithms? (D-PSGD). 2017, Algorithm 1, with Metropolis weights W_ij = 1 / (1 + max(d_i, d_j)), which are symmetric and
doubly stochastic.

| D-PSGD, Alg. 1 | code |
| --- | --- |
| l. 3: the gradient at x_i, before averaging | the engine, at `read` |
| l. 4: x_i <- sum_j W_ij x_j | `emit` sends x_i; `receive`, `settle` |
| l. 5: x_i <- x_i - gamma g_i | `settle` |

Deviations: a neighbour that was not heard from keeps its weight with x_i, so a round without messages is a local step.
Messages of one neighbour that come together all count, but never so much that x_i keeps less than 1 / (d_i + 1).
The step sizes of rounds that an agent sleeps through add up, as in PARS-Push, Alg. 1, l. 4; D-PSGD knows no sleep and
has no such line (`summed_steps = false` leaves it out).

Laws: with everyone awake and every message in time the average of the x_i is kept; with loss or delay it drifts.
"""

from typing import Annotated, NamedTuple

import jax.numpy as jnp
import optax
from annotated_types import Ge

from idiolect.contracts import Mass, Message, Params, Peer, PyTree, Scalar
from idiolect.trees import widest


class Node(NamedTuple):
    """An agent: its model, the step it has not yet taken, and its number of neighbours."""

    x: PyTree
    descent: PyTree
    degree: Scalar


def gossip(*, summed_steps: bool = True, catch_up: Annotated[int, Ge(1)] | None = None) -> Peer:
    """Average with the neighbours, by Metropolis weights, then step.

    Args:
        summed_steps: Whether the step sizes of rounds slept through add up.
        catch_up: At most so many of them; by default, all.

    Returns:
        The protocol, which needs no server.

    Example:
        >>> from idiolect.protocols import gossip
        >>> gossip().carries
        'copies'
    """

    def emit(node: Node, descent: Params, round: Scalar) -> tuple[Node, Message]:
        return node._replace(descent=widest(descent)), Message((node.x, node.degree), round)

    def receive(own_degree: Scalar, message: Message) -> tuple[Scalar, Mass]:
        x, degree = message.content
        weight = 1 / widest(1 + jnp.maximum(own_degree, degree))
        return own_degree, Mass(optax.tree.scale(weight, x), weight)

    def settle(node: Node, gain: Mass) -> Node:
        # Several messages of one neighbour may come at one waking; whatever comes, x_i keeps a share of its own.
        most = widest(node.degree) / widest(node.degree + 1)
        kept = jnp.where(gain.y > most, most / gain.y, 1.0)
        mixed = optax.tree.add(optax.tree.scale(1 - kept * gain.y, node.x), optax.tree.scale(kept, gain.x))  # l. 4
        return node._replace(x=optax.tree.sub(mixed, node.descent))  # l. 5

    return Peer(
        "copies",
        init=lambda params, degree: Node(widest(params), optax.tree.zeros_like(widest(params)), degree),
        remember=lambda params, degree: degree,
        emit=emit,
        receive=receive,
        settle=settle,
        holds=lambda node: Mass(node.x, widest(1.0)),
        read=lambda node: node.x,
        summed_steps=summed_steps,
        catch_up=catch_up,
    )
