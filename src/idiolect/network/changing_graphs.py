"""Graphs that change from round to round: every link is there in some rounds, over and over again.

An agent sends over the links that are there in the round in which it wakes. What that means for its mass is its
protocol's: running sums share out to all that an agent ever sends to, and what waits for a link arrives over it with
the next message, as after a loss; push-sum shares out to those that the agent sends to now (`Peer.redirect`).
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from annotated_types import Ge, Len

from idiolect.errors import UserMistake
from idiolect.network.edge_lists import Pair
from idiolect.network.topologies import Topology, Wire, topology


def one_peer() -> Wire:
    """In round t everyone sends to one other: agent i to i + 2^k modulo the number of agents, k being t mod log2(n).

    M. Assran et al., SGP, 2019: the directed exponential graph with one peer, which mixes exactly for a power of two.
    """

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        steps = [2**k for k in range((agents - 1).bit_length())]
        # One agent alone has nobody to send to, in any round.
        graphs = [[(agent, (agent + step) % agents) for agent in range(agents)] for step in steps] or [[]]
        return _one_after_another(agents, graphs, 1)

    return wire


def changing(*, graphs: Annotated[list[list[tuple[int, int]]], Len(1)], hold: Annotated[int, Ge(1)] = 1) -> Wire:
    """The given graphs, lists of (source, target) links, one after another, again and again, `hold` rounds each.

    None of them need connect everyone; together they must.

    Args:
        graphs: For each graph a list of pairs of agents, which are numbered from 0.
        hold: For how many rounds a graph stays.
    """

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        return _one_after_another(agents, graphs, hold)

    return wire


def _one_after_another(agents: int, graphs: Sequence[Sequence[Pair]], hold: int) -> Topology:
    for number, links in enumerate(graphs):
        twice = sorted({tuple(link) for link in links if list(links).count(link) > 1})
        if twice:
            raise UserMistake(f"topology.graphs[{number}] has the link {list(twice[0])} twice; give each link once")
    whole = topology(agents, dict.fromkeys(tuple(link) for links in graphs for link in links))  # type: ignore[misc]
    pairs = list(zip(whole.sources.tolist(), whole.targets.tolist(), strict=True))
    there = [{tuple(link) for link in links} for links in graphs]
    present = np.array([[pair in links for pair in pairs] for links in there], bool)
    return whole._replace(present=np.repeat(present, hold, axis=0))
