"""Run algorithms on seeds: the one door through which problem, algorithm, timeline and engine meet."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from idiolect.building import Setting, build_algorithm, build_optimum, build_problem, build_timeline, watch
from idiolect.contracts import Algorithm, Clients, Metric, Params, Peer, Problem, PyTree
from idiolect.engines import Program, Snapshot, Workers, prepare, simulate
from idiolect.engines.serverless import Lane, PeerProgram, prepare_peers, simulate_peers
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
from idiolect.network.rounds import Rounds
from idiolect.recipes import AlgorithmTable, Recipe

LANE_BYTES = 2**30  # of data, for seeds that run side by side


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
    table: Timeline | Rounds
    params: Params  # the server's model at the end; the agents' average where there is no server
    personal: dict[int, PyTree]  # what stays on the clients at the end, where a protocol keeps anything
    model: Callable[[int], Params]  # a client's own model: the shared one, adapted as the objective prescribes
    seconds: float
    ended: str = ""  # why the run came to nothing before its time, if it did


class Progress(NamedTuple):
    """What a progress bar needs to know."""

    label: str
    seed: int
    time: float
    score: float | None


class Prepared(NamedTuple):
    """An algorithm compiled for a kind of problem, to be run on any clients and any seed."""

    program: Program | PeerProgram
    score: Scorer
    adapt: Adapter
    metric: Metric


def prepare_cell(problem: Problem, algorithm: Algorithm, budget: Budget) -> Prepared:
    """Compile an algorithm and its evaluation, once for all seeds."""
    serverless = isinstance(algorithm.protocol, Peer)
    program = prepare_peers(problem, algorithm) if serverless else prepare(problem, algorithm)
    objective = algorithm.objective
    return Prepared(program, scorer(problem, objective, budget), adapter(problem, objective, budget), problem.metric)


class Cell(NamedTuple):
    """One seed of an algorithm: its clients, its timeline, and the minimiser it should find, where that is known."""

    clients: Clients
    table: Timeline | Rounds
    seed: int
    optimum: Params | None = None


def run_cell(
    prepared: Prepared,
    cell: Cell,
    setting: Setting,
    workers: Workers,
    *,
    progress: Callable[[Progress], None] = lambda state: None,
) -> Outcome:
    """Run one algorithm on one seed, and score it at each of the setting's times."""
    return run_together(prepared, [cell], setting, workers, progress=progress)[0]


def run_together(
    prepared: Prepared,
    cells: Sequence[Cell],
    setting: Setting,
    workers: Workers,
    *,
    progress: Callable[[Progress], None] = lambda state: None,
) -> list[Outcome]:
    """The same for several seeds: side by side where the engine can, one after the other where it cannot."""
    records = [_Record(prepared, cell, setting, workers) for cell in cells]
    if isinstance(prepared.program, PeerProgram):
        _watch_peers(prepared.program, records, setting, workers, progress)
    else:
        for record in records:
            _watch_server(prepared.program, record, setting, workers, progress)
    return [record.outcome() for record in records]


def _watch_server(
    program: Program, record: "_Record", setting: Setting, workers: Workers, progress: Callable[[Progress], None]
) -> None:
    clients, table, seed, _ = record.cell
    assert isinstance(table, Timeline)

    def tick(now: float) -> None:
        progress(Progress(program.algorithm.name, seed, now, record.latest))

    started = time.perf_counter()
    for snapshot in simulate(program, clients, table, workers, seed=seed, times=setting.times, tick=tick):
        record.add(snapshot)
    record.seconds = time.perf_counter() - started


def _watch_peers(
    program: PeerProgram,
    records: list["_Record"],
    setting: Setting,
    workers: Workers,
    progress: Callable[[Progress], None],
) -> None:
    lanes = [Lane(r.cell.clients, r.cell.table, r.cell.seed) for r in records if isinstance(r.cell.table, Rounds)]
    started = time.perf_counter()
    for snapshots in simulate_peers(program, lanes, workers, times=setting.times):
        for record, snapshot in zip(records, snapshots, strict=True):
            record.add(snapshot)
        progress(Progress(program.algorithm.name, records[-1].cell.seed, snapshots[-1].time, records[-1].latest))
    for record in records:
        record.seconds = (time.perf_counter() - started) / len(records)


class _Record:
    """What is noted of one cell while it runs."""

    def __init__(self, prepared: Prepared, cell: Cell, setting: Setting, workers: Workers) -> None:
        self.cell, self.seconds = cell, 0.0
        self.latest: float | None = None
        self._prepared, self._setting, self._workers = prepared, setting, workers
        self._points: list[Point] = []
        self._ended = ""

    def add(self, snapshot: Snapshot) -> None:
        """Score a snapshot, unless the run has come to nothing before."""
        self._ended = self._ended or snapshot.ended
        if self._ended:
            return
        label, metric, setting = self._prepared.program.algorithm.name, self._prepared.metric, self._setting
        clients, seed = self.cell.clients, self.cell.seed
        scored = evaluate(self._prepared.score, clients, snapshot, setting.budget, self._workers, seed=seed)
        fault = _fault_in(label, scored)
        if fault and not snapshot.excused:
            raise Diverged(f"{fault}; a smaller evaluation.step_size may help")
        if fault:
            self._ended = f"{fault}; {snapshot.excused}"
            return
        self._last, self._scored = snapshot, scored
        scores = summarize_clients(scored, metric.higher_is_better)
        self.latest = scores["participating"][setting.headline].mean
        reports = {**snapshot.reports, **self._distance(snapshot)}
        self._points.append(Point(snapshot.time, snapshot.updates, scores, reports))

    def _distance(self, snapshot: Snapshot) -> dict[str, float]:
        """The mean over clients of the squared distance to the known minimiser."""
        if self.cell.optimum is None:
            return {}
        models = [snapshot.model(client) for client in self.cell.clients.participating]
        return {"distance_to_optimum": float(np.mean([_squared_distance(z, self.cell.optimum) for z in models]))}

    def outcome(self) -> Outcome:
        """All that was noted."""
        last, cell, prepared = self._last, self.cell, self._prepared
        own = partial(own_model, prepared.adapt, cell.clients, last, cell.seed)
        label, personal = prepared.program.algorithm.name, dict(last.personal)
        return Outcome(
            label,
            cell.seed,
            prepared.metric,
            self._points,
            self._scored,
            cell.table,
            last.params,
            personal,
            own,
            self.seconds,
            self._ended and f"{self._ended}; last scored at time {last.time:g}",
        )


def _squared_distance(model: Params, optimum: Params) -> float:
    pairs = zip(jax.tree.leaves(model), jax.tree.leaves(optimum), strict=True)
    return sum(float(((np.asarray(a, np.float64) - b) ** 2).sum()) for a, b in pairs)


def _fault_in(label: str, scored: list[ClientScore]) -> str:
    """The first score that is no number, in words; empty if all are."""
    for client in scored:
        for budget, score in client.scores.items():
            if not np.isfinite(score):
                steps = "its own adaptation" if budget == OWN else f"{budget} adaptation steps"
                return f"{label} diverged in evaluation: client {client.client} scores {score} after {steps}"
    return ""


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
    prepared: dict[str, Prepared] = {}
    waiting: dict[str, list[Cell]] = {}  # of algorithms whose seeds run side by side
    for seed in recipe.seeds:
        if all(skip(label, seed) for label in recipe.labels):
            continue
        problem = build_problem(recipe, seed, data_dir)
        # Build them all first: a mistake in the last one must not cost the work of the others.
        cells = [_build_cell(recipe, table, problem, seed) for table in recipe.algorithms]
        for label, (algorithm, cell) in zip(recipe.labels, cells, strict=True):
            # A seed changes the clients but no function, so what was compiled for the first seed serves all.
            if label not in prepared:
                prepared[label] = prepare_cell(problem, algorithm, setting.budget)
            if skip(label, seed):
                continue
            if isinstance(algorithm.protocol, Peer):
                waiting.setdefault(label, []).append(cell)
            else:
                yield run_cell(prepared[label], cell, setting, workers, progress=progress)
    for label, cells_ in waiting.items():
        for group in _side_by_side(cells_):
            yield from run_together(prepared[label], group, setting, workers, progress=progress)


def _build_cell(recipe: Recipe, table: AlgorithmTable, problem: Problem, seed: int) -> tuple[Algorithm, Cell]:
    algorithm = build_algorithm(recipe, table, problem)
    timeline = build_timeline(recipe, algorithm, problem, seed)
    return algorithm, Cell(problem.clients, timeline, seed, build_optimum(recipe, table, problem))


def _side_by_side(cells: list[Cell]) -> list[list[Cell]]:
    """Groups of cells whose data fits into memory together."""
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(cells[0].clients.train.rows))
    width = max(1, LANE_BYTES // max(size, 1))
    return [cells[k : k + width] for k in range(0, len(cells), width)]
