"""From a recipe to its parts: the problem, the algorithms, the timelines, and how the run is watched."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from idiolect import catalog
from idiolect.contracts import Algorithm, Problem
from idiolect.errors import UserMistake
from idiolect.evaluation import OWN, Budget
from idiolect.network import Timeline, draw_timeline, read_timeline
from idiolect.network.timeline import NO_ROUND
from idiolect.options import choose, make
from idiolect.problems.classification import classification
from idiolect.problems.datasets import load_images
from idiolect.recipes.tables import AlgorithmTable, Recipe, image_problem


class Setting(NamedTuple):
    """How a run is watched: when, with which budgets, and which of them is the headline."""

    times: list[float]
    budget: Budget
    headline: str


def check(recipe: Recipe, data_dir: Path | None = None) -> None:
    """Build everything of the first seed, so that mistakes show before anything is written."""
    seed = recipe.seeds[0]
    problem = build_problem(recipe, seed, data_dir)
    for table in recipe.algorithms:
        build_timeline(recipe, build_algorithm(recipe, table, problem), problem, seed)
    split = recipe.evaluation.split
    if not getattr(problem.clients, split).sizes[problem.clients.participating].any():
        raise UserMistake(f"evaluation.split is '{split}', but no participating client has any {split} samples")


def build_problem(recipe: Recipe, seed: int, data_dir: Path | None = None) -> Problem:
    """The recipe's problem; the seed decides who holds what."""
    images = image_problem(recipe)
    if images is None:
        options = dict(recipe.problem.model_extra or {})
        synthetic: Problem = make(catalog.SYNTHETIC, "problem", recipe.problem.name, options, seed=seed)
        return synthetic
    data = load_images(images.name, data_dir)
    shape, classes = data.pixels.shape[1:], int(data.labels.max()) + 1
    return classification(
        images.name,
        data,
        choose(catalog.MODELS, "problem.model", images.model, shape, classes),
        choose(catalog.PARTITIONS, "problem.partition", images.partition),
        clients=images.clients,
        samples=images.samples,
        unseen=images.unseen,
        shares=images.shares,
        seed=seed,
    )


def build_algorithm(recipe: Recipe, table: AlgorithmTable, problem: Problem) -> Algorithm:
    """One of the recipe's algorithms, with its own training settings over the common ones."""
    training = {**recipe.training.model_dump(), **table.training.model_dump(exclude_none=True)}
    return catalog.algorithm(
        table.name, problem, objective=table.objective, protocol=table.protocol, label=table.label, **training
    )


def build_timeline(recipe: Recipe, algorithm: Algorithm, problem: Problem, seed: int) -> Timeline:
    """The recipe's own timeline, or one drawn from its network; alike for all algorithms with the same schedule."""
    schedule, participating = algorithm.protocol.schedule, problem.clients.participating
    if recipe.timeline is None:
        return draw_timeline(recipe.network, participating, schedule, horizon=recipe.horizon, seed=seed)
    table = check_timeline(read_timeline(Path(recipe.timeline)), algorithm, participating)
    if table.arrived.max() > recipe.horizon:
        raise UserMistake(f"horizon is {recipe.horizon:g}, but the timeline goes on until {table.arrived.max():g}")
    return table


def check_timeline(table: Timeline, algorithm: Algorithm, participating: list[int]) -> Timeline:
    """Refuse a timeline that names other clients, or that has no rounds where the protocol needs them."""
    strangers = sorted(set(table.client.tolist()) - set(participating))
    if strangers:
        raise UserMistake(
            f"the timeline names client {strangers[0]}, who does not take part in this problem's training"
        )
    if algorithm.protocol.schedule.rounds and (table.round == NO_ROUND).any():
        raise UserMistake(f"{algorithm.name} works in rounds, but the timeline has turns without a round number")
    if not algorithm.protocol.schedule.rounds and (table.round != NO_ROUND).any():
        raise UserMistake(f"{algorithm.name} knows no rounds, but the timeline has a round column; leave it out")
    return table


def watch(recipe: Recipe) -> Setting:
    """How the recipe wants its runs watched."""
    table = recipe.evaluation
    budget = Budget(tuple(table.steps), table.step_size, table.batch_size, table.split, table.at_most)
    if table.times is None:
        times = np.linspace(0, recipe.horizon, table.points + 1).tolist()
    else:
        times = sorted({*table.times, recipe.horizon})
    return Setting(times, budget, headline_column(recipe))


def headline_column(recipe: Recipe) -> str:
    """Which scores are "the personalized model": after the most steps of the common budget, or after each one's own."""
    return OWN if recipe.evaluation.headline == "own" else str(recipe.evaluation.steps[-1])


def describe(recipe: Recipe) -> dict[str, Any]:
    """What the headline numbers are, in words, for whoever reads a summary later."""
    evaluation = recipe.evaluation
    steps = evaluation.steps[-1]
    personal = (
        "after the adaptation that each objective prescribes"
        if evaluation.headline == "own"
        else f"after {steps} gradient steps of size {evaluation.step_size:g} on the client's adaptation part"
    )
    return {
        "global": "the model as received, 0 adaptation steps"
        if evaluation.steps[0] == 0
        else f"after {evaluation.steps[0]} gradient steps",
        "personalized": personal,
        "scored_on": f"each client's {evaluation.split} part, at the end of the run (no round is picked)",
        "spread": "std over seeds of the mean over clients; worst decile: mean over the worst tenth of clients",
    }
