"""Run algorithms on seeds: the one door through which problem, algorithm, timeline and engine meet."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax

from idiolect.building import Setting, build_algorithm, build_optimum, build_problem, build_timeline, watch
from idiolect.contracts import Algorithm, Peer, Problem
from idiolect.engines import Program, Workers, simulate
from idiolect.engines.serverless import Lane, PeerProgram, simulate_peers
from idiolect.errors import Diverged
from idiolect.network import Timeline
from idiolect.network.rounds import Rounds
from idiolect.recipes import AlgorithmTable, Recipe
from idiolect.recording import Cell, Outcome, Prepared, Record, prepare_cell

LANE_BYTES = 2**30  # of data, for seeds that run side by side


class Progress(NamedTuple):
    """What a progress bar needs to know."""

    label: str
    seed: int
    time: float
    score: float | None


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
    records = [Record(prepared, cell, setting, workers) for cell in cells]
    if isinstance(prepared.program, PeerProgram):
        _watch_peers(prepared.program, records, setting, workers, progress)
    else:
        for record in records:
            _watch_server(prepared.program, record, setting, workers, progress)
    return [record.outcome() for record in records]


def _watch_server(
    program: Program, record: Record, setting: Setting, workers: Workers, progress: Callable[[Progress], None]
) -> None:
    clients, table, seed, _ = record.cell
    assert isinstance(table, Timeline)

    def tick(now: float) -> None:
        progress(Progress(program.algorithm.name, seed, now, record.latest))

    started = time.perf_counter()
    try:
        for snapshot in simulate(program, clients, table, workers, seed=seed, times=setting.times, tick=tick):
            record.add(snapshot)
    except Diverged as reason:
        if not program.algorithm.attacked or record.latest is None:
            raise
        record.end(str(reason))  # what an attack did is worth knowing
    record.seconds = time.perf_counter() - started


def _watch_peers(
    program: PeerProgram,
    records: list[Record],
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
