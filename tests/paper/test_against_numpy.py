"""The algorithms against naive NumPy loops on the same timeline.

Clients are noiseless quadratics, f_i(w) = 1/2 (w - m_i)' A_i (w - m_i), so every batch gives the true gradient and a
few lines of NumPy, written from the papers and sharing nothing with the package, must arrive at the same numbers.
"""

import numpy as np
import pytest

from idiolect import catalog
from idiolect.engines import Workers, prepare, simulate
from idiolect.network import Network, draw_timeline, staleness
from idiolect.network.timelines import ARRIVAL, CLOSE, OFFER, events
from idiolect.problems.synthetic import quadratics
from idiolect.problems.synthetic.quadratic_clients import curvatures_and_centres

Q, ETA, N, D = 5, 0.03, 6, 4


@pytest.fixture(scope="module")
def problem():
    return quadratics(clients=N, dimension=D, seed=11)


@pytest.fixture(scope="module")
def gradients(problem):
    matrices, centres = curvatures_and_centres(problem.clients)
    return [lambda w, a=a, m=m: a @ (w - m) for a, m in zip(matrices, centres, strict=True)], matrices


def a_timeline(problem, algorithm):
    schedule = algorithm.protocol.schedule
    return draw_timeline(Network(dropout=0.2), list(range(N)), schedule, horizon=150.0, seed=4)


def ours(problem, name, **options):
    algorithm = catalog.algorithm(name, problem, local_steps=Q, step_size=ETA, batch_size=3, **options)
    table = a_timeline(problem, algorithm)
    assert table.delivered.any()
    assert not table.delivered.all()
    with Workers(2) as workers:
        end = list(simulate(prepare(problem, algorithm), problem.clients, table, workers, seed=0, times=[150.0]))[-1]
    return np.asarray(end.params), table


def local_descent(w, direction):
    start = w
    for _ in range(Q):
        w = w - ETA * direction(w, start)
    return w


WITHOUT_ROUNDS = {
    "plain": "fedasync",
    "maml": "persa_fl_maml",
    "moreau": "persa_fl_me",
    "proximal": "proximal+asynchronous",
}
IN_ROUNDS = {"plain": "fedavg", "proximal": "fedprox", "maml": "per_fedavg", "moreau": "pfedme"}
DIRECTIONS = {
    "plain": ({}, lambda grad, a: lambda w, start: grad(w)),
    "proximal": ({"mu": 0.8}, lambda grad, a: lambda w, start: grad(w) + 0.8 * (w - start)),
    "maml": (  # PersA-FL, Alg. 2, l. 9
        {"step_size": 0.2},
        lambda grad, a: lambda w, start: (np.eye(D) - 0.2 * a) @ grad(w - 0.2 * grad(w)),
    ),
    "moreau": (  # PersA-FL, Alg. 2, l. 10-12, with seven inner steps
        {"lambda": 4.0, "iterations": 7, "inner_step_size": 0.1},
        lambda grad, a: lambda w, start: 4.0 * (w - nearby_minimum(grad, w)),
    ),
}


def nearby_minimum(grad, w):
    theta = w
    for _ in range(7):
        theta = theta - 0.1 * (grad(theta) + 4.0 * (theta - w))
    return theta


@pytest.mark.parametrize("objective", DIRECTIONS)
def test_persafl_server_and_client(problem, gradients, objective):
    """PersA-FL, Algorithms 1 and 2, options A, B and C (and FedProx's objective) without rounds."""
    options, direction = DIRECTIONS[objective]
    found, table = ours(problem, WITHOUT_ROUNDS[objective], objective=options, protocol={"beta": 0.8})
    w, downloaded = np.zeros(D), {}
    for event in events(table):
        client = table.client[event.turn]
        if event.kind == OFFER:
            downloaded[event.turn] = w  # Alg. 2, l. 3
        elif event.kind == ARRIVAL:
            start = downloaded[event.turn]
            reached = local_descent(start, direction(gradients[0][client], gradients[1][client]))
            w = w - 0.8 * (start - reached)  # Alg. 1, l. 4
    np.testing.assert_allclose(found, w, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("objective", DIRECTIONS)
def test_fedavg_fedprox_perfedavg_and_pfedme(problem, gradients, objective):
    """Rounds of half the clients, averaged; beta mixes as in pFedMe."""
    options, direction = DIRECTIONS[objective]
    protocol = {"participation": 0.5, "beta": 0.9}
    found, table = ours(problem, IN_ROUNDS[objective], objective=options, protocol=protocol)
    assert table.round.max() > 3
    w = np.zeros(D)
    for number in range(table.round.max() + 1):
        cohort = table.client[(table.round == number) & table.delivered]
        models = [local_descent(w, direction(gradients[0][i], gradients[1][i])) for i in cohort]
        if models:
            w = 0.1 * w + 0.9 * np.mean(models, axis=0)
    np.testing.assert_allclose(found, w, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("option", ["I", "II"])
def test_scaffold(problem, gradients, option):
    """SCAFFOLD, Algorithm 1, both options, with half the clients a round."""
    protocol = {"option": option, "participation": 0.5, "beta": 0.9}
    found, table = ours(problem, "scaffold", protocol=protocol)
    assert table.round.max() > 3
    x, c, own = np.zeros(D), np.zeros(D), np.zeros((N, D))
    for number in range(table.round.max() + 1):
        moves, turns = [], []
        for i in table.client[(table.round == number) & table.delivered]:
            y = local_descent(x, lambda w, start, i=i, c=c: gradients[0][i](w) - own[i] + c)
            new = gradients[0][i](x) if option == "I" else own[i] - c + (x - y) / (Q * ETA)
            moves.append(y - x)
            turns.append(new - own[i])
            own[i] = new
        if moves:
            x = x + 0.9 * np.mean(moves, axis=0)
            c = c + len(moves) / N * np.mean(turns, axis=0)
    np.testing.assert_allclose(found, x, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("kind", ["constant", "hinge", "polynomial"])
def test_fedbuff_with_staleness_weights(problem, gradients, kind):
    """FedBuff, Algorithm 1, K = 3; FedAsync's three staleness functions, counted event by event."""
    options = {"size": 3, "beta": 0.9, "staleness": kind, "staleness_a": 0.6, "staleness_b": 1.0}
    found, table = ours(problem, "fedbuff", protocol=options)
    weight = {
        "constant": lambda s: 1.0,
        "hinge": lambda s: 1.0 if s <= 1 else 1 / (0.6 * (s - 1) + 1),
        "polynomial": lambda s: (s + 1) ** -0.6,
    }[kind]
    w, version, buffer, downloaded, ages = np.zeros(D), 0, [], {}, {}
    for event in events(table):
        client = table.client[event.turn]
        if event.kind == OFFER:
            downloaded[event.turn] = (w, version)
        elif event.kind == ARRIVAL:
            start, then = downloaded[event.turn]
            ages[event.turn] = version - then
            reached = local_descent(start, lambda v, _, client=client: gradients[0][client](v))
            buffer.append(weight(version - then) * (start - reached))
            if len(buffer) == 3:
                w, version, buffer = w - 0.9 * np.mean(buffer, axis=0), version + 1, []
    np.testing.assert_allclose(found, w, rtol=2e-4, atol=2e-5)
    assert max(ages.values()) > 1, "the timeline must be stale enough to tell the functions apart"
    counted = staleness(table, updates_per_step=3)
    assert {turn: int(counted[turn]) for turn in ages} == ages


def test_local_training(problem, gradients):
    algorithm = catalog.algorithm("local", problem, local_steps=Q, step_size=ETA, batch_size=3)
    table = a_timeline(problem, algorithm)
    with Workers(2) as workers:
        end = list(simulate(prepare(problem, algorithm), problem.clients, table, workers, seed=0, times=[150.0]))[-1]
    for client in range(N):
        w = np.zeros(D)
        for _ in range(int((table.delivered & (table.client == client)).sum())):
            w = local_descent(w, lambda v, _, client=client: gradients[0][client](v))
        np.testing.assert_allclose(end.personal[client].params, w, rtol=2e-4, atol=2e-5)


def test_rounds_close_after_their_arrivals(problem):
    algorithm = catalog.algorithm("fedavg", problem)
    order = [(event.time, event.kind) for event in events(a_timeline(problem, algorithm))]
    assert order == sorted(order)
    assert sum(kind == CLOSE for _, kind in order) == a_timeline(problem, algorithm).round.max() + 1
