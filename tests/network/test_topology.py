"""Who can send to whom: every kind of graph connects everyone and has the links its name promises."""

import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect.errors import UserMistake
from idiolect.network.random_graphs import random_regular
from idiolect.network.topologies import (
    complete,
    edges,
    erdos_renyi,
    exponential,
    file,
    grid,
    ring,
    star,
)
from idiolect.options import make
from idiolect.registry import Choice, Registry
from tests.network.sound_graphs import assert_sound, draw, pairs

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
        make(Registry("wires", {"it": factory}), "topology", Choice("it", options))


def test_networkx_is_loaded_only_when_it_is_needed():
    code = "import sys, idiolect.network.topologies; sys.exit('networkx' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
