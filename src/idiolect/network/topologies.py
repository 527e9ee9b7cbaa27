"""Topologies: directed, strongly connected graphs without self-loops of who can send to whom.

Every factory returns `wire(agents, rng) -> the graph on that many agents`.
"""

import itertools
import math
import operator
from collections.abc import Callable, Iterable
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
from annotated_types import Ge, Le

from idiolect.errors import UserMistake
from idiolect.network.edge_lists import read_edges

Pair: TypeAlias = tuple[int, int]

_REDRAWS = 1000
_SHOWN = 8  # a message names this many components, and this many members of each


class Topology(NamedTuple):
    """A directed graph without self-loops; its links are ordered by target, then by source."""

    agents: int
    sources: np.ndarray  # link k goes from agent sources[k]
    targets: np.ndarray  # to agent targets[k]

    @property
    def links(self) -> int:
        """The number of links."""
        return len(self.sources)

    @property
    def out_degrees(self) -> np.ndarray:
        """How many agents each agent sends to."""
        return np.bincount(self.sources, minlength=self.agents).astype(np.int32)

    @property
    def in_degrees(self) -> np.ndarray:
        """How many agents each agent hears from."""
        return np.bincount(self.targets, minlength=self.agents).astype(np.int32)

    @property
    def undirected(self) -> bool:
        """Whether every link has its reverse."""
        order = np.lexsort((self.targets, self.sources))
        return bool(
            np.array_equal(self.sources[order], self.targets) and np.array_equal(self.targets[order], self.sources)
        )


Wire: TypeAlias = Callable[[int, np.random.Generator], Topology]


def topology(agents: int, edges: Iterable[Pair]) -> Topology:
    """The graph with these (source, target) links; refused unless everyone can reach everyone along them.

    Args:
        agents: How many there are.
        edges: (source, target), each once.

    Returns:
        The graph, with its links in order.

    Example:
        >>> from idiolect.network import topology
        >>> topology(3, [(0, 1), (1, 2), (2, 0)]).links
        3
    """
    return _checked(agents, ((f"topology.edges[{k}]", edge) for k, edge in enumerate(edges)), "topology.edges")


def erdos_renyi(*, probability: Annotated[float, Ge(0), Le(1)]) -> Wire:
    """Directed G(n, p): each of the n (n - 1) links is there with this probability, independently of the others.

    A draw that is not strongly connected is not thrown away, since for a small `probability` all of them may be. It
    gets the links of a random cycle through one random member of each strongly connected component instead: at most as
    many links as there are components.
    """

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        _check_agents(agents)
        graph = _networkx().gnp_random_graph(agents, probability, seed=_seed(rng), directed=True)
        pairs = set(graph.edges)
        components = _components(agents, pairs)
        if len(components) > 1:
            stops = rng.permutation([rng.choice(members) for members in components]).tolist()
            # Drawn links may already lead from one stop to the next; the set keeps them single.
            pairs.update(zip(stops, stops[1:] + stops[:1], strict=True))
        return _ordered(agents, pairs)

    return wire


def ring(*, directed: bool = True) -> Wire:
    """Everyone sends to the next agent, the last to the first; and to the previous one too unless `directed`."""

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        steps = (1,) if directed else (1, -1)
        # A set, because with two agents the next and the previous are the same; with one there is nobody to send to.
        pairs = {(agent, (agent + step) % agents) for agent in range(agents) for step in steps}
        return _ordered(agents, pairs if agents > 1 else ())

    return wire


def exponential() -> Wire:
    """Agent i sends to i + 1, i + 2, i + 4, ... modulo the number of agents, as long as the step is less than that."""

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        steps = list(itertools.takewhile(lambda step: step < agents, (2**k for k in itertools.count())))
        return _ordered(agents, ((agent, (agent + step) % agents) for agent in range(agents) for step in steps))

    return wire


def star() -> Wire:
    """Agent 0 exchanges with everyone, and the others with nobody else."""

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        return _ordered(agents, _both_ways((0, leaf) for leaf in range(1, agents)))

    return wire


def grid() -> Wire:
    """Neighbours in a rectangle, as square as possible, exchange; it has no wrap-around.

    It has r rows, r being the largest divisor of the number of agents up to its root. A prime number of agents
    therefore stands in a line.
    """

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        _check_agents(agents)
        rows = max(row for row in range(1, math.isqrt(agents) + 1) if agents % row == 0)
        columns = agents // rows
        across = [(agent, agent + 1) for agent in range(agents) if (agent + 1) % columns]
        down = [(agent, agent + columns) for agent in range(agents - columns)]
        return _ordered(agents, _both_ways(across + down))

    return wire


def complete() -> Wire:
    """Everyone sends to everyone."""

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        return _ordered(agents, itertools.permutations(range(agents), 2))

    return wire


def random_regular(*, degree: Annotated[int, Ge(1)]) -> Wire:
    """Everyone exchanges with `degree` others, by a random regular graph that is redrawn until it is connected."""

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        _check_agents(agents)
        _check_degree(degree, agents)
        for _ in range(_REDRAWS):
            pairs = _both_ways(_regular(degree, agents, rng))
            if len(_components(agents, pairs)) == 1:
                return _ordered(agents, pairs)
        raise UserMistake(
            f"topology.degree is {degree}: in {_REDRAWS} draws the graph on {agents} agents was never connected; "
            "take a larger degree"
        )

    return wire


def edges(*, edges: list[tuple[int, int]]) -> Wire:
    """The given (source, target) links."""

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        return topology(agents, edges)

    return wire


def file(*, path: str) -> Wire:
    """The links in a text file: one `source target` a line, with a space or a comma between; `#` begins a comment."""

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        return _checked(agents, read_edges(path), f"topology {path}")

    return wire


def _checked(agents: int, edges: Iterable[tuple[str, Pair]], whole: str) -> Topology:
    """The graph with these links; each comes with the place where the user wrote it, for the messages."""
    _check_agents(agents)
    seen: dict[Pair, str] = {}
    for where, edge in edges:
        pair = _pair(where, edge, agents)
        if pair in seen:
            raise UserMistake(f"{where} is {_shown(pair)}, but {seen[pair]} is the same link; give each link once")
        seen[pair] = where
    components = _components(agents, seen)
    if len(components) > 1:
        raise UserMistake(
            f"{whole}: the graph is not strongly connected: its components are {_named(components)}; "
            "add links until everyone can reach everyone"
        )
    return _ordered(agents, seen)


def _pair(where: str, edge: Any, agents: int) -> Pair:
    try:
        source, target = map(operator.index, edge)
    except (TypeError, ValueError):
        raise UserMistake(f"{where} is {edge!r}, but a link is a pair of agents: [source, target]") from None
    for agent in (source, target):
        if not 0 <= agent < agents:
            raise UserMistake(
                f"{where} is {_shown((source, target))}, but there is no agent {agent}; "
                f"{agents} agents are numbered from 0 to {agents - 1}"
            )
    if source == target:
        raise UserMistake(f"{where} is {_shown((source, target))}, but an agent has no link to itself; leave it out")
    return source, target


def _check_agents(agents: int) -> None:
    if agents < 1:
        raise UserMistake(f"a topology on {agents} agents was asked for, but it needs at least one")


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
    drawn = _networkx().random_regular_graph(min(degree, others), agents, seed=_seed(rng))
    pairs = {(min(pair), max(pair)) for pair in drawn.edges}
    return pairs if degree <= others else set(itertools.combinations(range(agents), 2)) - pairs


def _ordered(agents: int, pairs: Iterable[Pair]) -> Topology:
    """The graph with these links, which are known to be sound and to connect everyone."""
    _check_agents(agents)
    sources, targets = np.array(list(pairs), dtype=np.int32).reshape(-1, 2).T
    order = np.lexsort((sources, targets))
    return Topology(agents, sources[order], targets[order])


def _both_ways(pairs: Iterable[Pair]) -> list[Pair]:
    return [link for source, target in pairs for link in ((source, target), (target, source))]


def _components(agents: int, pairs: Iterable[Pair]) -> list[list[int]]:
    """The strongly connected components, sorted: networkx gives them in an order of its own."""
    nx = _networkx()
    graph = nx.empty_graph(agents, create_using=nx.DiGraph)
    graph.add_edges_from(pairs)
    return sorted(map(sorted, nx.strongly_connected_components(graph)))


def _named(components: list[list[int]]) -> str:
    return _listed([f"{{{_listed([str(member) for member in members])}}}" for members in components])


def _listed(names: list[str]) -> str:
    """All names, or if they are many the first of them and how many there are in all."""
    if len(names) <= _SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[:_SHOWN])}, ... ({len(names)} in all)"


def _shown(pair: Pair) -> str:
    return f"[{pair[0]}, {pair[1]}]"


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**32))


def _networkx() -> Any:
    # Loading it takes more than a tenth of a second, which those who have a server need not wait for.
    import networkx

    return networkx
