"""Peers screen what comes over each link: what cannot be true is as good as lost."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect import Algorithm, objectives, protocols
from idiolect.contracts import Mass, Message
from idiolect.engines import Workers
from idiolect.engines.serverless import Lane, prepare_peers, simulate_peers
from idiolect.engines.serverless.link_screening import receive_if_sound
from idiolect.network import Links, draw_rounds, topology
from idiolect.problems.synthetic import quadratics

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
    kept, brought = receive_if_sound(peer, memory, Message(lie, jnp.int32(1)), AGENTS)
    for before, after in zip(jax.tree.leaves(memory), jax.tree.leaves(kept), strict=True):
        np.testing.assert_array_equal(before, after)
    assert all(not np.asarray(leaf).any() for leaf in jax.tree.leaves(brought))


@pytest.mark.parametrize("name", ["push_sum", "running_sum"])
def test_the_network_stays_finite_when_everybody_sends_nan_once(name):
    problem, peer = quadratics(clients=3, dimension=2), getattr(protocols, name)()

    def lying(state, descent, round):
        state, message = peer.emit(state, descent, round)
        content = jax.tree.map(lambda leaf: jnp.where(round == 5, jnp.nan, leaf), message.content)
        return state, Message(content, message.round)

    program = prepare_peers(problem, Algorithm("lying", objectives.plain(), peer._replace(emit=lying), local_steps=1))
    table = draw_rounds(Links(wake=1.0, loss=0.0), topology(3, [(0, 1), (1, 2), (2, 0)]), 20, seed=0)
    with Workers(1) as workers:
        *_, last = simulate_peers(program, [Lane(problem.clients, table, seed=0)], workers, times=[20.0])
    assert np.isfinite(np.asarray(last[0].params)).all()
