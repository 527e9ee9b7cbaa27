"""Stochastic gradient push: every message carries a share of the sender's mass, and what is lost is lost.

M. Assran, N. Loizou, N. Ballas, M. Rabbat. Stochastic gradient push for distributed deep learning (SGP). 2019,
Algorithm 1, with the uniform weights p_ji = 1 / (d_i^+ + 1).

| SGP, Alg. 1 | code |
| --- | --- |
| l. 3-4: step on x with the gradient at z | `emit` |
| l. 5: send p x, p w to the out-neighbours | `emit` |
| l. 6: add up what has arrived | `receive`, `settle` |
| l. 7: z = x / w | `read` |

Deviations: an agent takes in a message when it next wakes, so that the protocol also runs where agents sleep and
messages are late; then it is the algorithm's overlapping form. The step sizes of rounds that an agent sleeps through
add up, as in PARS-Push, Alg. 1, l. 4, so that who wakes rarely counts as much as the others; SGP knows no sleep and has
no such line (`summed_steps = false` leaves it out). Where a graph changes, shares go to the neighbours of the round.

A step changes z = x / w by eta / w times the gradient, here as in the paper. Lost messages take weight along: w falls
to zero, eta / w grows without bound, and sooner or later the run diverges, however small eta is.

Laws: without loss and duplication mass is conserved and, if messages also come in order, `push_sum` does what
`running_sum` does; a lost message takes its mass along, a doubled one brings it twice.
"""

from typing import Annotated, NamedTuple

import optax
from annotated_types import Ge

from idiolect.contracts import Mass, Message, Params, Peer, PyTree, Scalar
from idiolect.protocols.running_sums import ratio_of
from idiolect.trees import widest


class Node(NamedTuple):
    """An agent: what it holds, and to how many others it sends."""

    mass: Mass
    degree: Scalar


def push_sum(*, summed_steps: bool = True, catch_up: Annotated[int, Ge(1)] | None = None) -> Peer:
    """Send equal shares of the mass; a share that is lost is gone for good.

    Args:
        summed_steps: Whether the step sizes of rounds slept through add up.
        catch_up: At most so many of them; by default, all.

    Returns:
        The protocol, which needs no server.

    Example:
        >>> from idiolect.protocols import push_sum
        >>> push_sum().carries
        'shares'
    """

    def emit(node: Node, descent: Params, round: Scalar) -> tuple[Node, Message]:
        x = optax.tree.sub(node.mass.x, descent)  # l. 3-4
        share = optax.tree.scale(1 / widest(node.degree + 1), Mass(x, node.mass.y))
        return node._replace(mass=share), Message(share, round)  # l. 5

    def receive(memory: PyTree, message: Message) -> tuple[PyTree, Mass]:
        return memory, message.content

    return Peer(
        "shares",
        init=lambda params, degree: Node(Mass(widest(params), widest(1.0)), degree),
        remember=lambda params, degree: (),
        emit=emit,
        receive=receive,
        settle=lambda node, gain: node._replace(mass=optax.tree.add(node.mass, gain)),  # l. 6
        holds=lambda node: node.mass,
        read=ratio_of,  # l. 7
        summed_steps=summed_steps,
        catch_up=catch_up,
        redirect=lambda node, degree: node._replace(degree=degree),
    )
