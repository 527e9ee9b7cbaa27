"""Laws of mass without a server: what the network may do to it under each protocol, and what it may never do."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect.contracts import Algorithm, Mass, StepRule
from idiolect.engines.serverless import Lane
from idiolect.network.round_tables import Rounds, rounds
from idiolect.network.topologies import Topology, erdos_renyi, ring, topology
from idiolect.network.unreliable_links import Links, draw_rounds
from idiolect.objectives import plain
from idiolect.protocols import gossip
from idiolect.protocols.running_sums import running_sum
from idiolect.testing.peer_runs import ROUGH, pauses, peer_program
from idiolect.testing.small_clients import START, D, N
from tests.laws.quadratic_peers import CENTRES, ETA, MATRICES, MOST, ONE_WORKER, STILL, T, agree, held, history

# --- Tables ----------------------------------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> Topology:
    """Any links at all: the laws of mass do not ask whether everyone can reach everyone."""
    pairs = sorted(draw(st.sets(st.sampled_from([(j, i) for i in range(N) for j in range(N) if i != j]), min_size=1)))
    sources, targets = np.array(sorted(pairs, key=lambda pair: pair[::-1]), np.int32).T
    return Topology(N, sources, targets)


@st.composite
def tables(draw: st.DrawFn) -> Rounds:
    """Anyone asleep at any time, and messages lost, late, doubled in any order; by hand or, with more, by chance."""
    graph = draw(graphs())
    if draw(st.booleans()):
        links = ROUGH._replace(loss=draw(st.floats(0, 0.9)), duplication=draw(st.floats(0, 0.9)))
        return draw_rounds(links, graph, T, draw(st.integers(0, 1000)))
    row = st.lists(st.booleans(), min_size=N, max_size=N)
    awake = draw(st.lists(row, min_size=T, max_size=T))
    pairs = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    sends = [(j, i, t) for j, i in pairs for t in range(T) if awake[t][j]]
    message = st.tuples(st.sampled_from(sends or [None]), st.integers(0, T))
    sent = draw(st.lists(message, max_size=MOST)) if sends else []
    return rounds(graph, awake, [(j, i, t, t + delay) for (j, i, t), delay in sent])


@st.composite
def complete_deliveries(draw: st.DrawFn, in_order: bool) -> Rounds:
    """Every message arrives once; `in_order`, none before an older one of the same link."""
    links = ROUGH._replace(loss=0.0, duplication=0.0)
    table = draw_rounds(links, draw(graphs()), T, draw(st.integers(0, 1000)))
    if not in_order:
        return table
    arrives = table.sent + table.link % 3
    order = np.lexsort((table.sent, table.link, arrives))
    return table._replace(link=table.link[order], sent=table.sent[order], arrives=arrives[order])


# --- The same once more, in NumPy ------------------------------------------------------------------------------------


def taken_in_by_hand(table: Rounds) -> list[tuple[int, int, int]]:
    """(link, sent, taken in) of every message; T or more is never."""
    found = []
    for link, sent, t in zip(table.link.tolist(), table.sent.tolist(), table.arrives.tolist(), strict=True):
        while t < T and not table.awake[t, table.graph.targets[link]]:
            t += 1
        found.append((link, sent, t))
    return found


def steps_taken(table: Rounds, nodes: list, step_size: float = ETA) -> np.ndarray:
    """eta_i(t) A_i (z_i(t) - m_i) for those awake, as rounds x agents x D, at the models the engine shows."""
    steps, kappa = np.zeros((T, N, D)), [-1] * N
    for t in range(T):
        for i in np.flatnonzero(table.awake[t]):
            x, y = held(nodes[t][i])
            steps[t, i] = step_size * (t - kappa[i]) * MATRICES[i] @ (x / y - CENTRES[i])
            kappa[i] = t
    return steps


def magnitude(nodes: list, steps: np.ndarray) -> float:
    """The largest numbers that were added up: what a relative error is relative to."""
    return 1 + max(abs(steps).max(), max(abs(held(node)[0]).max() for agents in nodes for node in agents))


# --- Laws of mass ----------------------------------------------------------------------------------------------------


@given(tables())
@settings(max_examples=40, deadline=None)
def test_running_sums_conserve_mass_whatever_the_network_does(table):
    nodes, reports = history("running_sum", table)
    steps, sources = steps_taken(table, nodes), table.graph.sources
    scale, messages = magnitude(nodes, steps), taken_in_by_hand(table)
    for t in range(T + 1):
        x, y = (sum(part) for part in zip(*(held(node) for node in nodes[t]), strict=True))
        for link, j in enumerate(sources):
            heard = max([-1, *(sent for k, sent, when in messages if k == link and when < t)])
            phi, rho = nodes[t][j].sent, nodes[heard + 1][j].sent  # a message of round s says phi as it is after s
            x, y = x + phi.x - rho.x, y + phi.y - rho.y
        agree(y, N)
        agree(x, N * START - steps[:t].sum((0, 1)), scale)
        said = reports[t]
        agree([said["y_leaked"], said["x_leaked"]], 0, scale)
        agree(said["y_with_agents"] + said["y_under_way"] + said["y_recoverable"], N)


@given(tables())
@settings(max_examples=40, deadline=None)
def test_push_sum_leaks_what_is_lost_and_gains_what_comes_twice(table):
    nodes, reports = history("push_sum", table)
    steps, graph = steps_taken(table, nodes), table.graph
    scale, leaked_x, leaked_y = magnitude(nodes, steps), np.zeros(D), 0.0
    for t in range(T):
        for link, j in enumerate(graph.sources):
            if table.awake[t, j]:
                x, y = held(nodes[t][j])
                copies = int(((table.link == link) & (table.sent == t)).sum())
                leaked_x = leaked_x + (1 - copies) * (x - steps[t, j]) / (graph.out_degrees[j] + 1)
                leaked_y += (1 - copies) * y / (graph.out_degrees[j] + 1)
        agree(reports[t + 1]["y_leaked"], leaked_y)
        agree(reports[t + 1]["x_leaked"], np.linalg.norm(leaked_x), scale)


@given(complete_deliveries(in_order=False))
@settings(max_examples=20, deadline=None)
def test_push_sum_conserves_mass_when_every_message_arrives_once(table):
    nodes, reports = history("push_sum", table)
    scale = magnitude(nodes, steps_taken(table, nodes))
    for said in reports:
        agree([said["y_leaked"], said["x_leaked"]], 0, scale)
        agree(said["y_with_agents"] + said["y_under_way"], N)


@given(complete_deliveries(in_order=True))
@settings(max_examples=20, deadline=None)
def test_push_sum_and_running_sums_are_the_same_when_every_message_arrives_once_and_in_order(table):
    shares, sums = history("push_sum", table)[0], history("running_sum", table)[0]
    scale = magnitude(sums, steps_taken(table, sums))
    for left, right in zip(shares, sums, strict=True):
        for i in range(N):
            for one, other in zip(held(left[i]), held(right[i]), strict=True):
                agree(one, other, scale)


def test_a_running_sum_that_overtakes_brings_the_mass_of_older_messages_along():
    graph = topology(N, [(0, 1), (1, 2), (2, 3), (3, 0)])
    awake = np.ones((T, N), bool)
    table = rounds(graph, awake, [(0, 1, 0, 5), (0, 1, 1, 2)])
    shares, sums = history("push_sum", table, step_size=0.0)[0], history("running_sum", table, step_size=0.0)[0]
    # Agent 1 halves what it has in rounds 0, 1 and 2, and then takes in 1/4, or 1/2 + 1/4.
    assert [float(nodes[3][1].mass.y) for nodes in (shares, sums)] == [1 / 8 + 1 / 4, 1 / 8 + 3 / 4]
    # In round 5 the older message brings the rest, or nothing.
    assert [float(nodes[6][1].mass.y) for nodes in (shares, sums)] == [3 / 64 + 1 / 2, 7 / 64]


def test_push_sum_loses_a_third_of_the_mass_with_one_message_and_doubles_it_with_another():
    graph = topology(N, [(0, 1), (0, 2), (1, 2), (2, 3), (3, 0)])
    awake = np.zeros((T, N), bool)
    awake[0, 0] = awake[1, 1] = True
    lost = history("push_sum", rounds(graph, awake, [(0, 1, 0, 1)]))[1][1]
    doubled = history("push_sum", rounds(graph, awake, [(0, 1, 0, 1), (0, 2, 0, 1), (0, 1, 0, 1)]))[1]
    sums = history("running_sum", rounds(graph, awake, [(0, 1, 0, 1)]))[1][1]
    assert lost["y_leaked"] == pytest.approx(1 / 3)
    assert (doubled[1]["y_leaked"], doubled[1]["y_under_way"]) == pytest.approx((-1 / 3, 1))
    assert (doubled[2]["y_leaked"], doubled[2]["y_under_way"]) == pytest.approx((-1 / 3 + 1 / 2, 1 / 3))
    assert (sums["y_leaked"], sums["y_recoverable"], sums["y_under_way"]) == pytest.approx((0, 1 / 3, 1 / 3))


def test_gossip_keeps_the_average_when_all_are_awake_and_in_time_and_else_drifts():
    graph = ring(directed=False)(N, np.random.default_rng(0))
    perfect = Links(wake=1.0, loss=0.0, least_delay=0, gamma_d=0)
    for links, kept in ((perfect, True), (perfect._replace(loss=0.3), False), (perfect._replace(gamma_d=2), False)):
        table = draw_rounds(links, graph, T, 1)
        nodes, reports = history("gossip", table)
        steps = steps_taken(table, nodes)
        drift = np.linalg.norm(sum(held(node)[0] for node in nodes[-1]) - (N * START - steps.sum((0, 1))))
        assert (drift < 1e-12) == kept
        assert reports[-1]["x_leaked"] == pytest.approx(drift, abs=1e-12)


@pytest.mark.parametrize("protocol", ["running_sum", "push_sum"])
@given(table=tables())
@settings(max_examples=10, deadline=None)
def test_without_gradients_every_model_stays_at_the_start_even_where_mass_leaks(protocol, table):
    nodes, reports = history(protocol, table, step_size=0.0)
    for agents, said in zip(nodes, reports, strict=True):
        for node in agents:
            agree(held(node)[0] / held(node)[1], START, tolerance=1e-12)
        agree(said["y_with_agents"] + said["y_under_way"] + said["y_recoverable"] + said["y_leaked"], N)


def test_after_one_step_without_more_all_models_tend_to_their_average():
    """theta(0) is ETA and the rest next to nothing; everyone takes that step at the start, when it first wakes."""
    graph = erdos_renyi(probability=0.3)(N, np.random.default_rng(2))
    rule = StepRule("decreasing", 1e-13)
    program = peer_program(STILL, Algorithm("once", plain(), running_sum(), 1, ETA * 1e-13, 1, rule))
    lane = Lane(STILL.clients, draw_rounds(Links(), graph, 200, 3), 0)
    (early,), (late,) = pauses(program, [lane], [5, 200], ONE_WORKER)
    average = START - ETA * np.einsum("nij,nj->ni", MATRICES, START - CENTRES).mean(0)
    assert early.reports["consensus_gap"] > 1e-3
    for i in range(N):
        np.testing.assert_allclose(late.model(i), average, rtol=1e-9)


def test_gossip_keeps_a_share_of_its_own_however_many_messages_come_together():
    """Of what an agent with two neighbours hears at one waking at most two thirds count: 1 - 1 / (d + 1)."""
    peer = gossip()
    node = peer.init(jnp.asarray(3.0), jnp.asarray(2.0))
    for heard in (0.5, 2 / 3, 1.5, 40.0):
        share = min(heard, 2 / 3)
        found = peer.settle(node, Mass(jnp.asarray(heard * 9.0), jnp.asarray(heard)))
        assert float(peer.read(found)) == pytest.approx((1 - share) * 3 + share * 9, rel=1e-5)
