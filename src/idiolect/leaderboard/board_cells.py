"""One algorithm with some settings on one seed, scored when each of its budgets is spent."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from idiolect.contracts import Problem
from idiolect.engines import Workers
from idiolect.errors import Diverged, Refused
from idiolect.evaluation.scores import OWN
from idiolect.experiments.building import build_algorithm, build_problem
from idiolect.experiments.evaluation_plan import EvaluationPlan, plan_evaluation
from idiolect.experiments.preparing import Prepared, prepare_cell
from idiolect.experiments.recipe_files import completed
from idiolect.experiments.recipe_tables import NamedAlgorithm
from idiolect.experiments.recording import Cell
from idiolect.experiments.records import Point
from idiolect.experiments.running import CellRun, Services, run_together
from idiolect.experiments.value import Experiment
from idiolect.leaderboard.board_problems import EVALUATION, TRAINING, Scale, problem_choice, total_evaluations
from idiolect.leaderboard.budgets import (
    BudgetName,
    Limits,
    Spent,
    in_its_network,
    pauses,
    scoring_times,
    spent_on,
    timeline_until,
)
from idiolect.leaderboard.turn_costs import TurnCost, turn_cost

Part = Literal["test", "validation"]
COLUMNS = {"received": "0", "common": str(EVALUATION.steps[-1]), OWN: OWN}


class Outcome(NamedTuple):
    """What one run came to by the end of a budget: every client's scores, and what was spent."""

    scores: Mapping[str, Mapping[str, float]]  # received, common or own -> client -> mean over the last evaluations
    unseen: Sequence[int]  # those of the clients that took no part in training
    spent: Spent


class Arena(NamedTuple):
    """A problem at a scale: where all algorithms meet."""

    name: str
    scale: Scale
    data_dir: Path | None
    problem: Any  # seed -> Problem, the last few kept

    def experiment(self, line: NamedAlgorithm, seed: int) -> Experiment:
        """The experiment of one algorithm on one seed, before its network is known."""
        choice = problem_choice(self.name, self.scale)
        return completed(
            Experiment(choice, [line], seeds=[seed], horizon=1.0, training=TRAINING, evaluation=EVALUATION)
        )

    def limits(self, problem: Problem) -> Limits:
        """What every algorithm may spend."""
        return Limits(total_evaluations(self.scale, len(problem.clients.participating)), self.scale.time)

    def cost(self, line: NamedAlgorithm) -> TurnCost:
        """What a turn of an algorithm costs here, whatever its seed and its step sizes."""
        seed = self.scale.tuning_seeds[0]
        experiment, problem = self.experiment(line, seed), self.problem(seed)
        return turn_cost(problem, build_algorithm(experiment, experiment.lines[0], problem))


def arena(name: str, scale: Scale, data_dir: Path | None) -> Arena:
    """A problem of the leaderboard, whose seeds are built when they are needed."""
    choice = problem_choice(name, scale)

    @lru_cache(maxsize=8)
    def problem(seed: int) -> Problem:
        return build_problem(completed(Experiment(choice, ["fedavg"])), seed, data_dir)

    return Arena(name, scale, data_dir, problem)


class Contender:
    """An algorithm with its settings; what is compiled for the first seed serves all."""

    def __init__(
        self, place: Arena, line: NamedAlgorithm, cost: TurnCost, *, split: Literal["test", "validation"] = "test"
    ) -> None:
        self._place, self._line, self._cost, self._split = place, line, cost, split
        self._prepared: Prepared | None = None

    def run(self, seed: int, budgets: Sequence[BudgetName], workers: Workers) -> dict[str, Outcome] | None:
        """Run until the last of these budgets is spent; None if the run diverged."""
        problem, cost = self._place.problem(seed), self._cost
        experiment = self._place.experiment(self._line, seed)
        algorithm = build_algorithm(experiment, experiment.lines[0], problem)
        experiment, limits = in_its_network(experiment, algorithm, cost), self._place.limits(problem)
        times = {name: scoring_times(name, limits, experiment, algorithm, problem, cost) for name in budgets}
        end = max(max(mine) for mine in times.values())
        table = timeline_until(experiment, algorithm, problem, end)
        plan = self._plan(experiment.replace(horizon=end), pauses([t for mine in times.values() for t in mine]))
        if self._prepared is None:
            self._prepared = prepare_cell(problem, algorithm, plan.budget)
        cell = CellRun(self._prepared, Cell(problem.clients, table, seed))
        try:
            (result,) = run_together([cell], plan, Services(workers))
        except (Diverged, Refused):
            return None
        if result.record.ended:
            return None
        points = {point.time: point for point in result.points}
        unseen = sorted(problem.clients.unseen)
        found: dict[str, Outcome] = {}
        for name, mine in times.items():
            paid = timeline_until(experiment, algorithm, problem, mine[-1])  # the beginning of the run's own
            spent = spent_on(paid, algorithm, cost, mine[-1])
            found[name] = Outcome(_means([points[time] for time in mine]), unseen, spent)
        return found

    def _plan(self, experiment: Experiment, times: list[float]) -> EvaluationPlan:
        plan = plan_evaluation(experiment)
        return plan._replace(times=times, budget=plan.budget._replace(split=self._split), scenes=False)


def _means(points: Sequence[Point]) -> dict[str, dict[str, float]]:
    """Every client's mean over some evaluations, by column; clients as JSON has keys."""
    return {
        name: {
            str(client): float(np.mean([point.clients[client][column] for point in points]))
            for client in points[0].clients
        }
        for name, column in COLUMNS.items()
    }


def taking_part(outcome: Outcome, column: str = OWN) -> dict[int, float]:
    """The scores of the clients that took part in training."""
    return {int(c): score for c, score in outcome.scores[column].items() if int(c) not in set(outcome.unseen)}


def not_seen(outcome: Outcome, column: str = OWN) -> dict[int, float]:
    """The scores of those that took none."""
    return {int(c): score for c, score in outcome.scores[column].items() if int(c) in set(outcome.unseen)}
