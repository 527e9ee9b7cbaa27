"""Gradients are counted as an independent count has them, and a run ends when its budget is spent."""

import jax
import numpy as np
import pytest

from idiolect import catalog
from idiolect.contracts import Oracle, Problem
from idiolect.engines import prepare
from idiolect.engines.simulator.stepwise_server import run_stepwise
from idiolect.experiments.value import Experiment
from idiolect.leaderboard import budgets
from idiolect.leaderboard.budgets import GRADIENT_TIME, Limits, Unaffordable, in_its_network, scoring_times
from idiolect.leaderboard.turn_costs import TurnCost, turn_cost
from idiolect.network import timeline
from idiolect.network.timelines import NO_ROUND
from idiolect.problems.synthetic import quadratics

CLIENTS = 6


@pytest.fixture(scope="module")
def problem() -> Problem:
    return quadratics(clients=CLIENTS, dimension=2, samples=20)


def made(name: str, problem: Problem, **options):
    return catalog.algorithm(name, problem, **options)


# By hand, from the papers' lines: calls of the oracle in a turn of ten steps, or in a waking of one.
BY_HAND = {
    "fedavg": {"gradient": 10},
    "fedprox": {"gradient": 10},
    "local": {"gradient": 10},
    "scaffold": {"gradient": 10},  # option II: how far it went says what option I asks the data for
    "ditto": {"gradient": 2 * 10},
    "apfl": {"gradient": 2 * 10},
    "per_fedavg": {"gradient": 2 * 10, "hessian_product": 10},
    "pfedme": {"gradient": 10 * 10},
    "rasgp": {"gradient": 1},
    "pars_push": {"gradient": 2, "hessian_product": 1},
    "pars_push_me": {"gradient": 10},
}


@pytest.mark.parametrize("name", BY_HAND)
def test_calls_of_a_turn_are_those_of_its_lines(name, problem):
    assert turn_cost(problem, made(name, problem)).calls == BY_HAND[name]


@pytest.mark.parametrize(
    ("options", "gradients"),
    [({"local_steps": 3}, 30), ({"objective": {"iterations": 4}}, 40), ({"objective": {"lambda": 50.0}}, 100)],
)
def test_the_count_follows_what_a_turn_is_made_of(options, gradients, problem):
    assert turn_cost(problem, made("pfedme", problem, **options)).evaluations == gradients


def test_control_variates_by_a_gradient_at_the_start_ask_once_more_for_the_batch_of_each_step(problem):
    assert turn_cost(problem, made("scaffold", problem, protocol={"option": "I"})).evaluations == 10 + 10


def test_weights_of_the_oracle_are_two_for_a_hessian_product_and_a_third_for_a_value():
    assert TurnCost({"gradient": 3, "hessian_product": 2, "value": 6}, 0, 0).evaluations == pytest.approx(9)


@pytest.mark.parametrize("name", ["pfedme", "scaffold"])
def test_the_compiled_turn_calls_a_real_oracle_as_often(name, problem):
    """The engine's own compiled turn, on an oracle that tells the host of every call."""
    seen = []

    def oracle(shard, batch_size) -> Oracle:
        real = problem.oracle(shard, batch_size)

        def gradient(params, key):
            jax.debug.callback(lambda: seen.append(1))
            return real.gradient(params, key)

        return real._replace(gradient=gradient)

    algorithm = made(name, problem)
    program = prepare(problem._replace(oracle=oracle), algorithm)
    number = 0 if algorithm.protocol.schedule.rounds else NO_ROUND
    run_stepwise(program, problem.clients, timeline([0], [0.0], [1.0], round=[number]), seed=0)
    jax.effects_barrier()
    assert len(seen) == turn_cost(problem, algorithm).calls["gradient"]


def test_bytes_are_of_what_travels(problem):
    floats = 2 * 4  # two numbers of four bytes
    assert turn_cost(problem, made("fedavg", problem))[1:] == (floats, floats)
    assert turn_cost(problem, made("scaffold", problem))[1:] == (2 * floats, 2 * floats)  # a control variate as well
    assert turn_cost(problem, made("local", problem))[1:] == (0, 0)
    assert turn_cost(problem, made("rasgp", problem))[1:] == (0, 2 * floats + 8)  # wider floats, and the weight


def spend(name: str, problem: Problem, limits: Limits, budget: budgets.BudgetName, **options):
    algorithm = made(name, problem, **options)
    cost = TurnCost({"gradient": algorithm.local_steps}, 100, 50)
    bare = Experiment(lambda seed: problem, ["fedavg"], seeds=[4])
    experiment = in_its_network(bare, algorithm, cost)
    times = scoring_times(budget, limits, experiment, algorithm, problem, cost)
    table = budgets.timeline_until(experiment, algorithm, problem, times[-1])
    return times, budgets.spent_on(table, algorithm, cost, times[-1])


def test_gradients_are_spent_to_the_last_turn_and_never_more(problem):
    times, spent = spend("fedasync", problem, Limits(1234.0, 1.0), "gradients")
    assert (spent.turns, spent.evaluations, spent.bytes) == (123, 1230.0, 123 * 150)
    assert times == sorted(times)
    assert times[-1] == spent.time


def test_rounds_are_whole(problem):
    _, spent = spend("fedavg", problem, Limits(1234.0, 1.0), "gradients")
    assert (spent.turns, spent.steps) == (120, 20)  # 123 turns would be 20 rounds of 6 and a half
    _, half = spend("fedavg", problem, Limits(1234.0, 1.0), "gradients", protocol={"participation": 0.5})
    assert (half.turns, half.steps) == (123, 41)


def test_who_cannot_pay_one_round_is_told(problem):
    with pytest.raises(Unaffordable, match="one round is 6 turns, and the budget of gradients is 5"):
        spend("fedavg", problem, Limits(59.0, 1.0), "gradients")
    with pytest.raises(Unaffordable, match="wakings"):
        spend("rasgp", problem, Limits(1.0, 1.0), "gradients")


def test_without_a_server_wakings_are_counted(problem):
    _, spent = spend("rasgp", problem, Limits(300.0, 1.0), "gradients")
    assert 300 - CLIENTS < spent.evaluations <= 300
    assert spent.bytes == spent.turns * 4 * 50  # to four neighbours each


def test_time_is_the_same_for_all_and_work_takes_some_of_it(problem):
    times, spent = spend("fedasync", problem, Limits(1.0, 200.0), "time")
    assert times == pytest.approx([180.0, 190.0, 200.0])
    slow = spend("fedasync", problem, Limits(1.0, 200.0), "time", local_steps=1000)[1]
    assert slow.turns < spent.turns / 2  # a thousand gradients last as long as ten downloads
    rounds = spend("rasgp", problem, Limits(1.0, 200.0), "time")[1]
    assert rounds.steps == int(200 / (1 + GRADIENT_TIME))


def test_two_seeds_spend_the_same(problem):
    algorithm, cost = made("fedasync", problem), TurnCost({"gradient": 10}, 1, 1)
    ends = []
    for seed in (0, 1):
        experiment = in_its_network(Experiment(lambda seed: problem, ["fedavg"], seeds=[seed]), algorithm, cost)
        times = scoring_times("gradients", Limits(500.0, 1.0), experiment, algorithm, problem, cost)
        table = budgets.timeline_until(experiment, algorithm, problem, times[-1])
        assert budgets.spent_on(table, algorithm, cost, times[-1]).turns == 50
        ends.append(times[-1])
    assert np.ptp(ends) > 0
