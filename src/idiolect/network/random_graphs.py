"""Random regular graphs: everyone exchanges with as many others."""

import itertools
from typing import Annotated

import numpy as np
from annotated_types import Ge

from idiolect.errors import UserMistake
from idiolect.network.edge_lists import Pair
from idiolect.network.topologies import (
    Topology,
    Wire,
    both_ways,
    check_agents,
    components_of,
    networkx_module,
    ordered_graph,
    seed_of,
)

_REDRAWS = 1000


def random_regular(*, degree: Annotated[int, Ge(1)]) -> Wire:
    """Everyone exchanges with `degree` others, by a random regular graph that is redrawn until it is connected.

    Args:
        degree: With how many others; even where the number of agents is odd.
    """

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        check_agents(agents)
        _check_degree(degree, agents)
        for _ in range(_REDRAWS):
            pairs = both_ways(_regular(degree, agents, rng))
            if len(components_of(agents, pairs)) == 1:
                return ordered_graph(agents, pairs)
        raise UserMistake(
            f"topology.degree is {degree}: in {_REDRAWS} draws the graph on {agents} agents was never connected; "
            "take a larger degree"
        )

    return wire


def _check_degree(degree: int, agents: int) -> None:
    if degree >= agents:
        raise UserMistake(
            f"topology.degree is {degree}, but each of {agents} agents has only {agents - 1} others; take less"
        )
    if degree * agents % 2:
        raise UserMistake(
            f"topology.degree is {degree}, but {agents} agents cannot all have an odd degree, their number being odd; "
            "take an even one"
        )
    if degree == 1 and agents > 2:
        raise UserMistake(f"topology.degree is 1, but pairs do not connect {agents} agents; take at least 2")


def _regular(degree: int, agents: int, rng: np.random.Generator) -> set[Pair]:
    """The edges of a random regular graph, each once with the smaller agent first."""
    others = agents - 1 - degree
    # networkx pairs stubs until no pair is left over, which for dense graphs takes minutes: there we draw who is *not*
    # connected, which is a random regular graph as well.
    drawn = networkx_module().random_regular_graph(min(degree, others), agents, seed=seed_of(rng))
    pairs = {(min(pair), max(pair)) for pair in drawn.edges}
    return pairs if degree <= others else set(itertools.combinations(range(agents), 2)) - pairs
