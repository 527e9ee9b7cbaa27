"""Who can send to whom: every graph connects everyone, has the links its name promises, and else says what is wrong.

Strong connectivity is checked here by powers of the adjacency matrix, not by the library that the code asks.
"""

import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect.errors import UserMistake
from idiolect.network.topology import (
    Topology,
    Wire,
    complete,
    edges,
    erdos_renyi,
    exponential,
    file,
    grid,
    random_regular,
    ring,
    star,
    topology,
)
from idiolect.options import make

WIRES = {
    "erdos_renyi": erdos_renyi(probability=0.15),
    "ring": ring(),
    "undirected ring": ring(directed=False),
    "exponential": exponential(),
    "star": star(),
    "grid": grid(),
    "complete": complete(),
    "random_regular": random_regular(degree=4),
}
UNDIRECTED = {"undirected ring", "star", "grid", "complete", "random_regular"}
CYCLE = [(0, 1), (1, 2), (2, 3), (3, 0)]


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


@pytest.mark.parametrize("agents", [5, 6, 7, 8, 12, 16, 25])
@pytest.mark.parametrize("name", WIRES)
def test_every_factory_connects_everyone(name, agents):
    graph = draw(WIRES[name], agents)
    assert graph.agents == agents
    assert_sound(graph)
    assert graph.undirected or name not in UNDIRECTED


@pytest.mark.parametrize("name", [name for name in WIRES if name != "random_regular"])
def test_one_agent_has_no_links_and_two_have_both(name):
    alone, two = draw(WIRES[name], 1), draw(WIRES[name], 2)
    assert_sound(alone)
    assert alone.links == 0
    assert alone.undirected
    assert pairs(two) == [(1, 0), (0, 1)]


@pytest.mark.parametrize("name", WIRES)
def test_the_seed_decides(name):
    first, again = draw(WIRES[name], 16, seed=3), draw(WIRES[name], 16, seed=3)
    assert pairs(first) == pairs(again)
    different = {tuple(pairs(draw(WIRES[name], 16, seed=seed))) for seed in range(5)}
    assert len(different) == (5 if name in ("erdos_renyi", "random_regular") else 1)


def test_one_generator_draws_one_graph_after_the_other():
    rng = np.random.default_rng(0)
    wire = erdos_renyi(probability=0.3)
    assert pairs(wire(12, rng)) != pairs(wire(12, rng))


def test_a_ring_goes_round_one_way_or_both():
    assert pairs(draw(ring(), 4)) == [(3, 0), (0, 1), (1, 2), (2, 3)]
    assert not draw(ring(), 4).undirected
    assert draw(ring(directed=False), 4).out_degrees.tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("agents", "steps"), [(2, [1]), (4, [1, 2]), (5, [1, 2, 4]), (8, [1, 2, 4]), (9, [1, 2, 4, 8])]
)
def test_exponential_steps_are_the_powers_of_two_below_the_number_of_agents(agents, steps):
    graph = draw(exponential(), agents)
    assert set(pairs(graph)) == {(agent, (agent + step) % agents) for agent in range(agents) for step in steps}
    assert set(graph.in_degrees) == set(graph.out_degrees) == {len(steps)}


def test_a_star_has_its_hub_at_agent_0():
    graph = draw(star(), 6)
    assert graph.out_degrees.tolist() == graph.in_degrees.tolist() == [5, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(("agents", "rows"), [(4, 2), (6, 2), (7, 1), (12, 3), (16, 4), (18, 3), (20, 4)])
def test_a_grid_is_as_square_as_possible(agents, rows):
    lattice = nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, agents // rows), ordering="sorted")
    assert set(pairs(draw(grid(), agents))) == set(lattice.to_directed().edges)


def test_complete_has_every_link():
    assert draw(complete(), 7).links == 42


@pytest.mark.parametrize(("agents", "degree"), [(2, 1), (9, 2), (10, 3), (10, 5), (10, 8), (10, 9), (7, 4)])
def test_everyone_in_a_random_regular_graph_has_the_degree(agents, degree):
    for seed in range(10):
        graph = draw(random_regular(degree=degree), agents, seed)
        assert_sound(graph)
        assert graph.undirected
        assert set(graph.out_degrees) == {degree}


def test_networkx_never_draws_the_denser_half(monkeypatch):
    # Asked for 100 agents of degree 90, it takes more than two minutes.
    asked, original = [], nx.random_regular_graph
    monkeypatch.setattr(nx, "random_regular_graph", lambda d, n, seed: asked.append(d) or original(d, n, seed=seed))
    assert set(draw(random_regular(degree=90), 100).out_degrees) == {90}
    assert asked == [9]


@given(st.integers(1, 20), st.floats(0, 1), st.integers(0, 10_000))
@settings(max_examples=80, deadline=None)
def test_erdos_renyi_adds_few_links_to_the_draw(agents, probability, seed):
    graph = draw(erdos_renyi(probability=probability), agents, seed)
    drawn_seed = int(np.random.default_rng(seed).integers(2**32))
    drawn = nx.gnp_random_graph(agents, probability, seed=drawn_seed, directed=True)
    component = {agent: k for k, found in enumerate(nx.strongly_connected_components(drawn)) for agent in found}
    added = set(pairs(graph)) - set(drawn.edges)
    assert_sound(graph)
    assert set(drawn.edges) <= set(pairs(graph))
    assert all(component[source] != component[target] for source, target in added)
    count = len(set(component.values()))
    assert len(added) <= (count if count > 1 else 0)


def test_erdos_renyi_without_any_drawn_link_is_a_random_cycle():
    graphs = [draw(erdos_renyi(probability=0.0), 6, seed) for seed in range(5)]
    assert all(set(graph.out_degrees) == set(graph.in_degrees) == {1} for graph in graphs)
    assert len({tuple(pairs(graph)) for graph in graphs}) > 1


def test_erdos_renyi_has_the_expected_number_of_links():
    links = [draw(erdos_renyi(probability=0.3), 40, seed).links for seed in range(20)]
    possible = 20 * 40 * 39
    assert abs(sum(links) - 0.3 * possible) <= 5 * np.sqrt(0.3 * 0.7 * possible)


def test_links_given_by_hand_are_ordered_by_target_then_source():
    graph = topology(4, [(2, 0), *reversed(CYCLE), (0, 3)])
    assert pairs(graph) == [(2, 0), (3, 0), (0, 1), (1, 2), (0, 3), (2, 3)]
    assert_sound(graph)


@given(st.integers(2, 8).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.tuples(*[st.integers(0, n - 1)] * 2)))))
@settings(max_examples=100, deadline=None)
def test_a_graph_is_taken_if_and_only_if_everyone_reaches_everyone(given_graph):
    agents, found = given_graph
    links = sorted((source, target) for source, target in found if source != target)
    sources, targets = np.array(links, dtype=np.int32).reshape(-1, 2).T
    if reaches_everyone(Topology(agents, sources, targets)):
        graph = topology(agents, links)
        assert_sound(graph)
        assert sorted(pairs(graph)) == links
    else:
        with pytest.raises(UserMistake, match="not strongly connected"):
            topology(agents, links)


def test_edges_are_given_in_a_recipe_as_lists():
    wire = make({"edges": edges}, "topology", "edges", {"edges": [list(pair) for pair in CYCLE]})
    assert pairs(draw(wire, 4)) == pairs(topology(4, CYCLE))


def test_numpy_edges_and_iterators_are_fine():
    assert pairs(topology(4, np.array(CYCLE))) == pairs(topology(4, iter(CYCLE)))


@pytest.mark.parametrize(
    ("agents", "given_edges", "said"),
    [
        (0, [], "a topology on 0 agents was asked for, but it needs at least one"),
        (1, [(0, 0)], r"topology.edges\[0\] is \[0, 0\], but an agent has no link to itself"),
        (4, [*CYCLE, (2, 2)], r"topology.edges\[4\] is \[2, 2\], but an agent has no link to itself"),
        (4, [*CYCLE, (2, 4)], r"\[4\] is \[2, 4\], but there is no agent 4; 4 agents are numbered from 0 to 3"),
        (4, [(-1, 2)], r"topology.edges\[0\] is \[-1, 2\], but there is no agent -1"),
        (4, [*CYCLE, (1, 2)], r"topology.edges\[4\] is \[1, 2\], but topology.edges\[1\] is the same link"),
        (4, [(0, 1, 2)], r"topology.edges\[0\] is \(0, 1, 2\), but a link is a pair of agents"),
        (4, [(0, 1.5)], r"topology.edges\[0\] is \(0, 1.5\), but a link is a pair of agents"),
        (4, [3], r"topology.edges\[0\] is 3, but a link is a pair of agents"),
        (2, [], r"not strongly connected: its components are \{0\}, \{1\};"),
        (4, [(0, 1), (1, 2), (2, 0), (0, 3)], r"not strongly connected: its components are \{0, 1, 2\}, \{3\};"),
        (4, [(3, 1), (1, 3), (2, 0), (0, 2)], r"its components are \{0, 2\}, \{1, 3\};"),
    ],
)
def test_a_wrong_graph_is_refused_with_a_sentence(agents, given_edges, said):
    with pytest.raises(UserMistake, match=said):
        topology(agents, given_edges)


def test_many_components_and_large_ones_are_shortened():
    big = [(agent, (agent + 1) % 100) for agent in range(100)]
    with pytest.raises(UserMistake) as mistake:
        topology(120, big)
    named = (
        "{0, 1, 2, 3, 4, 5, 6, 7, ... (100 in all)}, {100}, {101}, {102}, {103}, {104}, {105}, {106}, ... (21 in all)"
    )
    assert named in str(mistake.value)


@pytest.mark.parametrize("name", WIRES)
def test_no_factory_makes_a_graph_without_agents(name):
    with pytest.raises(UserMistake, match="0 agents"):
        draw(WIRES[name], 0)


@pytest.mark.parametrize(
    ("agents", "degree", "said"),
    [
        (4, 4, "topology.degree is 4, but each of 4 agents has only 3 others"),
        (1, 1, "topology.degree is 1, but each of 1 agents has only 0 others"),
        (7, 3, "topology.degree is 3, but 7 agents cannot all have an odd degree"),
        (6, 1, "topology.degree is 1, but pairs do not connect 6 agents"),
    ],
)
def test_an_impossible_degree_is_refused(agents, degree, said):
    with pytest.raises(UserMistake, match=said):
        draw(random_regular(degree=degree), agents)


def test_redrawing_a_random_regular_graph_has_an_end(monkeypatch):
    two_triangles = nx.Graph([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
    monkeypatch.setattr(nx, "random_regular_graph", lambda degree, agents, seed: two_triangles)
    with pytest.raises(UserMistake, match="in 1000 draws the graph on 6 agents was never connected"):
        draw(random_regular(degree=2), 6)


@pytest.mark.parametrize(
    ("factory", "options", "said"),
    [
        (erdos_renyi, {}, "topology.probability is missing"),
        (erdos_renyi, {"probability": 1.5}, "topology.probability is 1.5"),
        (erdos_renyi, {"probability": -0.1}, "topology.probability is -0.1"),
        (random_regular, {"degree": 0}, "topology.degree is 0"),
        (ring, {"direct": True}, "did you mean 'directed'"),
        (edges, {"edges": [[0, 1, 2]]}, "topology.edges.0"),
        (file, {}, "topology.path is missing"),
    ],
)
def test_options_out_of_bounds_are_refused(factory, options, said):
    with pytest.raises(UserMistake, match=said):
        make({"it": factory}, "topology", "it", options)


def test_a_file_has_one_link_a_line(tmp_path):
    path = tmp_path / "graph.txt"
    path.write_text("# source target\n0 1\n\n1,2\n  2 ,\t3   # the long one\n3\t0\n")
    assert pairs(draw(file(path=str(path)), 4)) == pairs(topology(4, CYCLE))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 1\n\n1 two\n", "line 3 is '1 two', but must be two agents"),
        ("0 1 2\n", "line 1 is '0 1 2', but must be two agents"),
        ("# a comment\n0,,1\n", "line 2 is '0,,1', but must be two agents"),
        ("0\n", "line 1 is '0', but must be two agents"),
        ("0 1\n1 4\n", r"line 2 is \[1, 4\], but there is no agent 4"),
        ("0 1\n1 -2\n", r"line 2 is \[1, -2\], but there is no agent -2"),
        ("0 1\n\n1 1\n", r"line 3 is \[1, 1\], but an agent has no link to itself"),
        ("0 1\n1 2\n0,1\n", r"line 3 is \[0, 1\], but topology .*graph.txt, line 1 is the same link"),
        ("0 1\n1 0\n2 3\n", r"not strongly connected: its components are \{0, 1\}, \{2\}, \{3\}"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(tmp_path, text, said):
    path = tmp_path / "graph.txt"
    path.write_text(text)
    with pytest.raises(UserMistake, match=f"graph.txt.*{said}"):
        draw(file(path=str(path)), 4)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    binary = tmp_path / "binary.txt"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "missing.txt", tmp_path, binary):
        with pytest.raises(UserMistake, match=f"topology .*{path.name} cannot be read"):
            draw(file(path=str(path)), 4)


def test_networkx_is_loaded_only_when_it_is_needed():
    code = "import sys, idiolect.network.topology; sys.exit('networkx' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
