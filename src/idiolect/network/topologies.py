"""Topologies: directed, strongly connected graphs without self-loops of who can send to whom.

Every factory returns `wire(agents, rng) -> the graph on that many agents`.
"""

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from annotated_types import Ge, Le

from idiolect.errors import UserMistake
from idiolect.network.edge_lists import Pair, checked_link, read_edges

_REDRAWS = 200_000  # of ten agents and p = 0.15 about 1 draw in 200 is strongly connected
_SHOWN = 8  # a message names this many components, and this many members of each


class Topology(NamedTuple):
    """A directed graph without self-loops; its links are ordered by target, then by source."""

    agents: int
    sources: np.ndarray  # link k goes from agent sources[k]
    targets: np.ndarray  # to agent targets[k]
    present: np.ndarray | None = None  # where it changes, rounds x links: which links are there, over and over again

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
        """Whether every link has its reverse, whenever it is there."""
        order = np.lexsort((self.targets, self.sources))
        both = np.array_equal(self.sources[order], self.targets) and np.array_equal(self.targets[order], self.sources)
        return bool(both and (self.present is None or np.array_equal(self.present[:, order], self.present)))

    def links_in(self, rounds: np.ndarray) -> np.ndarray:
        """Which links are there in these rounds, as rounds x links."""
        if self.present is None:
            return np.ones((len(rounds), self.links), bool)
        return np.asarray(self.present[rounds % len(self.present)])

    def out_degrees_in(self, rounds: np.ndarray) -> np.ndarray:
        """How many agents each agent sends to in these rounds, as rounds x agents."""
        degrees = np.zeros((len(rounds), self.agents), np.int32)
        np.add.at(degrees.T, self.sources, self.links_in(rounds).T.astype(np.int32))
        return degrees


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


def erdos_renyi(*, probability: Annotated[float, Ge(0), Le(1)], connect: Literal["patch", "redraw"] = "patch") -> Wire:
    """Directed G(n, p): each of the n (n - 1) links is there with this probability, independently of the others.

    Args:
        probability: Of each link.
        connect: What becomes of a draw that is not strongly connected. `patch` gives it the links of a random cycle
            through one random member of each strongly connected component; `redraw` draws again, which is the law of
            G(n, p) given that it is strongly connected, and may be in vain for a small probability.
    """

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        check_agents(agents)
        if connect == "redraw":
            return ordered_graph(agents, _redrawn(agents, probability, rng))
        graph = networkx_module().gnp_random_graph(agents, probability, seed=seed_of(rng), directed=True)
        pairs = set(graph.edges)
        components = components_of(agents, pairs)
        if len(components) > 1:
            stops = rng.permutation([rng.choice(members) for members in components]).tolist()
            # Drawn links may already lead from one stop to the next; the set keeps them single.
            pairs.update(zip(stops, stops[1:] + stops[:1], strict=True))
        return ordered_graph(agents, pairs)

    return wire


def _redrawn(agents: int, probability: float, rng: np.random.Generator) -> list[Pair]:
    """The links of the first draw of G(n, p) that is strongly connected."""
    alone = np.eye(agents, dtype=bool)
    for _ in range(_REDRAWS):
        drawn = (rng.random((agents, agents)) < probability) & ~alone
        if agents > 1 and not (drawn.any(0) & drawn.any(1)).all():  # somebody is not heard or does not hear: most draws
            continue
        pairs = [(int(source), int(target)) for source, target in np.argwhere(drawn)]
        if len(components_of(agents, pairs)) == 1:
            return pairs
    raise UserMistake(
        f"topology.probability is {probability:g}: in {_REDRAWS:,} draws the graph on {agents} agents was never "
        "strongly connected; take a larger one, or connect = 'patch'"
    )


def ring(*, directed: bool = True) -> Wire:
    """Everyone sends to the next agent, the last to the first; and to the previous one too unless `directed`.

    Args:
        directed: Whether nobody sends to the previous agent.
    """

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        steps = (1,) if directed else (1, -1)
        # A set, because with two agents the next and the previous are the same; with one there is nobody to send to.
        pairs = {(agent, (agent + step) % agents) for agent in range(agents) for step in steps}
        return ordered_graph(agents, pairs if agents > 1 else ())

    return wire


def exponential() -> Wire:
    """Agent i sends to i + 1, i + 2, i + 4, ... modulo the number of agents, as long as the step is less than that."""

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        steps = list(itertools.takewhile(lambda step: step < agents, (2**k for k in itertools.count())))
        return ordered_graph(agents, ((agent, (agent + step) % agents) for agent in range(agents) for step in steps))

    return wire


def star() -> Wire:
    """Agent 0 exchanges with everyone, and the others with nobody else."""

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        return ordered_graph(agents, both_ways((0, leaf) for leaf in range(1, agents)))

    return wire


def grid() -> Wire:
    """Neighbours in a rectangle, as square as possible, exchange; it has no wrap-around.

    It has r rows, r being the largest divisor of the number of agents up to its root. A prime number of agents
    therefore stands in a line.
    """

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        check_agents(agents)
        rows = max(row for row in range(1, math.isqrt(agents) + 1) if agents % row == 0)
        columns = agents // rows
        across = [(agent, agent + 1) for agent in range(agents) if (agent + 1) % columns]
        down = [(agent, agent + columns) for agent in range(agents - columns)]
        return ordered_graph(agents, both_ways(across + down))

    return wire


def complete() -> Wire:
    """Everyone sends to everyone."""

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        return ordered_graph(agents, itertools.permutations(range(agents), 2))

    return wire


def edges(*, edges: list[tuple[int, int]]) -> Wire:
    """The given (source, target) links.

    Args:
        edges: Pairs of agents, which are numbered from 0, each once; everyone must reach everyone along them.
    """

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        return topology(agents, edges)

    return wire


def file(*, path: str) -> Wire:
    """The links in a text file: one `source target` a line, with a space or a comma between; `#` begins a comment.

    Args:
        path: Of the file.
    """

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        return _checked(agents, read_edges(path), f"topology {path}")

    return wire


def _checked(agents: int, edges: Iterable[tuple[str, Pair]], whole: str) -> Topology:
    """The graph with these links; each comes with the place where the user wrote it, for the messages."""
    check_agents(agents)
    seen: dict[Pair, str] = {}
    for where, edge in edges:
        pair = checked_link(where, edge, agents)
        if pair in seen:
            raise UserMistake(f"{where} is {list(pair)}, but {seen[pair]} is the same link; give each link once")
        seen[pair] = where
    components = components_of(agents, seen)
    if len(components) > 1:
        raise UserMistake(
            f"{whole}: the graph is not strongly connected: its components are {_named(components)}; "
            "add links until everyone can reach everyone"
        )
    return ordered_graph(agents, seen)


def check_agents(agents: int) -> None:
    """Refuse a graph on nobody."""
    if agents < 1:
        raise UserMistake(f"a topology on {agents} agents was asked for, but it needs at least one")


def ordered_graph(agents: int, pairs: Iterable[Pair]) -> Topology:
    """The graph with these links, which are known to be sound and to connect everyone."""
    check_agents(agents)
    sources, targets = np.array(list(pairs), dtype=np.int32).reshape(-1, 2).T
    order = np.lexsort((sources, targets))
    return Topology(agents, sources[order], targets[order])


def both_ways(pairs: Iterable[Pair]) -> list[Pair]:
    """Every link and its reverse."""
    return [link for source, target in pairs for link in ((source, target), (target, source))]


def components_of(agents: int, pairs: Iterable[Pair]) -> list[list[int]]:
    """The strongly connected components, sorted: networkx gives them in an order of its own."""
    nx = networkx_module()
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


def seed_of(rng: np.random.Generator) -> int:
    """A seed for what draws with a generator of its own."""
    return int(rng.integers(2**32))


def networkx_module() -> Any:
    """The library of graphs, loaded when it is needed."""
    # Loading it takes more than a tenth of a second, which those who have a server need not wait for.
    import networkx

    return networkx
