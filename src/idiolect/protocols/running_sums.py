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

Rebirth: an agent on a real network may lose its disk, or get an old copy of it back. What its out-neighbours `recall`
of its sum is then newer than what the disk has. `rejoin` goes on from the newest sum that they heard, and takes from
its mass what it must have sent since. Its memories are as old as its disk, so the next messages of its in-neighbours
bring all that it had received since. The two together give back the weight that it had, and no mass leaks; the steps
that it took since are undone. Until those messages come its weight may be below zero, and it must not speak.

Deviations: sums are kept in the widest floats that are enabled (the simulator enables 64 bits), since they grow with
time while their differences do not. `catch_up` bounds l. 4, where the step sizes of rounds slept through add up,
however many they are. On a graph that changes an agent shares out to all that it ever sends to: what it could not send
waits for the next message over that link, as if it had been lost.

Laws: mass on nodes, in flight and lost but recoverable adds up to the start, under any loss, delay, duplication and
reordering; without gradients every z tends to the average of the start.
"""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge

from idiolect.contracts import Mass, Message, Params, Peer, PyTree, Rebirth, Scalar
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


def running_sum(*, catch_up: Annotated[int, Ge(1)] | None = None) -> Peer:
    """Send the sum of all shares so far; lost messages are made good by the next that arrives.

    Args:
        catch_up: At most so many rounds that an agent slept through add up their step sizes; by default, all.

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

    def rejoin(node: Node, heard: Mass) -> Node:
        debt = optax.tree.scale(widest(node.degree), optax.tree.sub(heard, node.sent))
        return node._replace(mass=optax.tree.sub(node.mass, debt), sent=heard)

    return Peer(
        "sums",
        init,
        remember,
        emit,
        receive,
        settle,
        holds=lambda node: node.mass,
        read=ratio_of,
        catch_up=catch_up,
        rebirth=Rebirth(
            recall=lambda heard: Message(*heard),
            ahead=lambda node, heard: heard.y > node.sent.y,  # an agent's sum of y only grows
            rejoin=rejoin,
        ),
    )


def ratio_of(node: PyTree) -> Params:
    """The model of an agent that holds mass: z = x / y (l. 24)."""
    return optax.tree.scale(1 / node.mass.y, node.mass.x)
