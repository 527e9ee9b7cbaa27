"""What `learn` gives beside scores: every agent's model at every point, and each client's model before it adapts."""

import numpy as np
import pytest

import idiolect
from idiolect import catalog
from idiolect.errors import UserMistake
from idiolect.network import rounds, topology
from idiolect.problems.synthetic import quadratics

PROBLEM = quadratics(clients=4, dimension=3)
RING = topology(4, [(0, 1), (1, 2), (2, 3), (3, 0)])


@pytest.fixture(scope="module")
def agents():
    return idiolect.learn(PROBLEM, "pars_push", horizon=20.0, points=4, step_size=0.1, trajectory=True)


def test_the_agents_models_are_those_that_were_scored(agents):
    """The mean squared distance to the minimiser, which the run reports, is that of these z."""
    algorithm = catalog.algorithm("pars_push", PROBLEM)
    optimum = PROBLEM.optimum(algorithm.objective, algorithm.batch_size)
    assert [at.time for at in agents.trajectory] == [point.time for point in agents.points]
    for at, point in zip(agents.trajectory, agents.points, strict=True):
        assert sorted(at.models) == [0, 1, 2, 3]
        assert at.shared == pytest.approx(np.mean(list(at.models.values()), axis=0), rel=1e-5)
        apart = np.mean([np.square(z - optimum).sum() for z in at.models.values()])
        assert point.reports["squared_distance_to_optimum"] == pytest.approx(apart, rel=1e-4)
    assert not np.array_equal(agents.trajectory[-1].models[0], agents.trajectory[-1].models[1])


def test_a_client_has_a_model_before_it_adapts_it(agents):
    """Its score is the one after no step, and the adapted one has another."""
    metric = PROBLEM.metrics[0]
    for client in (0, 3):
        received, own = agents.received(client), agents.model(client)
        assert received == pytest.approx(agents.trajectory[-1].models[client])
        assert not np.allclose(received, own)
        rows, start, size = PROBLEM.clients.test.shard(client)
        batch = {name: rows[name][start : start + size] for name in rows}
        scores = agents.clients[client].scores
        assert float(metric.score(received, batch)) == pytest.approx(scores["0"], rel=1e-4)
        assert float(metric.score(own, batch)) == pytest.approx(scores["own"], rel=1e-4)


def test_with_a_server_everybody_has_its_model_and_nothing_is_kept_unasked():
    asked, plain = (
        idiolect.learn(PROBLEM, "fedavg", horizon=40.0, points=2, trajectory=trajectory) for trajectory in (True, False)
    )
    assert plain.trajectory == []
    assert np.array_equal(plain.params, asked.params)
    for at in asked.trajectory:
        assert all(np.array_equal(model, at.shared) for model in at.models.values())
    assert np.array_equal(asked.received(2), asked.params)


@pytest.mark.parametrize("name", ["pars_push", "rasgp"])
def test_a_table_by_hand_in_which_a_weight_vanishes_is_refused_before_any_step(name):
    """Not after it, with the advice to take smaller ones."""
    silent = rounds(RING, np.ones((200, 4), bool), [])
    with pytest.raises(UserMistake, match=r"weight y falls to .* it wakes and sends, but hears from nobody"):
        idiolect.learn(PROBLEM, name, timeline=silent)
