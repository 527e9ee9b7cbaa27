"""What is said of problems whose samples come from a policy, and of many clients."""

import math

import pytest

from idiolect import inspect_experiment
from idiolect.errors import UserMistake
from idiolect.inspection.distances import CLIENTS
from idiolect.inspection.inspection_tables import heterogeneity_rows
from idiolect.inspection.problem_inspection import inspect_problem
from idiolect.problems.synthetic.quadratic_clients import quadratics
from idiolect.problems.worlds.navigation_tasks import navigation


def test_learning_to_act_says_what_is_not_defined():
    problem = navigation(clients=2, size=2, horizon=2, episodes=2, hidden=())
    found = inspect_problem(problem, batch_size=2, seed=0)
    assert found.samples is None
    assert found.classes is None
    assert "no distribution of samples" in found.notes[0]
    assert [name for name, _, _ in heterogeneity_rows(found)] == ["gamma_G at the start", "gamma_H at the start"]
    assert not found.diversity.by_row
    assert math.isfinite(found.diversity.gradient)
    assert found.diversity.hessian > 0


def test_of_many_clients_some_are_drawn_and_the_rows_say_how_many():
    problem = quadratics(clients=3 * CLIENTS, dimension=2, samples=4)
    found = inspect_problem(problem, batch_size=2, seed=0)
    assert found.samples is not None
    assert len(found.samples.clients) == CLIENTS
    told = " ".join(text for _, _, text in heterogeneity_rows(found))
    assert f"pairs of 40 of {3 * CLIENTS} clients" in told
    assert f"64 of {3 * CLIENTS} clients" in told
    assert f"8 of {3 * CLIENTS} clients" in told


def test_what_is_no_experiment_is_one_sentence():
    with pytest.raises(UserMistake, match=r"experiment is int, but must be an idiolect\.Experiment"):
        inspect_experiment(3)
