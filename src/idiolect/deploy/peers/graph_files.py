"""The graph of a network of peers as a file: who there is, where each listens, and to whom each sends.

    name = "office"

    [peers]
    a0 = "tls/192.0.2.10:7447"
    a1 = "tls/192.0.2.11:7447"
    a2 = "tls/192.0.2.12:7447"

    [links]
    a0 = ["a1"]
    a1 = ["a2"]
    a2 = ["a0", "a1"]

The first peer is the first participating client of the recipe, and so on.
"""

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from idiolect.deploy.access import checked_endpoint
from idiolect.deploy.peers.letters import Neighbours
from idiolect.deploy.roster import checked_name
from idiolect.errors import UserMistake
from idiolect.files import read_whole
from idiolect.network.topologies import Topology, topology


class PeerGraph(NamedTuple):
    """Who there is, where each listens, and who sends to whom."""

    name: str
    endpoints: dict[str, str]
    links: dict[str, tuple[str, ...]]

    @property
    def names(self) -> list[str]:
        """The peers, in their order."""
        return list(self.endpoints)

    @property
    def topology(self) -> Topology:
        """The same graph by numbers."""
        number = {name: place for place, name in enumerate(self.names)}
        pairs = [(number[one], number[other]) for one, others in self.links.items() for other in others]
        return topology(len(number), pairs)

    def place(self, name: str) -> Neighbours:
        """What a peer knows of it."""
        if name not in self.endpoints:
            raise UserMistake(f"--as is '{name}', but the graph has {', '.join(self.names)}")
        hears = tuple(other for other in self.names if name in self.links[other])
        return Neighbours(name, self.names.index(name), len(self.names), hears, self.links[name])


def read_graph(path: Path, *, insecure: bool | None = False) -> PeerGraph:
    """The graph in a file, or one sentence on what is wrong with it. With `insecure` None, any endpoint will do."""
    try:
        table = tomllib.loads(read_whole(path, "graph").decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as reason:
        raise UserMistake(f"graph {path} is no TOML: {reason}") from None
    try:
        return _checked(table, insecure)
    except UserMistake as reason:
        raise UserMistake(f"graph {path}: {reason}") from None


def _checked(table: dict[str, Any], insecure: bool | None) -> PeerGraph:
    for key in table:
        if key not in ("name", "peers", "links"):
            raise UserMistake(f"{key} is not a known key; known are name, peers, links")
    peers, links, name = table.get("peers"), table.get("links"), table.get("name", "network")
    if not isinstance(peers, dict) or len(peers) < 2:
        raise UserMistake("peers must be a table of at least two names, each with the endpoint where it listens")
    if not isinstance(links, dict):
        raise UserMistake("links must be a table: for each peer the list of those that it sends to")
    for peer, endpoint in peers.items():
        checked_name(peer)
        if not isinstance(endpoint, str):
            raise UserMistake(f"peers.{peer} is {endpoint!r}, but must be an endpoint such as tls/192.0.2.7:7447")
        checked_endpoint(endpoint, insecure=not endpoint.startswith("tls/") if insecure is None else insecure)
    twice = [one for one in peers.values() if list(peers.values()).count(one) > 1]
    if twice:
        raise UserMistake(f"peers has the endpoint {twice[0]} twice, but every peer listens at one of its own")
    for peer in [*links, *peers]:
        _check_links(peer, links.get(peer), peers)
    graph = PeerGraph(checked_name(name), dict(peers), {peer: tuple(links[peer]) for peer in peers})
    _ = graph.topology  # refuses one in which not everybody can reach everybody
    return graph


def _check_links(peer: str, others: Any, peers: dict[str, Any]) -> None:
    if peer not in peers:
        raise UserMistake(f"links has '{peer}', which is not among the peers")
    if not isinstance(others, list) or not others:
        raise UserMistake(f"links.{peer} must be a list of peers that {peer} sends to, at least one")
    for place, other in enumerate(others):
        if other not in peers:
            raise UserMistake(f"links.{peer}[{place}] is {other!r}, which is not among the peers")
        if other == peer or other in others[:place]:
            raise UserMistake(
                f"links.{peer}[{place}] is '{other}', {'itself' if other == peer else 'for the second time'}"
            )
