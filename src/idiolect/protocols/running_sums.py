"""Push-sum by running sums: whatever is lost, late, doubled or out of order arrives with a later message.

M. T. Toghani, S. Lee, C. A. Uribe. PARS-Push: personalized, asynchronous and robust decentralized optimization. 2022,
Algorithm 1, l. 1 and 11-24, after A. Spiridonoff, A. Olshevsky, I. C. Paschalidis. Robust asynchronous stochastic
gradient-push (RASGP). 2020.

| Alg. 1 | code |
| --- | --- |
| l. 1: x, y, phi of a node; rho, kappa of a link | `init`, `remember` |
| l. 11-15: step, share out, add to the running sums, send | `emit` |
| l. 17-21: keep a message only if it is newer | `receive` |
| l. 22-23: take in what a neighbour's sum has grown by | `receive` gives the difference, `settle` adds it |
| l. 24: z = x / y | `read` |

Lines 3-10, whether a node wakes and what it descends on, belong to the engine and the objective.

Deviations: sums are kept in the widest floats that are enabled (the simulator enables 64 bits), since they grow with
time while their differences do not. On a graph that changes an agent shares out to all that it ever sends to: what it
could not send waits for the next message over that link, as if it had been lost.

Laws: mass on nodes, in flight and lost but recoverable adds up to the start, under any loss, delay, duplication and
reordering; without gradients every z tends to the average of the start.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from idiolect.contracts import Mass, Message, Params, Peer, PyTree, Scalar
from idiolect.trees import widest


class Node(NamedTuple):
    """An agent: what it holds, what it has sent down each of its links in all, and how many there are."""

    mass: Mass
    sent: Mass  # phi
    degree: Scalar


class Heard(NamedTuple):
    """The newest running sum that came over a link, and when it was sent."""

    sum: Mass  # rho
    round: Scalar  # kappa


def running_sum() -> Peer:
    """Send the sum of all shares so far; lost messages are made good by the next that arrives.

    Returns:
        The protocol, which needs no server.

    Example:
        >>> from idiolect.protocols import running_sum
        >>> running_sum().carries
        'sums'
    """

    def init(params: Params, degree: Scalar) -> Node:
        mass = Mass(widest(params), widest(1.0))
        return Node(mass, optax.tree.zeros_like(mass), degree)  # l. 1

    def remember(params: Params, degree: Scalar) -> Heard:
        return Heard(optax.tree.zeros_like(Mass(widest(params), widest(1.0))), jnp.int32(-1))  # l. 1

    def emit(node: Node, descent: Params, round: Scalar) -> tuple[Node, Message]:
        x = optax.tree.sub(node.mass.x, descent)  # l. 11
        mass = optax.tree.scale(1 / widest(node.degree + 1), Mass(x, node.mass.y))  # l. 13
        sent = optax.tree.add(node.sent, mass)  # l. 14
        return Node(mass, sent, node.degree), Message(sent, round)  # l. 12 and 15

    def receive(heard: Heard, message: Message) -> tuple[Heard, Mass]:
        newer = message.round > heard.round  # l. 18
        latest = jax.tree.map(lambda new, old: jnp.where(newer, new, old), Heard(*message), heard)  # l. 19
        return latest, optax.tree.sub(latest.sum, heard.sum)  # l. 22-24

    def settle(node: Node, gain: Mass) -> Node:
        return node._replace(mass=optax.tree.add(node.mass, gain))  # l. 22-23

    return Peer("sums", init, remember, emit, receive, settle, holds=lambda node: node.mass, read=ratio_of)


def ratio_of(node: PyTree) -> Params:
    """The model of an agent that holds mass: z = x / y (l. 24)."""
    return optax.tree.scale(1 / node.mass.y, node.mass.x)
