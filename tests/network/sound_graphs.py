"""What every graph must be; strong connectivity by powers of a matrix, not by the library that the code asks."""

import numpy as np

from idiolect.network.topologies import Topology, Wire


def draw(wire: Wire, agents: int, seed: int = 0) -> Topology:
    return wire(agents, np.random.default_rng(seed))


def pairs(graph: Topology) -> list[tuple[int, int]]:
    return list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))


def reaches_everyone(graph: Topology) -> bool:
    reach = np.eye(graph.agents, dtype=bool)
    reach[graph.sources, graph.targets] = True
    for _ in range(graph.agents.bit_length()):  # each squaring doubles the length of the paths
        reach = reach @ reach
    return bool(reach.all())


def assert_sound(graph: Topology) -> None:
    links = pairs(graph)
    assert links == sorted(set(links), key=lambda link: link[::-1])
    assert graph.links == len(links)
    assert graph.sources.dtype == graph.targets.dtype == np.int32
    assert (graph.sources != graph.targets).all()
    assert graph.out_degrees.dtype == graph.in_degrees.dtype == np.int32
    assert graph.out_degrees.tolist() == [sum(s == agent for s, _ in links) for agent in range(graph.agents)]
    assert graph.in_degrees.tolist() == [sum(t == agent for _, t in links) for agent in range(graph.agents)]
    assert graph.undirected == all((target, source) in set(links) for source, target in links)
    assert reaches_everyone(graph)
