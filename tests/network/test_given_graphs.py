"""Graphs given link by link, by hand or in a file: taken if everyone reaches everyone, else refused with a sentence."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect import catalog
from idiolect.errors import UserMistake
from idiolect.network.topologies import Topology, file, topology
from idiolect.options import make
from idiolect.registry import Choice
from tests.network.sound_graphs import assert_sound, draw, pairs, reaches_everyone

CYCLE = [(0, 1), (1, 2), (2, 3), (3, 0)]


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
    wire = make(catalog.TOPOLOGIES, "topology", Choice("edges", {"edges": [list(pair) for pair in CYCLE]}))
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
