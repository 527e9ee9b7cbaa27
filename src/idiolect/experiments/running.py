"""Run the algorithms of an experiment on its seeds: where problem, algorithm, timeline and engine meet."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from idiolect.contracts import Algorithm, Clients, Params, Peer
from idiolect.engines import Backend, Program, Snapshot, Workers, run_in_real_time, simulate
from idiolect.engines.checkpointing import NO_CHECKPOINTS, Checkpoint, Checkpointer, Tick
from idiolect.engines.serverless import CrewMaker, Lane, PeerProgram, simulate_peers
from idiolect.engines.several_devices import with_sharded_server
from idiolect.engines.side_by_side import threads
from idiolect.engines.tree_store import MemoryBudget
from idiolect.errors import Diverged
from idiolect.experiments.building import BuiltSeed, build_seed, is_serverless
from idiolect.experiments.cell_results import Result
from idiolect.experiments.evaluation_plan import EvaluationPlan, plan_evaluation
from idiolect.experiments.preparing import Prepared, prepare_cells
from idiolect.experiments.recording import Cell, Recorder
from idiolect.experiments.records import Point
from idiolect.experiments.rehearsing import Awaited, rehearsing
from idiolect.experiments.serialization import read_notes, write_notes
from idiolect.experiments.value import Experiment
from idiolect.network import Timeline
from idiolect.network.round_tables import Rounds

Listen = Callable[[str, int, Point], None]  # hears of a label's and a seed's latest point
LANE_BYTES = 2**30  # of data, for seeds that run side by side


class Execution(NamedTuple):
    """Who computes the turns of clients, and whose clock says what comes when.

    `backend` makes one for a program, some clients and a seed, if the threads of this process shall not compute them;
    `crew` one for a network without a server.
    """

    backend: Callable[[Program, Clients, int], Backend] | None = None
    clock: Literal["virtual", "real"] = "virtual"
    crew: CrewMaker | None = None


class Progress(NamedTuple):
    """What a progress bar needs to know of the cell at work, or of the last of those that go side by side."""

    label: str
    seed: int
    time: float
    score: float | None  # the last headline score
    metric: str = ""  # what that is
    together: int = 1
    compiling: bool = False  # nothing has been heard of it yet


class CellRun(NamedTuple):
    """A cell, and the compiled algorithm that runs on it."""

    prepared: Prepared
    cell: Cell

    @property
    def algorithm(self) -> Algorithm:
        """What runs."""
        return self.prepared.program.algorithm


class Diary(NamedTuple):
    """Who writes a run down while it goes on, for whoever watches.

    `begin` hears of cells that run side by side, each with the points that it has from before; `note` of every point,
    with its snapshot; `beat`, at every moment, how far they are.
    """

    begin: Callable[[Sequence[CellRun], Sequence[Sequence[Point]]], None] = lambda runs, points: None
    note: Callable[[CellRun, Point, Snapshot], None] = lambda run, point, snapshot: None
    beat: Callable[[float], None] = lambda now: None


class Services(NamedTuple):
    """What a run is given beside its experiment: where turns are computed, and who hears of its progress.

    `checkpointers` gives one for cells that run side by side, by the label of the first. `keep_models` keeps every
    client's model at every point in memory; checkpoints do not hold them. With `outlive` a cell that diverges is a
    result, and the others go on; without it `Diverged` is raised.
    """

    workers: Workers
    progress: Callable[[Progress], None] = lambda state: None
    checkpointers: Callable[[str, Sequence[Cell]], Checkpointer] = lambda label, cells: NO_CHECKPOINTS
    execution: Execution = Execution()
    keep_models: bool = False
    outlive: bool = False
    listen: Listen = lambda label, seed, point: None
    diary: Diary = Diary()


def run_together(
    runs: Sequence[CellRun], plan: EvaluationPlan, services: Services, checkpointer: Checkpointer = NO_CHECKPOINTS
) -> list[Result]:
    """Run cells side by side: one with a server, or seeds of algorithms without one; score them as planned.

    The first one's program serves all of them. If the checkpointer has kept a run, it goes on.
    """
    # The timeline of a real clock is only known at the end, and a run without one is no result.
    outlive = services.outlive and services.execution.clock == "virtual"
    begin = partial(Recorder, keep_models=services.keep_models, outlive=outlive)
    recorders = [begin(*run, plan, services.workers) for run in runs]
    saved = checkpointer.load()
    if saved is not None:
        for recorder, notes in zip(recorders, saved.facts["notes"], strict=True):
            recorder.restore(read_notes(notes))
    at_work = _beginning(runs)
    services.progress(at_work._replace(compiling=True))
    services.diary.begin(runs, [recorder.points for recorder in recorders])

    def tick(now: float, save: Callable[[], Checkpoint]) -> None:
        services.progress(at_work._replace(time=now, score=recorders[-1].latest))
        services.diary.beat(now)
        checkpointer.tick(partial(_with_notes, recorders, save))

    try:
        for snapshots in _snapshots(runs, plan, services, tick, saved, checkpointer.memory):
            for run, recorder, snapshot in zip(runs, recorders, snapshots, strict=True):
                if (point := recorder.add(snapshot)) is not None:
                    services.diary.note(run, point, snapshot)
                    services.listen(run.algorithm.name, run.cell.seed, point)
            services.progress(at_work._replace(time=snapshots[-1].time, score=recorders[-1].latest))
            if all(recorder.diverged for recorder in recorders):
                break  # nothing more can be scored
    except Diverged as reason:
        last, attacked = recorders[-1], runs[-1].algorithm.attacked
        real = services.execution.clock == "real"
        if not (attacked or outlive) or real or (last.latest is None and plan.times[0] <= 0):
            raise
        if last.latest is not None and not last.shown:
            return run_together(runs, plan, services, checkpointer._replace(load=lambda: None))
        last.end(str(reason), diverged=not attacked)  # what an attack did is worth knowing
    if any(recorder.lost for recorder in recorders):  # a checkpoint may not hold the models of the last pause
        return run_together(runs, plan, services, checkpointer._replace(load=lambda: None))
    if plan.times[0] > 0 and any(recorder.latest is None for recorder in recorders):  # then show at least the start
        whole = plan._replace(times=[0.0, *plan.times])
        return run_together(runs, whole, services, checkpointer._replace(load=lambda: None))
    return [recorder.result(shared_by=len(recorders)) for recorder in recorders]


def _beginning(runs: Sequence[CellRun]) -> Progress:
    last = runs[-1]
    return Progress(last.algorithm.name, last.cell.seed, 0.0, None, last.prepared.metrics[0].name, len(runs))


def _with_notes(recorders: list[Recorder], save: Callable[[], Checkpoint]) -> Checkpoint:
    facts, tensors = save()
    return Checkpoint({**facts, "notes": [write_notes(recorder.notes()) for recorder in recorders]}, tensors)


def _snapshots(
    runs: Sequence[CellRun],
    plan: EvaluationPlan,
    services: Services,
    tick: Tick,
    saved: Checkpoint | None,
    memory: MemoryBudget,
) -> Iterator[list[Snapshot]]:
    """The pauses of all cells, from the engine that can run them."""
    program, times, workers, execution = runs[0].prepared.program, plan.times, services.workers, services.execution
    if isinstance(program, PeerProgram):
        lanes = _lanes(runs)
        yield from simulate_peers(program, lanes, workers, times=times, tick=tick, saved=saved, crew=execution.crew)
        return
    ((_, (clients, table, seed, _, start)),) = runs
    assert isinstance(table, Timeline)
    if start is not None:  # copied, since a server may overwrite the model that it is given
        shared = program.algorithm.objective.shared
        program = program._replace(init=lambda key: jax.tree.map(jnp.copy, shared(start)))
    real = execution.clock == "real"
    if execution.backend is not None:
        backend = execution.backend(program, clients, seed)
    elif real:
        backend = threads(program, clients, workers, seed, width=1)
    else:
        program = with_sharded_server(program, jax.local_devices())
        backend = threads(program, clients, workers, seed)
    go = partial(run_in_real_time, program, clients) if real else partial(simulate, program, clients, table)
    for snapshot in go(backend, seed=seed, times=times, tick=tick, saved=saved, memory=memory):
        yield [snapshot]


def _lanes(runs: Sequence[CellRun]) -> list[Lane]:
    several = len({run.algorithm.name for run in runs}) > 1  # if not, its numbers are constants of the program
    lanes = []
    for run in runs:
        clients, table, seed, _, start = run.cell
        assert isinstance(table, Rounds)
        lanes.append(Lane(clients, table, seed, run.algorithm if several else None, start))
    return lanes


def run_cells(
    experiment: Experiment,
    services: Services,
    *,
    data_dir: Path | None = None,
    first: BuiltSeed | None = None,
    skip: Callable[[str, int], bool] = lambda label, seed: False,
    on_seed: Callable[[BuiltSeed], None] = lambda built: None,
    starts: Callable[[BuiltSeed], Params | None] = lambda built: None,
) -> Iterator[Result]:
    """Run every algorithm of an experiment on every seed, all on the same data, timelines and evaluation times.

    `first` is a seed that has been built already; `on_seed` hears of every seed before its clients work; `starts` gives
    the trained model that a seed's algorithms begin with, or None where they begin with a drawn one.
    """
    plan, timelines = plan_evaluation(experiment), services.execution.clock == "virtual"
    prepared: dict[str, Prepared] = {}
    waiting: dict[Hashable, list[CellRun]] = {}  # by what they have in common that run side by side
    with ExitStack() as rehearsals:
        for seed in unfinished_seeds(experiment, skip):
            ready = first is not None and first.seed == seed
            built = (
                first if first is not None and ready else build_seed(experiment, seed, data_dir, timelines=timelines)
            )
            on_seed(built)
            start = starts(built)
            # A seed changes the clients but no function, so what was compiled for the first seed serves all.
            if not prepared:
                prepared = prepare_cells(built, plan.budget)
                awaited = rehearsals.enter_context(_rehearsing(built, prepared, plan, services, skip))
            for label, (algorithm, table, optimum, kind) in built.cells.items():
                run = CellRun(prepared[label], Cell(built.problem.clients, table, seed, optimum, start))
                if isinstance(algorithm.protocol, Peer):
                    waiting.setdefault(kind, []).append(run)
                elif not skip(label, seed):
                    services.progress(_beginning([run])._replace(compiling=True))
                    awaited(label)
                    yield from _kept([run], plan, services)
    for runs in waiting.values():
        for group in _side_by_side(sorted(runs, key=lambda run: experiment.labels.index(run.algorithm.name))):
            # All of them or none: who runs beside whom may show in the last digits.
            if not all(skip(run.algorithm.name, run.cell.seed) for run in group):
                yield from _kept(group, plan, services)


def _rehearsing(
    built: BuiltSeed,
    prepared: Mapping[str, Prepared],
    plan: EvaluationPlan,
    services: Services,
    skip: Callable[[str, int], bool],
) -> AbstractContextManager[Awaited]:
    """Compile ahead what threads of this process will run in virtual time."""
    here = services.execution.backend is None and services.execution.clock == "virtual"
    cores = services.workers.count if here else 1
    coming = {
        label: (prepared[label], cell.table)
        for label, cell in built.cells.items()
        if isinstance(cell.table, Timeline) and not skip(label, built.seed)
    }
    return rehearsing(coming, built.problem.clients, plan.budget, built.seed, cores)


def unfinished_seeds(experiment: Experiment, skip: Callable[[str, int], bool]) -> list[int]:
    """The seeds with something left to do: all of them, if seeds that run side by side have."""
    todo = [(label, seed) for label in experiment.labels for seed in experiment.seeds if not skip(label, seed)]
    together = [label for label, line in zip(experiment.labels, experiment.lines, strict=True) if is_serverless(line)]
    if any(label in together for label, _ in todo):
        return list(experiment.seeds)
    return [seed for seed in experiment.seeds if any(seed == other for _, other in todo)]


def _kept(runs: Sequence[CellRun], plan: EvaluationPlan, services: Services) -> Iterator[Result]:
    checkpointer = services.checkpointers(runs[0].algorithm.name, [run.cell for run in runs])
    yield from run_together(runs, plan, services, checkpointer)
    checkpointer.clear()  # by now, whoever asked for the results has seen them all


def _side_by_side(runs: list[CellRun]) -> list[list[CellRun]]:
    """Groups of cells whose data fits into memory together."""
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(runs[0].cell.clients.train.rows))
    width = max(1, LANE_BYTES // max(size, 1))
    return [runs[k : k + width] for k in range(0, len(runs), width)]
