"""Reddi et al. 2021, Algorithm 2, and FedAvgM against NumPy loops on the same timeline, with rounds and without."""

import numpy as np
import optax
import pytest

from idiolect import Choice, Experiment, NamedAlgorithm, catalog, protocols
from idiolect.engines import Workers
from idiolect.errors import UserMistake
from idiolect.experiments.recipe_files import completed
from idiolect.network.timelines import ARRIVAL, OFFER, events
from idiolect.testing import check_protocol
from idiolect.testing.server_runs import server_cell
from idiolect.testing.small_clients import noisy_quadratics
from tests.paper.test_against_numpy import D, gradients, local_descent, ours, problem  # noqa: F401

ETA, BETA1, BETA2, TAU = 0.2, 0.8, 0.95, 0.05
TOLD = {"step_size": ETA, "beta1": BETA1, "tau": TAU}
OPTIONS = {
    "fedadam": TOLD | {"beta2": BETA2},
    "fedyogi": TOLD | {"beta2": BETA2},
    "fedadagrad": TOLD,
    "fedavgm": {"step_size": ETA, "momentum": BETA1},
}


class Optimizer:
    """The server's lines of Algorithm 2, for one vector."""

    def __init__(self, name):
        self.name, self.m, self.v = name, np.zeros(D), np.full(D, TAU**2)

    def step(self, x, delta):
        if self.name == "fedavgm":
            self.m = BETA1 * self.m + delta
            return x + ETA * self.m
        self.m = BETA1 * self.m + (1 - BETA1) * delta
        square = delta**2
        if self.name == "fedadagrad":
            self.v = self.v + square
        elif self.name == "fedyogi":
            self.v = self.v - (1 - BETA2) * square * np.sign(self.v - square)
        else:
            self.v = BETA2 * self.v + (1 - BETA2) * square
        return x + ETA * self.m / (np.sqrt(self.v) + TAU)


@pytest.mark.parametrize("name", OPTIONS)
def test_rounds(problem, gradients, name):  # noqa: F811
    protocol = {"participation": 0.5, "server": OPTIONS[name]}  # the name is the algorithm's
    found, table = ours(problem, name, protocol=protocol)
    x, optimizer = np.zeros(D), Optimizer(name)
    for number in range(table.round.max() + 1):
        cohort = table.client[(table.round == number) & table.delivered]
        if len(cohort):  # a round nobody finishes moves nothing, momentum included
            deltas = [local_descent(x, lambda w, _, i=i: gradients[0][i](w)) - x for i in cohort]
            x = optimizer.step(x, np.mean(deltas, axis=0))
    assert np.abs(x).max() > 0.1
    np.testing.assert_allclose(found, x, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_buffer(problem, gradients, name):  # noqa: F811
    server = catalog.cell(name).combining["server"] | OPTIONS[name]
    found, table = ours(problem, "fedbuff", protocol={"size": 3, "server": server})
    x, optimizer, downloaded, waiting = np.zeros(D), Optimizer(name), {}, []
    for event in events(table):
        client = table.client[event.turn]
        if event.kind == OFFER:
            downloaded[event.turn] = x
        elif event.kind == ARRIVAL:
            start = downloaded[event.turn]
            waiting.append(local_descent(start, lambda w, _, i=client: gradients[0][i](w)) - start)
            if len(waiting) == 3:
                x, waiting = optimizer.step(x, np.mean(waiting, axis=0)), []
    np.testing.assert_allclose(found, x, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize(("protocol", "options"), [("synchronous", {}), ("buffered", {"size": 2})])
def test_sgd_without_momentum_is_the_step_beta(protocol, options):
    problem = noisy_quadratics(noise=0.5, kind=np.float32)  # noqa: F811
    steps = [{"beta": 0.7}, {"server": {"name": "sgd", "step_size": 0.7}}]
    cells = [catalog.algorithm(f"plain+{protocol}", problem, protocol=options | step, batch_size=5) for step in steps]
    with Workers(1) as workers:
        ends = [server_cell(problem, each).run(workers)[-1].params for each in cells]
    np.testing.assert_allclose(*ends, rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "options"),
    [(protocols.synchronous, {"combine": "mean"}), (protocols.buffered, {"combine": "median", "size": 2})],
)
def test_any_optimizer_of_optax_obeys_the_laws(make, options):
    """Checkpoints among them: they hold what the optimizer knows, or a run would not go on to the same bytes."""
    check_protocol(make(server=optax.adam(0.05), **options))


def test_mistakes_are_sentences():
    problem = noisy_quadratics(noise=0.5)  # noqa: F811
    with pytest.raises(UserMistake, match=r"protocol.beta is 0.5, but protocol.server has a step_size"):
        catalog.algorithm("fedadam", problem, protocol={"beta": 0.5})
    with pytest.raises(UserMistake, match=r"protocol.server.tau is -1"):
        catalog.algorithm("fedadam", problem, protocol={"server": {"tau": -1}})
    with pytest.raises(UserMistake, match=r"protocol.server is 'adm' \(did you mean 'adam'\?\)"):
        catalog.algorithm("fedavg", problem, protocol={"server": "adm"})
    with pytest.raises(UserMistake, match=r"protocol.server.name is missing; known are sgd, adam, yogi, adagrad"):
        catalog.algorithm("fedavg", problem, protocol={"server": {"tau": 0.1}})


def test_a_recipe_writes_the_optimizer_out_and_leaves_what_is_none_out():
    lines = [NamedAlgorithm(name="fedadam", protocol={"server": {"tau": 0.1}}), NamedAlgorithm(name="fedavg")]
    told, plain = completed(Experiment(Choice("quadratics"), lines)).lines
    assert told.protocol["server"] == Choice("adam", {"step_size": 0.01, "beta1": 0.9, "beta2": 0.99, "tau": 0.1})
    assert "server" not in plain.protocol
