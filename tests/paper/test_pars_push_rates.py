"""PARS-Push, Proposition 1: over links that sleep, lose and delay, the error falls as 1/T and as 1/n."""

import numpy as np
import pytest

from idiolect import catalog
from idiolect.contracts import StepRule
from idiolect.engines import Workers
from idiolect.engines.serverless import Lane, prepare_peers, simulate_peers
from idiolect.network.topologies import exponential
from idiolect.network.unreliable_links import Links, draw_rounds
from idiolect.problems.synthetic import quadratics

SEEDS = range(8)
TIMES = np.unique(np.geomspace(300, 300 * 10**1.5, 12).astype(int)).tolist()  # a decade and a half
PERSONAL = {"steps": 1, "step_size": 0.1}


def squared_errors(agents: int, times: list[int]) -> np.ndarray:
    """The mean over agents of ||z_i - z*||^2 at these times, for every seed, with theta(t) = 2 / (t + 40)."""
    problems = [
        quadratics(clients=agents, dimension=5, samples=100, heterogeneity=0.5, noise=1.0, seed=seed) for seed in SEEDS
    ]
    algorithm = catalog.algorithm(
        "pars_push",
        problems[0],
        objective=PERSONAL,
        step_size=2.0,
        batch_size=1,
        step_rule=StepRule("decreasing", 40.0),
    )
    optima = [problem.optimum(algorithm.objective, 1) for problem in problems]
    graph = exponential()(agents, np.random.default_rng(0))
    tables = [draw_rounds(Links(), graph, times[-1], seed) for seed in SEEDS]
    lanes = [Lane(p.clients, table, seed) for p, table, seed in zip(problems, tables, SEEDS, strict=True)]
    with Workers(1) as workers:  # two would compile it twice
        pauses = list(simulate_peers(prepare_peers(problems[0], algorithm), lanes, workers, times=times))
    return np.array(
        [[error(snapshot, *both) for snapshot, *both in zip(p, optima, lanes, strict=True)] for p in pauses]
    )


def error(snapshot, optimum, lane) -> float:
    models = [np.asarray(snapshot.model(client), np.float64) for client in lane.clients.participating]
    return float(np.mean([((model - optimum) ** 2).sum() for model in models]))


@pytest.fixture(scope="module")
def of_ten_agents() -> np.ndarray:
    """The mean over seeds at each of the TIMES."""
    return squared_errors(10, TIMES).mean(axis=1)


@pytest.mark.slow
def test_the_error_falls_as_one_over_the_number_of_rounds(of_ten_agents):
    slope, _ = np.polyfit(np.log(TIMES), np.log(of_ten_agents), 1)
    assert slope == pytest.approx(-1, abs=0.15)


@pytest.mark.slow
def test_the_error_falls_as_the_number_of_agents_grows(of_ten_agents):
    halfway = len(TIMES) // 2
    of_forty = squared_errors(40, [TIMES[halfway]]).mean()
    assert of_ten_agents[halfway] > 2 * of_forty, "four times the agents, a quarter of the error in theory"


@pytest.mark.slow
def test_the_error_goes_on_falling_as_the_number_of_agents_grows():
    few, more, many = (squared_errors(agents, [2000]).mean() for agents in (5, 20, 80))
    assert few > 2 * more > 4 * many
