"""A protocol of your own without a server: what one agent does, as pure functions of its own state.

idiolect run parspush-digits --with examples/skeletons/peer.py --set 'algorithms=[{name="plain+lazy_push"}]'
"""

from typing import Annotated, NamedTuple

import optax
from annotated_types import Gt, Lt

import idiolect
from idiolect.contracts import Mass, Message, Params, PyTree, Scalar
from idiolect.trees import widest


class Node(NamedTuple):
    """An agent: the mass it holds, and to how many others it sends."""

    mass: Mass
    degree: Scalar


@idiolect.peer
def lazy_push(*, kept: Annotated[float, Gt(0), Lt(1)] = 0.5) -> idiolect.Peer:
    """Push-sum that keeps a share `kept` of its mass and splits the rest among its out-neighbours."""

    def emit(node: Node, descent: Params, round: Scalar) -> tuple[Node, Message]:
        mass = Mass(optax.tree.sub(node.mass.x, descent), node.mass.y)
        share = optax.tree.scale((1 - kept) / widest(node.degree), mass)
        return Node(optax.tree.scale(kept, mass), node.degree), Message(share, round)

    def receive(memory: PyTree, message: Message) -> tuple[PyTree, Mass]:
        return memory, message.content

    return idiolect.Peer(
        "shares",  # a share leaves its sender; "sums" would be made good by later ones, "copies" leave nothing
        init=lambda params, degree: Node(Mass(widest(params), widest(1.0)), degree),
        remember=lambda params, degree: (),
        emit=emit,
        receive=receive,
        settle=lambda node, gain: node._replace(mass=optax.tree.add(node.mass, gain)),
        holds=lambda node: node.mass,
        read=lambda node: optax.tree.scale(1 / node.mass.y, node.mass.x),
    )


if __name__ == "__main__":
    from idiolect.testing import check_peer

    check_peer(lazy_push())
