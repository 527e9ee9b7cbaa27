"""The navigation as idiolect's recipe has it: what it says in numbers, and how long its runs take."""

import statistics
from typing import Any

import numpy as np

from idiolect.catalog import cell
from idiolect.engines import Workers
from idiolect.experiments.building import build_algorithm, build_problem, build_timeline, watch
from idiolect.experiments.recipe_files import load_recipe
from idiolect.experiments.recording import Cell, prepare_cell
from idiolect.experiments.running import run_cell
from idiolect.experiments.schema import AlgorithmTable, Recipe
from idiolect.network import Timeline
from policy_case import Case

RECIPE = "memrl-navigation"


def load() -> tuple[Recipe, AlgorithmTable]:
    """The recipe, and its first algorithm with a Moreau envelope, told to take all inner steps."""
    recipe = load_recipe(RECIPE)
    table = next(table for table in recipe.algorithms if cell(table.name).objective == "moreau")
    return recipe, table.model_copy(update={"objective": {**table.objective, "accuracy": 0.0}})


def describe() -> Case:
    """The recipe's first seed, as numbers. What the loops in PyTorch do not know of is refused."""
    recipe, table = load()
    options, objective, seed = recipe.problem.model_extra or {}, table.objective, recipe.seeds[0]
    problem = build_problem(recipe, seed)
    algorithm = build_algorithm(recipe, table, problem)
    known = {"name": "navigation", "baseline": "others", "policy": "table", "beta": 1.0, "weighting": "uniform"}
    told = {"name": recipe.problem.name, **options, **table.protocol}
    assert known.items() <= told.items(), f"not the loop that is measured: {told}"
    assert algorithm.local_steps == 1, f"Algorithm 1 has one step a round, not {algorithm.local_steps}"
    timeline, train = build_timeline(recipe, algorithm, problem, seed), problem.clients.train
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
    recipe, table = load()
    seed = recipe.seeds[0]
    problem, setting = build_problem(recipe, seed), watch(recipe)._replace(times=[recipe.horizon])
    algorithm = build_algorithm(recipe, table, problem)
    run = Cell(problem.clients, build_timeline(recipe, algorithm, problem, seed), seed)
    prepared = prepare_cell(problem, algorithm, setting.budget)
    with Workers() as workers:
        first, *others = (run_cell(prepared, run, setting, workers).seconds for _ in range(1 + repeats))
    times = [seconds / len(case.rounds) for seconds in others]
    return {"times": times, "compiling": first - statistics.median(others)}
