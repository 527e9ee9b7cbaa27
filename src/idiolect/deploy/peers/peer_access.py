"""What peers may say to each other: each speaks on its own keys, and hears those it should hear, by certificate.

idiolect/NETWORK/a3/says/0      what a3 tells those it sends to, in parcels
idiolect/NETWORK/a3/alive       the token that a3 is there
idiolect/NETWORK/a5/heard/a3    what a5 last heard of a3, for a3 to ask
"""

from typing import TYPE_CHECKING

from idiolect.deploy.access import Grant, peer_config
from idiolect.deploy.keys import Identity
from idiolect.deploy.peers.graph_files import PeerGraph
from idiolect.deploy.peers.letters import Neighbours
from idiolect.deploy.roster import Roster

if TYPE_CHECKING:
    from zenoh import Config

# BLOCK waits so long for a link that is full before it is closed and opened again; what would be dropped waits as long.
_PATIENCE = {"block/wait_before_close": 30_000_000, "drop/wait_before_drop": 5_000_000}  # in microseconds


def says(network: str, name: str, part: int | str = "*") -> str:
    """Where a peer speaks."""
    return f"idiolect/{network}/{name}/says/{part}"


def alive(network: str, name: str) -> str:
    """Where a peer's token is."""
    return f"idiolect/{network}/{name}/alive"


def heard(network: str, name: str, of: str) -> str:
    """Where a peer answers another what it last heard of that other."""
    return f"idiolect/{network}/{name}/heard/{of}"


def grants(network: str, place: Neighbours) -> list[Grant]:
    """What each neighbour may do here, and what goes out to it."""
    me, found = place.name, []
    for other in dict.fromkeys([*place.hears, *place.tells]):
        found += [
            Grant(other, "ingress", ("liveliness_token",), (alive(network, other),)),
            Grant(other, "egress", ("declare_liveliness_subscriber", "liveliness_query"), (alive(network, other),)),
            Grant(other, "egress", ("liveliness_token",), (alive(network, me),)),
            Grant(other, "ingress", ("declare_liveliness_subscriber", "liveliness_query"), (alive(network, me),)),
        ]
    for other in place.hears:
        answer = (heard(network, me, other),)
        found += [
            Grant(other, "ingress", ("put",), (says(network, other),)),
            Grant(other, "egress", ("declare_subscriber",), (says(network, other),)),
            Grant(other, "ingress", ("query",), answer),
            Grant(other, "egress", ("reply", "declare_queryable"), answer),
        ]
    for other in place.tells:
        question = (heard(network, other, me),)
        found += [
            Grant(other, "egress", ("put",), (says(network, me),)),
            Grant(other, "ingress", ("declare_subscriber",), (says(network, me),)),
            Grant(other, "egress", ("query",), question),
            Grant(other, "ingress", ("reply", "declare_queryable"), question),
        ]
    return found


def config_of(graph: PeerGraph, name: str, identity: Identity | None, roster: Roster) -> "Config":
    """The configuration of one peer's session: it listens, connects to all its neighbours, and trusts nobody else."""
    place = graph.place(name)
    others = [graph.endpoints[other] for other in dict.fromkeys([*place.hears, *place.tells])]
    config = peer_config(identity, roster, [graph.endpoints[name]], others, grants(graph.name, place))
    for key, value in _PATIENCE.items():
        config.insert_json5(f"transport/link/tx/queue/congestion_control/{key}", str(value))
    return config
