"""Graphs that change, graphs that are drawn again, and their tables on disk."""

import numpy as np
import pytest

from idiolect.errors import UserMistake
from idiolect.network import draw_rounds, rounds
from idiolect.network.changing_graphs import changing, one_peer
from idiolect.network.round_files import read_rounds, write_rounds
from idiolect.network.round_tables import delivered_share
from idiolect.network.topologies import erdos_renyi
from idiolect.network.unreliable_links import Links

SURE = Links(wake=1.0, loss=0.0)
TWO = [[(0, 1), (1, 2)], [(2, 0)]]


def test_messages_go_over_the_links_of_their_round_only():
    graph = changing(graphs=TWO, hold=2)(3, None)
    table = draw_rounds(SURE, graph, 8, seed=0)
    went = {(int(t), int(graph.sources[k]), int(graph.targets[k])) for k, t in zip(table.link, table.sent, strict=True)}
    assert went == {(t, *link) for t in range(8) for link in TWO[t // 2 % 2]}
    assert graph.out_degrees_in(np.arange(4)).tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1]]
    assert delivered_share(table).tolist() == [1.0, 1.0, 1.0], "what is not sent is not lost"


def test_a_link_that_is_not_there_cannot_be_used_by_hand():
    graph = changing(graphs=TWO)(3, None)
    with pytest.raises(UserMistake, match="agent 2 sends to agent 0 in round 0, but there is no such link then"):
        rounds(graph, np.ones((2, 3), bool), [(2, 0, 0, 1)])


def test_a_changing_graph_comes_back_from_its_file(tmp_path):
    graph = one_peer()(5, np.random.default_rng(0))
    table = draw_rounds(SURE, graph, 6, seed=1)
    (tmp_path / "t.npz").write_bytes(write_rounds(table))
    again = read_rounds(tmp_path / "t.npz", graph, 6)
    np.testing.assert_array_equal(again.graph.present, graph.present)
    np.testing.assert_array_equal(again.link, table.link)


def test_links_both_ways_must_be_there_together():
    assert changing(graphs=[[(0, 1), (1, 0)]])(2, None).undirected
    assert not changing(graphs=[[(0, 1)], [(1, 0)]])(2, None).undirected


def test_graphs_that_are_drawn_again_have_the_law_of_strongly_connected_ones():
    """On three agents with p = 1/2, by counting all 64 graphs: 18 of them are strongly connected."""
    wire, rng = erdos_renyi(probability=0.5, connect="redraw"), np.random.default_rng(0)
    drawn = [wire(3, rng) for _ in range(3000)]
    kinds = {tuple(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)) for graph in drawn}
    assert len(kinds) == 18
    assert np.mean([graph.links for graph in drawn]) == pytest.approx(strongly_connected_on_three().mean(), abs=0.05)


def strongly_connected_on_three() -> np.ndarray:
    """The numbers of links of all strongly connected graphs on three agents, by powers of their adjacency matrices."""
    places, found = [(i, j) for i in range(3) for j in range(3) if i != j], []
    for bits in range(64):
        matrix = np.eye(3)
        for k, place in enumerate(places):
            matrix[place] = max(matrix[place], bits >> k & 1)
        if (matrix @ matrix > 0).all():
            found.append(bin(bits).count("1"))
    assert len(found) == 18
    return np.array(found)


def test_draws_in_vain_are_told():
    with pytest.raises(UserMistake, match="was never strongly connected"):
        erdos_renyi(probability=0.0, connect="redraw")(3, np.random.default_rng(0))


def test_one_agent_alone_has_nobody_to_send_to(tmp_path):
    graph = one_peer()(1, np.random.default_rng(0))
    assert graph.links == 0
    (tmp_path / "t.npz").write_bytes(write_rounds(draw_rounds(SURE, graph, 6, seed=1)))
    again = read_rounds(tmp_path / "t.npz", graph, 6)
    assert (again.length, again.graph.links, again.graph.present.shape) == (6, 0, (1, 0))
