"""Peers screen what comes over each link: what cannot be true is as good as lost."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import idiolect
from idiolect import Algorithm, Experiment, objectives, protocols
from idiolect.contracts import Mass, Message, Peer
from idiolect.engines import Workers
from idiolect.engines.serverless import Lane, prepare_peers, simulate_peers
from idiolect.engines.serverless.link_screening import receive_if_sound
from idiolect.engines.serverless.stepwise_peers import run_peers_stepwise
from idiolect.network import Links, draw_rounds, topology
from idiolect.problems.synthetic import quadratics
from idiolect.report.remarks import remarks

AGENTS = 4
PARAMS = jnp.ones(3)


@pytest.mark.parametrize("kind", [protocols.push_sum, protocols.running_sum])
@pytest.mark.parametrize(
    "lie", [Mass(PARAMS * np.nan, 0.5), Mass(PARAMS, np.inf), Mass(PARAMS, 4.1), Mass(PARAMS, -0.1)]
)
def test_a_message_that_cannot_be_true_changes_nothing(kind, lie):
    peer = kind()
    memory = peer.remember(PARAMS, jnp.int32(2))
    lie = Mass(jnp.asarray(lie.x), jnp.asarray(lie.y))
    kept, brought, sound = receive_if_sound(peer, memory, Message(lie, jnp.int32(1)), AGENTS)
    assert not sound
    for before, after in zip(jax.tree.leaves(memory), jax.tree.leaves(kept), strict=True):
        np.testing.assert_array_equal(before, after)
    assert all(not np.asarray(leaf).any() for leaf in jax.tree.leaves(brought))


def lying_in(rounds: tuple[int, ...], who: int | None = None) -> Peer:
    """Push-sum whose messages of these rounds are NaN; all, or those of the agent that begins with this number."""
    peer = protocols.push_sum()

    def init(params, degree):
        return params[0], peer.init(params, degree)

    def emit(state, descent, round):
        first, inner = state
        inner, message = peer.emit(inner, descent, round)
        false = jnp.isin(round, jnp.array(rounds)) & ((first == who) if who is not None else True)
        content = jax.tree.map(lambda leaf: jnp.where(false, jnp.nan, leaf), message.content)
        return (first, inner), Message(content, message.round)

    return peer._replace(
        init=init,
        emit=emit,
        settle=lambda state, gain: (state[0], peer.settle(state[1], gain)),
        holds=lambda state: peer.holds(state[1]),
        read=lambda state: peer.read(state[1]),
        redirect=None,
    )


RING = topology(3, [(0, 1), (1, 2), (2, 0)])
DENSE = topology(3, [(0, 1), (1, 2), (2, 0), (1, 0)])
STARTS = np.array([[0.0, 1.0], [7.0, 1.0], [2.0, 1.0]])  # agents are known by their first number


def lanes_of(problem, *graphs):
    clients = problem.clients._replace(start_models=STARTS)
    tables = [draw_rounds(Links(wake=1.0, loss=0.0, gamma_d=1), graph, 8, seed=0) for graph in graphs]
    return [Lane(clients, table, seed=seed) for seed, table in enumerate(tables)]


def test_refused_messages_are_counted_for_their_links_and_alike_in_both_engines():
    problem = quadratics(clients=3, dimension=2)
    mine = Algorithm("lying", objectives.plain(), lying_in((1, 2, 5), who=7), local_steps=1)
    lanes = lanes_of(problem, RING, DENSE)
    with Workers(1) as workers:
        early, late = simulate_peers(prepare_peers(problem, mine), lanes, workers, times=[4.0, 8.0])
    assert [one.refused_messages for one in early] == [{1: {2: 2}}, {1: {0: 2, 2: 2}}]
    assert [one.refused_messages for one in late] == [{1: {2: 3}}, {1: {0: 3, 2: 3}}]
    assert all(np.isfinite(np.asarray(one.params)).all() for one in late)
    agents = run_peers_stepwise(problem, mine, lanes[1])
    assert [dict(+agent.refused) for agent in agents] == [{1: 3}, {}, {1: 3}]


def test_a_run_tells_of_refused_messages_in_its_cell_its_summary_and_its_remarks(tmp_path):
    problem = idiolect.problem(
        init=lambda key: jnp.zeros(2), loss=lambda w, x: jnp.square(w - x["x"]).sum(), data=[{"x": np.ones((4, 2))}] * 3
    )
    algorithm = Algorithm("lying", objectives.plain(), lying_in((3, 5)), local_steps=1)
    experiment = Experiment(problem=problem, algorithms=[algorithm], horizon=10.0, links=Links(wake=1.0, loss=0.0))
    run = idiolect.run(experiment, out=tmp_path / "run")
    (cell,) = run.cells
    assert cell.refused_messages == {0: {2: 2}, 1: {0: 2}, 2: {1: 2}}
    found = json.loads((tmp_path / "run" / "summary.json").read_text())["algorithms"]["lying"]["refused_messages"]
    assert found == {"0": {"0": {"2": 2}, "1": {"0": 2}, "2": {"1": 2}}}
    assert "lying, seed 0: 2 messages of client 0 refused by client 2; " in "\n".join(remarks(run.summary))
    assert "2 messages of client 0 refused by client 2" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize("name", ["push_sum", "running_sum"])
def test_the_network_stays_finite_when_everybody_sends_nan_once(name):
    problem, peer = quadratics(clients=3, dimension=2), getattr(protocols, name)()

    def lying(state, descent, round):
        state, message = peer.emit(state, descent, round)
        content = jax.tree.map(lambda leaf: jnp.where(round == 5, jnp.nan, leaf), message.content)
        return state, Message(content, message.round)

    program = prepare_peers(problem, Algorithm("lying", objectives.plain(), peer._replace(emit=lying), local_steps=1))
    table = draw_rounds(Links(wake=1.0, loss=0.0), RING, 20, seed=0)
    with Workers(1) as workers:
        *_, last = simulate_peers(program, [Lane(problem.clients, table, seed=0)], workers, times=[20.0])
    assert np.isfinite(np.asarray(last[0].params)).all()
