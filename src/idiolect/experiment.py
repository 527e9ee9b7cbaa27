"""Run algorithms on seeds: the one door through which problem, algorithm, timeline and engine meet."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from idiolect.building import Setting, build_algorithm, build_problem, build_timeline, watch
from idiolect.contracts import Algorithm, Clients, Metric, Params, Problem, PyTree
from idiolect.engines import Program, Workers, prepare, simulate
from idiolect.errors import Diverged
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
from idiolect.network import Timeline
from idiolect.recipes import Recipe


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
