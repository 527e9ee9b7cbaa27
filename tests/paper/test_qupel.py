"""QuPeL's algorithms, line by line, against NumPy loops that share nothing with the package.

Clients are noiseless quadratics, f_i(x) = 1/2 (x - m_i)' A_i (x - m_i), so every batch gives the true gradient.
"""

import jax
import numpy as np
import pytest

from idiolect import catalog
from idiolect.engines import Workers, prepare, simulate
from idiolect.network import Network, draw_timeline
from idiolect.network.timelines import ARRIVAL, OFFER, events
from idiolect.problems.synthetic import quadratics
from idiolect.problems.synthetic.quadratic_clients import curvatures_and_centres

N, D, Q = 4, 6, 5
ETA1, ETA2, ETA3, LAMBDA, LAMBDA_P = 0.1, 0.02, 0.6, 0.3, 0.5
START = np.array([-1.1, -0.4, 0.13, 0.3, 0.9, 1.7])
CENTERS = [-1.0, 0.1, 1.2]  # multiples of the mean absolute weight
OPTIONS = {
    "levels": 3,
    "keep": [],
    "centers": CENTERS,
    "lambda": LAMBDA,
    "lambda_p": LAMBDA_P,
    "step_size": ETA1,
    "centers_step_size": ETA2,
}


@pytest.fixture(scope="module")
def problem():
    return quadratics(clients=N, dimension=D, seed=11)._replace(init=lambda key: START.astype(np.float32))


@pytest.fixture(scope="module")
def gradients(problem):
    matrices, centres = curvatures_and_centres(problem.clients)
    return [lambda x, a=a, m=m: a @ (x - m) for a, m in zip(matrices, centres, strict=True)]


class Client:
    """Algorithm 2 as printed, with the errata: the plus sign for the centers, descent in line 8."""

    def __init__(self, gradient, sharpness=None, tune_after=10**9, lambda_p=LAMBDA_P):
        self.gradient, self.sharpness, self.tune_after, self.lambda_p = gradient, sharpness, tune_after, lambda_p
        self.x, self.c, self.t = START.copy(), np.array(CENTERS) * np.abs(START).mean(), 0

    def assigned(self, x):
        return np.abs(x[:, None] - self.c).argmin(1)

    def soft(self, x, c):
        sigma = 1 / (1 + np.exp(-self.sharpness * (x[:, None] - (c[1:] + c[:-1]) / 2)))
        return c[0] + sigma @ np.diff(c)

    def derivatives(self, x):
        """Of f(Q(x)) in x and in c: by the rule of Sec. 7.1, or by differences of the soft quantizer."""
        if self.sharpness is None:
            dq, mine = self.gradient(self.c[self.assigned(x)]), self.assigned(x)
            return np.zeros(D), np.array([dq[mine == j].sum() for j in range(3)])
        dq, h = self.gradient(self.soft(x, self.c)), 1e-6
        in_x = [dq @ (self.soft(x + h * e, self.c) - self.soft(x - h * e, self.c)) / (2 * h) for e in np.eye(D)]
        in_c = [dq @ (self.soft(x, self.c + h * e) - self.soft(x, self.c - h * e)) / (2 * h) for e in np.eye(3)]
        return np.array(in_x), np.array(in_c)

    def iterate(self, w):
        if self.t >= self.tune_after:
            mine = self.assigned(self.x)
            self.c = self.c - ETA2 * self.derivatives(self.x)[1]
            self.x = self.c[mine]
        else:
            g = self.gradient(self.x) + self.derivatives(self.x)[0]  # l. 4
            y = self.x - ETA1 * (g + self.lambda_p * (self.x - w))
            level = self.c[self.assigned(y)]
            self.x = level + np.sign(y - level) * np.maximum(np.abs(y - level) - LAMBDA * ETA1 / 2, 0)  # l. 5
            h, mine = self.derivatives(self.x)[1], self.assigned(self.x)  # l. 6
            sides = np.array([np.sign(self.x[mine == j] - self.c[j]).sum() for j in range(3)])
            self.c = np.sort(self.c - ETA2 * h + LAMBDA * ETA2 / 2 * sides)  # l. 7
        self.t += 1
        return w - ETA3 * self.lambda_p * (w - self.x)  # l. 8

    def turn(self, w):
        for _ in range(Q):
            w = self.iterate(w)
        return w


def ours(problem, name, *, protocol=None, **more):
    algorithm = catalog.algorithm(
        name, problem, objective=OPTIONS | more, protocol=protocol, local_steps=Q, step_size=ETA3, batch_size=3
    )
    table = draw_timeline(Network(dropout=0.2), list(range(N)), algorithm.protocol.schedule, horizon=60.0, seed=4)
    with Workers(2) as workers:
        end = list(simulate(prepare(problem, algorithm), problem.clients, table, workers, seed=0, times=[60.0]))[-1]
    return end, table


def agree(end, w, clients):
    np.testing.assert_allclose(end.params, w, rtol=5e-4, atol=5e-5)
    for number, client in enumerate(clients):
        np.testing.assert_allclose(end.own(number).weights, client.x, rtol=5e-4, atol=5e-5)
        np.testing.assert_allclose(next(iter(end.own(number).levels.values())), client.c, rtol=5e-4, atol=5e-5)


@pytest.mark.parametrize("extra", [{}, {"sharpness": 3.0}, {"fine_tune_after": 18}], ids=["hard", "soft", "tuned"])
def test_algorithm_2(problem, gradients, extra):
    end, table = ours(problem, "qupel", **extra)
    tune_after = extra.get("fine_tune_after", 10**9)
    clients = [Client(gradient, extra.get("sharpness"), tune_after) for gradient in gradients]
    w = START
    for number in range(table.round.max() + 1):
        cohort = table.client[(table.round == number) & table.delivered]
        reached = [clients[i].turn(w) for i in cohort]  # l. 2-11
        if reached:
            w = np.mean(reached, axis=0)  # l. 15
    assert max(client.t for client in clients) >= 25
    agree(end, w, clients)


def test_the_same_without_waiting(problem, gradients):
    end, table = ours(problem, "qupel_async", protocol={"beta": 0.3})
    clients, w, downloaded, started = [Client(gradient) for gradient in gradients], START, {}, {}
    for event in events(table):
        client = clients[table.client[event.turn]]
        if event.kind == OFFER:
            downloaded[event.turn] = w
        elif event.kind == ARRIVAL:
            start = downloaded[event.turn]
            if table.client[event.turn] not in started:  # a client's x begins at the first model it receives
                started[table.client[event.turn]] = True
                client.x, client.c = start.copy(), np.array(CENTERS) * np.abs(start).mean()
            w = w - 0.3 * (start - client.turn(start))
    agree(end, w, clients)


def test_algorithm_1_is_each_client_alone(problem, gradients):
    end, table = ours(problem, "local_quantized", lambda_p=0.0)
    clients = [Client(gradient, lambda_p=0.0) for gradient in gradients]
    for turn in np.argsort(table.arrived, kind="stable"):
        if table.delivered[turn]:
            clients[table.client[turn]].turn(START)
    agree(end, START, clients)


def test_proxquant_is_algorithm_1_with_levels_that_stay(problem):
    end, _ = ours(problem, "proxquant", lambda_p=0.0, centers_step_size=0.0)
    for client in range(N):
        own = end.own(client)
        np.testing.assert_allclose(next(iter(own.levels.values())), np.array(CENTERS) * np.abs(START).mean(), rtol=1e-6)
        assert np.abs(own.weights - START).max() > 0.1


def by_default(problem, name):
    """Where three iterations of the first client take its weights and levels, and the last slope for the server."""
    objective = catalog.algorithm(name, problem, objective={"keep": [], "centers": "quantiles"}, batch_size=3).objective
    oracle, w, key = problem.oracle(problem.clients.train.shard(0), 3), problem.init(None), jax.random.key(0)
    first = own = objective.begin(w, 0, jax.random.key(0))
    for _ in range(3):
        own, slope, _ = objective.gradient(oracle, own, w, w, key)
    assert np.abs(own.weights - w).max() > 0.05
    ((before,), (after,)) = (tuple(each.levels.values()) for each in (first, own))
    return w - np.asarray(own.weights), np.asarray(before), np.asarray(after), np.asarray(slope)


@pytest.mark.parametrize(
    ("name", "lambda_p", "learns"),
    [
        ("qupel", 0.025, True),  # Sec. 7.2
        ("qupel_async", 0.025, True),
        ("qupel_push", 0.025, True),
        ("local_quantized", 0.0, True),  # Algorithm 1
        ("proxquant", 0.0, False),  # Bai et al.: levels are given
    ],
)
def test_by_default_models_are_pulled_together_where_they_are_shared_and_levels_learn_but_for_proxquant(
    problem, name, lambda_p, learns
):
    apart, before, after, slope = by_default(problem, name)
    np.testing.assert_allclose(slope, lambda_p * apart, rtol=1e-5)  # l. 8
    assert (before != after).any() == learns


def test_line_8_descends_towards_the_client(problem):
    # Printed w - eta3 lambda_p (x - w), which would drive the shared model away from its clients (errata).
    end, _ = ours(problem, "qupel")
    models = np.stack([end.own(client).weights for client in range(N)])
    start = np.abs(START - models.mean(0)).sum()
    assert np.abs(np.asarray(end.params) - models.mean(0)).sum() < 0.5 * start
