"""Where the methods end: on quadratics the minimiser of each cost is known in closed form.

With one local step and everyone taking part, a round is a gradient step on the average of the F_i, so the run must
settle at the minimiser of that average: of PersA-FL's plain cost (1), MAML cost (4) or Moreau cost (6).
"""

import numpy as np
import pytest

from idiolect import catalog
from idiolect.engines import Workers, prepare, simulate
from idiolect.network import Delay, Network, draw_timeline
from idiolect.problems.synthetic import linear_regression, quadratics
from idiolect.problems.synthetic.quadratic_clients import (
    curvatures_and_centres,
    maml_curvature,
    minimiser,
    moreau_curvature,
)

NAMES = {"plain": "fedavg", "proximal": "fedprox", "maml": "per_fedavg", "moreau": "pfedme"}
COSTS = {
    "plain": ({}, lambda a: a),
    "proximal": ({"mu": 3.0}, lambda a: a),  # the pull vanishes where the first step is taken
    "maml-1": ({"step_size": 0.3}, lambda a: maml_curvature(a, 0.3, 1)),
    "maml-3": ({"step_size": 0.2, "steps": 3}, lambda a: maml_curvature(a, 0.2, 3)),
    "moreau": ({"lambda": 5.0, "iterations": 60, "inner_step_size": 0.15}, lambda a: moreau_curvature(a, 5.0)),
}
NO_DELAY = Network(download=Delay("fixed", 0.5), compute=Delay("fixed", 0.0), upload=Delay("fixed", 0.5), spread=0.0)


@pytest.mark.parametrize("cost", COSTS)
def test_rounds_settle_at_the_minimiser_of_their_cost(cost):
    problem = quadratics(clients=5, dimension=4, seed=2)
    options, curvature = COSTS[cost]
    settings = {"objective": options, "local_steps": 1, "step_size": 0.4, "batch_size": 2}
    algorithm = catalog.algorithm(NAMES[cost.split("-")[0]], problem, **settings)
    schedule = algorithm.protocol.schedule
    table = draw_timeline(NO_DELAY, problem.clients.participating, schedule, horizon=400.0, seed=0)
    with Workers(2) as workers:
        end = list(simulate(prepare(problem, algorithm), problem.clients, table, workers, seed=0, times=[400.0]))[-1]
    matrices, centres = curvatures_and_centres(problem.clients)
    expected = minimiser(np.stack([curvature(a) for a in matrices]), centres)
    np.testing.assert_allclose(np.asarray(end.params), expected, atol=2e-5)
    if cost not in ("plain", "proximal"):
        assert np.abs(expected - minimiser(matrices, centres)).max() > 1e-3, "the costs must differ to be told apart"


def test_linear_regression_settles_near_its_least_squares_solution():
    problem = linear_regression(clients=5, dimension=6, samples=400, seed=1)
    from idiolect.problems.synthetic.regressions import least_squares

    algorithm = catalog.algorithm("fedavg", problem, local_steps=1, step_size=0.05, batch_size=200)
    schedule = algorithm.protocol.schedule
    table = draw_timeline(NO_DELAY, problem.clients.participating, schedule, horizon=300.0, seed=0)
    with Workers(2) as workers:
        end = list(simulate(prepare(problem, algorithm), problem.clients, table, workers, seed=0, times=[300.0]))[-1]
    expected = minimiser(*least_squares(problem.clients, 5))
    assert np.linalg.norm(np.asarray(end.params) - expected) < 0.03 * np.linalg.norm(expected)
