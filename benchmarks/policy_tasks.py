"""The navigation as idiolect's recipe has it: what it says in numbers, and how long its runs take."""

import statistics
from typing import Any

import numpy as np

from idiolect.catalog import cell
from idiolect.engines import Workers
from idiolect.experiments.building import build_seed
from idiolect.experiments.evaluation_plan import plan_evaluation
from idiolect.experiments.preparing import prepare_cell
from idiolect.experiments.recipe_files import load_recipe
from idiolect.experiments.recipe_tables import NamedAlgorithm
from idiolect.experiments.recording import Cell
from idiolect.experiments.running import CellRun, Services, run_together
from idiolect.experiments.value import Experiment
from idiolect.network import Timeline
from idiolect.registry import Choice
from policy_case import Case

RECIPE = "memrl-navigation"


def load() -> tuple[Experiment, NamedAlgorithm]:
    """The recipe with nothing but its first algorithm with a Moreau envelope, told to take all inner steps."""
    recipe = load_recipe(RECIPE)
    named = [line for line in recipe.lines if isinstance(line, NamedAlgorithm)]
    chosen = next(line for line in named if cell(line.name).objective == "moreau")
    whole = chosen.model_copy(update={"objective": {**chosen.objective, "accuracy": 0.0}})
    return recipe.replace(algorithms=[whole]), whole


def describe() -> Case:
    """The recipe's first seed, as numbers. What the loops in PyTorch do not know of is refused."""
    experiment, line = load()
    assert isinstance(experiment.problem, Choice)
    options, objective = experiment.problem.options, line.objective
    _, problem, cells, _ = build_seed(experiment, experiment.seeds[0])
    ((algorithm, timeline, _, _),) = cells.values()
    known = {"name": "navigation", "baseline": "others", "policy": "table", "beta": 1.0, "weighting": "uniform"}
    told = {"name": experiment.problem.name, **options, **line.protocol}
    assert known.items() <= told.items(), f"not the loop that is measured: {told}"
    assert algorithm.local_steps == 1, f"Algorithm 1 has one step a round, not {algorithm.local_steps}"
    train = problem.clients.train
    assert isinstance(timeline, Timeline)
    assert timeline.delivered.all(), "in Algorithm 1 nobody drops out"
    return Case(
        options["size"],
        options["horizon"],
        options["discount"],
        options["reward"],
        np.asarray(train.rows["task"])[train.starts].tolist(),
        algorithm.batch_size,
        objective["lambda"],
        objective["iterations"],
        objective.get("inner_step_size", 0.5 / objective["lambda"]),
        algorithm.step_size,
        [timeline.client[timeline.round == number].tolist() for number in np.unique(timeline.round)],
    )


def measure(case: Case, repeats: int) -> dict[str, Any]:
    """Seconds per iteration of whole runs of the recipe, scored at their end only, and seconds to compile."""
    experiment, _ = load()
    seed, problem, cells, _ = build_seed(experiment, experiment.seeds[0])
    ((algorithm, timeline, _, _),) = cells.values()
    plan = plan_evaluation(experiment)._replace(times=[experiment.horizon])
    run = CellRun(prepare_cell(problem, algorithm, plan.budget), Cell(problem.clients, timeline, seed))
    with Workers() as workers:
        results = [run_together([run], plan, Services(workers))[0] for _ in range(1 + repeats)]
    first, *others = (result.record.seconds for result in results)
    times = [seconds / len(case.rounds) for seconds in others]
    return {"times": times, "compiling": first - statistics.median(others)}
