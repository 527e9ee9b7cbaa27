"""Run algorithms on seeds: the one door through which problem, algorithm, timeline and engine meet."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import jax

from idiolect.catalog import serverless
from idiolect.contracts import Algorithm, Clients, Peer, Problem
from idiolect.engines import Backend, Program, Snapshot, ThreadBackend, Workers, run_in_real_time, simulate
from idiolect.engines.checkpointing import NO_CHECKPOINTS, Checkpoint, Checkpointer, Tick
from idiolect.engines.serverless import Lane, PeerProgram, simulate_peers
from idiolect.engines.tree_store import MemoryBudget
from idiolect.errors import Diverged
from idiolect.experiments.building import (
    Setting,
    build_algorithm,
    build_optimum,
    build_problem,
    build_timeline,
    kind,
    watch,
)
from idiolect.experiments.recording import Cell, Prepared, Record, Result, prepare_cell
from idiolect.experiments.schema import AlgorithmTable, Recipe
from idiolect.network import Timeline
from idiolect.network.round_tables import Rounds
from idiolect.network.timelines import UNWRITTEN
from idiolect.results.serialization import read_notes, write_notes

LANE_BYTES = 2**30  # of data, for seeds that run side by side


class Engine(NamedTuple):
    """Who computes the turns of clients, and whose clock says what comes when.

    `backend` gives those who can run a program on these clients and this seed, if the threads of this process shall not.
    """

    backend: Callable[[Program, Clients, int], Backend] | None = None
    clock: Literal["virtual", "real"] = "virtual"


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
    checkpointer: Checkpointer = NO_CHECKPOINTS,
    engine: Engine = Engine(),
) -> Result:
    """Run one algorithm on one seed, and score it at each of the setting's times."""
    seats = [Seat(prepared, cell)]
    return run_together(seats, setting, workers, progress=progress, checkpointer=checkpointer, engine=engine)[0]


class Seat(NamedTuple):
    """A cell, and the algorithm that runs on it."""

    prepared: Prepared
    cell: Cell

    @property
    def algorithm(self) -> Algorithm:
        """What runs."""
        return self.prepared.program.algorithm


def run_together(
    seats: Sequence[Seat],
    setting: Setting,
    workers: Workers,
    *,
    progress: Callable[[Progress], None] = lambda state: None,
    checkpointer: Checkpointer = NO_CHECKPOINTS,
    engine: Engine = Engine(),
) -> list[Result]:
    """The same for several cells side by side: seeds of an algorithm without a server, and of others of its kind.

    The first one's program serves all of them. The checkpointer's run goes on, if any.
    """
    records = [Record(*seat, setting, workers) for seat in seats]
    saved = checkpointer.load()
    if saved is not None:
        for record, notes in zip(records, saved.facts["notes"], strict=True):
            record.restore(read_notes(notes))
    label, seed = seats[-1].algorithm.name, seats[-1].cell.seed

    def tick(now: float, save: Callable[[], Checkpoint]) -> None:
        progress(Progress(label, seed, now, records[-1].latest))
        checkpointer.beat(partial(_with_notes, records, save))

    try:
        for snapshots in _snapshots(seats, setting, workers, tick, saved, checkpointer.memory, engine):
            for record, snapshot in zip(records, snapshots, strict=True):
                record.add(snapshot)
            progress(Progress(label, seed, snapshots[-1].time, records[-1].latest))
    except Diverged as reason:
        if not seats[-1].algorithm.attacked or records[-1].latest is None or engine.clock == "real":
            raise
        if not records[-1].shown:  # it went on from a checkpoint, which does not hold the models of the last pause
            anew = checkpointer._replace(load=lambda: None)
            return run_together(seats, setting, workers, progress=progress, checkpointer=anew, engine=engine)
        records[-1].end(str(reason))  # what an attack did is worth knowing
    return [record.outcome(shared_by=len(records)) for record in records]


def _with_notes(records: list[Record], save: Callable[[], Checkpoint]) -> Checkpoint:
    facts, tensors = save()
    return Checkpoint({**facts, "notes": [write_notes(record.notes()) for record in records]}, tensors)


def _snapshots(
    seats: Sequence[Seat],
    setting: Setting,
    workers: Workers,
    tick: Tick,
    saved: Checkpoint | None,
    memory: MemoryBudget,
    engine: Engine,
) -> Iterator[list[Snapshot]]:
    """The pauses of all cells, from the engine that can run them."""
    program, times = seats[0].prepared.program, setting.times
    if isinstance(program, PeerProgram):
        yield from simulate_peers(program, _lanes(seats), workers, times=times, tick=tick, saved=saved)
    else:
        ((_, (clients, table, seed, _)),) = seats
        assert isinstance(table, Timeline)
        backend = (
            ThreadBackend(program, clients, workers, seed)
            if engine.backend is None
            else engine.backend(program, clients, seed)
        )
        go = (
            partial(run_in_real_time, program, clients)
            if engine.clock == "real"
            else partial(simulate, program, clients, table)
        )
        for snapshot in go(backend, seed=seed, times=times, tick=tick, saved=saved, memory=memory):
            yield [snapshot]


def _lanes(seats: Sequence[Seat]) -> list[Lane]:
    several = len({seat.algorithm.name for seat in seats}) > 1  # if not, its numbers are constants of the program
    lanes = []
    for seat in seats:
        clients, table, seed, _ = seat.cell
        assert isinstance(table, Rounds)
        lanes.append(Lane(clients, table, seed, seat.algorithm if several else None))
    return lanes


def run_cells(
    recipe: Recipe,
    workers: Workers,
    *,
    data_dir: Path | None = None,
    skip: Callable[[str, int], bool] = lambda label, seed: False,
    progress: Callable[[Progress], None] = lambda state: None,
    checkpointers: Callable[[str, Sequence[Cell]], Checkpointer] = lambda label, cells: NO_CHECKPOINTS,
    engine: Engine = Engine(),
    meet: Callable[[int, Clients], None] = lambda seed, clients: None,
) -> Iterator[Result]:
    """Run every algorithm of a recipe on every seed, all on the same data, timelines and evaluation times.

    `checkpointers` gives a checkpointer to cells that run side by side, by the label of the first; `meet` hears of each seed's
    clients before they work.
    """
    setting = watch(recipe)
    prepared: dict[str, Prepared] = {}
    waiting: dict[Hashable, list[Seat]] = {}  # by what they have in common that run side by side
    for seed in _unfinished(recipe, skip):
        problem = build_problem(recipe, seed, data_dir)
        meet(seed, problem.clients)
        # Build them all first: a mistake in the last one must not cost the work of the others.
        cells = [_build_cell(recipe, table, problem, seed, engine) for table in recipe.algorithms]
        for label, table, (algorithm, cell) in zip(recipe.labels, recipe.algorithms, cells, strict=True):
            # A seed changes the clients but no function, so what was compiled for the first seed serves all.
            if label not in prepared:
                prepared[label] = prepare_cell(problem, algorithm, setting.budget)
            seat = Seat(prepared[label], cell)
            if isinstance(algorithm.protocol, Peer):
                waiting.setdefault(kind(table, algorithm), []).append(seat)
            elif not skip(label, seed):
                yield from _kept([seat], setting, workers, progress, checkpointers(label, [cell]), engine)
    for seats in waiting.values():
        for group in _side_by_side(sorted(seats, key=lambda seat: recipe.labels.index(seat.algorithm.name))):
            # All of them or none: who runs beside whom may show in the last digits.
            if not all(skip(seat.algorithm.name, seat.cell.seed) for seat in group):
                checkpointer = checkpointers(group[0].algorithm.name, [seat.cell for seat in group])
                yield from _kept(group, setting, workers, progress, checkpointer, engine)


def _unfinished(recipe: Recipe, skip: Callable[[str, int], bool]) -> list[int]:
    """The seeds with something left to do: all of them, if seeds that run side by side have."""
    todo = [(label, seed) for label in recipe.labels for seed in recipe.seeds if not skip(label, seed)]
    together = [label for label, table in zip(recipe.labels, recipe.algorithms, strict=True) if serverless(table.name)]
    if any(label in together for label, _ in todo):
        return recipe.seeds
    return [seed for seed in recipe.seeds if any(seed == other for _, other in todo)]


def _kept(
    seats: Sequence[Seat],
    setting: Setting,
    workers: Workers,
    progress: Callable[[Progress], None],
    checkpointer: Checkpointer,
    engine: Engine,
) -> Iterator[Result]:
    yield from run_together(seats, setting, workers, progress=progress, checkpointer=checkpointer, engine=engine)
    checkpointer.clear()  # by now, whoever asked for the outcomes has seen them all


def _build_cell(
    recipe: Recipe, table: AlgorithmTable, problem: Problem, seed: int, engine: Engine
) -> tuple[Algorithm, Cell]:
    algorithm = build_algorithm(recipe, table, problem)
    real = engine.clock == "real"
    timeline = UNWRITTEN if real else build_timeline(recipe, algorithm, problem, seed)
    return algorithm, Cell(problem.clients, timeline, seed, build_optimum(recipe, table, problem))


def _side_by_side(seats: list[Seat]) -> list[list[Seat]]:
    """Groups of cells whose data fits into memory together."""
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(seats[0].cell.clients.train.rows))
    width = max(1, LANE_BYTES // max(size, 1))
    return [seats[k : k + width] for k in range(0, len(seats), width)]
