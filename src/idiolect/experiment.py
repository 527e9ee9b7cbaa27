"""From a recipe to results: the one door through which problem, algorithm, timeline and engine meet."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from idiolect import catalog
from idiolect.contracts import Algorithm, Clients, Metric, Params, Problem, PyTree
from idiolect.engines import Program, Workers, prepare, simulate
from idiolect.errors import Diverged, UserMistake
from idiolect.evaluation import (
    OWN,
    Adapter,
    Budget,
    ClientScore,
    Scorer,
    Spread,
    adapter,
    evaluate,
    own_model,
    scorer,
    spread,
)
from idiolect.network import Timeline, draw_timeline, read_timeline
from idiolect.network.timeline import NO_ROUND
from idiolect.options import checked, make
from idiolect.problems.classification import classification
from idiolect.problems.datasets import load_images
from idiolect.recipe import AlgorithmTable, Recipe, image_problem


class Point(NamedTuple):
    """A run at one moment: the scores of both groups of clients under every budget, and what clients reported."""

    time: float
    updates: int
    scores: dict[str, dict[str, Spread]]  # group -> "0", "1", …, "own" -> spread over clients
    reports: dict[str, float]


class Outcome(NamedTuple):
    """One algorithm on one seed, from start to end."""

    label: str
    seed: int
    metric: Metric
    points: list[Point]
    clients: list[ClientScore]  # at the end
    table: Timeline
    params: Params  # the server's model at the end
    personal: dict[int, PyTree]  # what stays on the clients at the end, where a protocol keeps anything
    model: Callable[[int], Params]  # a client's own model: the shared one, adapted as the objective prescribes
    seconds: float


class Progress(NamedTuple):
    """What a progress bar needs to know."""

    label: str
    seed: int
    time: float
    score: float | None


def build_problem(recipe: Recipe, seed: int, data_dir: Path | None = None) -> Problem:
    """The recipe's problem; the seed decides who holds what."""
    images = image_problem(recipe)
    if images is None:
        options = dict(recipe.problem.model_extra or {})
        synthetic: Problem = make(catalog.SYNTHETIC, "problem", recipe.problem.name, options, seed=seed)
        return synthetic
    data = load_images(images.name, data_dir)
    parts = {key: dict(choice) for key, choice in (("partition", images.partition), ("model", images.model))}
    deal = make(catalog.PARTITIONS, "problem.partition", parts["partition"].pop("name"), parts["partition"])
    name = parts["model"].pop("name")
    options = checked(catalog.MODELS, "problem.model", name, parts["model"])
    model = catalog.MODELS[name](data.pixels.shape[1:], int(data.labels.max()) + 1, **options)
    return classification(
        images.name,
        data,
        model,
        deal,
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


class Setting(NamedTuple):
    """How a run is watched: when, with which budgets, and which of them is the headline."""

    times: list[float]
    budget: Budget
    headline: str


class Prepared(NamedTuple):
    """An algorithm compiled for a kind of problem, to be run on any clients and any seed."""

    program: Program
    score: Scorer
    adapt: Adapter
    metric: Metric


def prepare_cell(problem: Problem, algorithm: Algorithm, budget: Budget) -> Prepared:
    """Compile an algorithm and its evaluation, once for all seeds."""
    program = prepare(problem, algorithm)
    return Prepared(program, scorer(problem, program, budget), adapter(problem, program, budget), problem.metric)


def run_cell(
    prepared: Prepared,
    clients: Clients,
    table: Timeline,
    setting: Setting,
    workers: Workers,
    *,
    seed: int,
    progress: Callable[[Progress], None] = lambda state: None,
) -> Outcome:
    """Run one algorithm on one seed, and score it at each of the setting's times."""
    program, metric, label = prepared.program, prepared.metric, prepared.program.algorithm.name
    started, score, points = time.perf_counter(), None, []

    def tick(now: float) -> None:
        progress(Progress(label, seed, now, score))

    for snapshot in simulate(program, clients, table, workers, seed=seed, times=setting.times, tick=tick):
        scored = evaluate(prepared.score, clients, snapshot, setting.budget, workers, seed=seed)
        _check_scores(label, scored)
        scores = summarize_clients(scored, metric.higher_is_better)
        score = scores["participating"][setting.headline].mean
        points.append(Point(snapshot.time, snapshot.updates, scores, snapshot.reports))
    seconds = time.perf_counter() - started
    own = partial(own_model, prepared.adapt, clients, snapshot, seed)
    return Outcome(label, seed, metric, points, scored, table, snapshot.params, dict(snapshot.personal), own, seconds)


def _check_scores(label: str, scored: list[ClientScore]) -> None:
    for client in scored:
        for budget, score in client.scores.items():
            if not np.isfinite(score):
                steps = "its own adaptation" if budget == OWN else f"{budget} adaptation steps"
                raise Diverged(
                    f"{label} diverged in evaluation: client {client.client} scores {score} after {steps}; "
                    "a smaller evaluation.step_size may help"
                )


def summarize_clients(scored: list[ClientScore], higher_is_better: bool) -> dict[str, dict[str, Spread]]:
    """Spreads over the clients of each group, under every budget."""
    groups: dict[str, dict[str, Spread]] = {}
    for group in ("participating", "unseen"):
        members = [client for client in scored if client.group == group]
        if members:
            budgets = members[0].scores
            groups[group] = {k: spread([m.scores[k] for m in members], higher_is_better) for k in budgets}
    return groups


def run_cells(
    recipe: Recipe,
    workers: Workers,
    *,
    data_dir: Path | None = None,
    skip: Callable[[str, int], bool] = lambda label, seed: False,
    progress: Callable[[Progress], None] = lambda state: None,
) -> Iterator[Outcome]:
    """Run every algorithm of a recipe on every seed, all on the same data, timelines and evaluation times."""
    setting = watch(recipe)
    prepared: list[Prepared] = []
    for seed in recipe.seeds:
        if all(skip(label, seed) for label in recipe.labels):
            continue
        problem = build_problem(recipe, seed, data_dir)
        # Build them all first: a mistake in the last one must not cost the work of the others.
        algorithms = [build_algorithm(recipe, table, problem) for table in recipe.algorithms]
        tables = [build_timeline(recipe, algorithm, problem, seed) for algorithm in algorithms]
        # A seed changes the clients but no function, so what was compiled for the first seed serves all.
        prepared = prepared or [prepare_cell(problem, algorithm, setting.budget) for algorithm in algorithms]
        for cell, label, table in zip(prepared, recipe.labels, tables, strict=True):
            if not skip(label, seed):
                yield run_cell(cell, problem.clients, table, setting, workers, seed=seed, progress=progress)


def check(recipe: Recipe, data_dir: Path | None = None) -> None:
    """Build everything of the first seed, so that mistakes show before anything is written."""
    seed = recipe.seeds[0]
    problem = build_problem(recipe, seed, data_dir)
    for table in recipe.algorithms:
        build_timeline(recipe, build_algorithm(recipe, table, problem), problem, seed)
    split = recipe.evaluation.split
    if not getattr(problem.clients, split).sizes[problem.clients.participating].any():
        raise UserMistake(f"evaluation.split is '{split}', but no participating client has any {split} samples")


def watch(recipe: Recipe) -> Setting:
    """How the recipe wants its runs watched."""
    table = recipe.evaluation
    budget = Budget(tuple(table.steps), table.step_size, table.batch_size, table.split, table.at_most)
    return Setting(np.linspace(0, recipe.horizon, table.points + 1).tolist(), budget, headline_column(recipe))


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
