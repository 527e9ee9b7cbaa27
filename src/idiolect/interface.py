"""The Python interface: an experiment in one call, in a folder that goes on."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from idiolect.contracts import Params
from idiolect.engines import Workers
from idiolect.engines.tree_store import MemoryBudget
from idiolect.errors import Diverged, UserMistake
from idiolect.experiments.building import BuiltSeed, build_seed
from idiolect.experiments.data_files import with_digests
from idiolect.experiments.describing import write_experiment
from idiolect.experiments.least_sizes import check_size
from idiolect.experiments.places import Place, check_place, opened
from idiolect.experiments.pretraining import pretraining
from idiolect.experiments.recipe_files import completed, load_recipe
from idiolect.experiments.running import Listen, Progress, Services, run_cells, unfinished_seeds
from idiolect.experiments.sources import made_by, source_of
from idiolect.experiments.value import Experiment
from idiolect.own_code import reference_to
from idiolect.results.beginning import begin_folder, check_clock, check_folder
from idiolect.results.checkpoint_files import Pace, checkpoints
from idiolect.results.folder import RunFolder
from idiolect.results.progress_files import written_down
from idiolect.results.run import Run
from idiolect.results.seed_notes import mend_notes, note_seed
from idiolect.results.summary import when_ended
from idiolect.results.summary_files import write_summary
from idiolect.results.taking_over import read_other, take_cells
from idiolect.results.trained_models import TrainedModels, identified, open_trained

START = "start"  # the folder of the run that trains the first models


def run(
    experiment: Experiment | Callable[[], Experiment] | str = "demo",
    *settings: str,
    out: str | Path,
    data_dir: str | Path | None = None,
    place: Place = Place(),
    code: Sequence[str] = (),
    progress: Callable[[Progress], None] = lambda state: None,
    listen: Listen = lambda label, seed, point: None,
    pace: Pace = Pace(),
    memory: int = MemoryBudget().bytes,
    stop: Callable[[], bool] = lambda: False,
    notice: Callable[[str], None] = lambda sentence: None,
    yes: bool = False,
) -> Run:
    """Run an experiment into a folder, or what is missing of it there.

    A run that was interrupted, or killed, goes on when this is called again, to the same bytes. A folder that belongs
    to another experiment is refused with the difference named. An algorithm that diverges does not keep the others
    from running: its end is its result, and `diverged` of the run has it.

    Args:
        experiment: A value, an importable function that makes one (which actors elsewhere can call as well), or the
            name or path of a recipe.
        settings: `path.to.key=value` on top of a recipe.
        out: The run folder.
        data_dir: Where data sets lie.
        place: Where clients work, and by which clock.
        code: Modules and files that register what a recipe names, for actors elsewhere.
        progress: Hears how far the run is.
        listen: Hears every point of every algorithm and seed as it is scored, such as `idiolect.tracking.listening`.
        pace: How often the run is saved.
        memory: Bytes of what clients keep; the rest goes to disk.
        stop: If it says so, the run is saved and `Interrupted` is raised.
        notice: Hears what a user may want to know.
        yes: Run it even if that takes very long.

    Returns:
        The run, as typed records.

    Example:
        >>> import idiolect
        >>> problem = idiolect.Choice("quadratics", {"clients": 4})
        >>> mine = idiolect.Experiment(problem, ["fedavg", "persa_fl_me"], horizon=40.0)
        >>> idiolect.run(mine, out=tmp / "mine").summary.metric
        'loss'
    """
    out, where = Path(out), None if data_dir is None else Path(data_dir)
    chosen = with_digests(identified(_experiment(experiment, settings, notice)), where)
    check_size(chosen, yes=yes)
    check_clock(out, place.clock)
    check_place(place, chosen)
    check_folder(out, chosen)
    source = source_of(chosen, tuple(code), where) if place.engine == "ray" else None
    first = _built_first(chosen, out, where, place)
    with (
        opened(place, source) as execution,
        begin_folder(out, chosen, clock=place.clock) as folder,
        written_down(folder, notice) as diary,
    ):
        folder.check(chosen)
        save = partial(checkpoints, folder.path / "checkpoints", write_experiment(chosen))
        checkpointers = partial(save, pace=pace, memory=memory, stop=stop, notice=notice)
        with Workers() as workers:
            others = {"data_dir": where, "place": place, "code": code, "pace": pace, "memory": memory, "stop": stop}
            starts = first_models(chosen, out, notice=notice, **others)
            services = Services(workers, progress, checkpointers, execution, outlive=True, listen=listen, diary=diary)
            on_seed = partial(note_seed, folder, chosen)
            for result in run_cells(
                chosen, services, data_dir=where, first=first, skip=folder.has, on_seed=on_seed, starts=starts
            ):
                folder.add(result)
        for seed in chosen.seeds:
            mend_notes(folder, chosen, seed, where)
        folder.forget_checkpoints()
        return _summed_up(Run(out, chosen, runnable=True, data_dir=where, advice=first.advice))


def take_over(
    experiment: Experiment | Callable[[], Experiment] | str,
    *settings: str,
    out: str | Path,
    other: str | Path,
    data_dir: str | Path | None = None,
) -> int:
    """Begin a run folder with the cells of another run that are the same in this experiment.

    After an algorithm or a seed was added, or one algorithm was set otherwise, `run` then runs only what differs. A
    cell is the same if its algorithm with all options, its seed, the problem, the network and the evaluation are.
    Models that were trained first are taken as well; cells of algorithms without a server are not.

    Args:
        experiment: As `run` takes it.
        settings: `path.to.key=value` on top of a recipe.
        out: The folder of the new run.
        other: The folder of the run that has some of its cells.
        data_dir: Where data sets lie.

    Returns:
        How many cells were taken.

    Example:
        >>> import idiolect
        >>> mine = idiolect.Experiment(idiolect.Choice("quadratics", {"clients": 4}), ["fedavg"], horizon=40.0)
        >>> _ = idiolect.run(mine, out=tmp / "before")
        >>> more = mine.replace(algorithms=["fedavg", "fedasync"])
        >>> idiolect.take_over(more, out=tmp / "after", other=tmp / "before")
        1
    """
    where = None if data_dir is None else Path(data_dir)
    chosen = with_digests(identified(_experiment(experiment, settings, lambda sentence: None)), where)
    read_other(Path(other))  # before a folder is made for it
    with begin_folder(Path(out), chosen) as folder:
        folder.check(chosen)
        taken = take_cells(folder, chosen, Path(other))
    if trains_first(chosen) and (Path(other) / START).is_dir():
        take_over(completed(pretraining(chosen)), out=Path(out) / START, other=Path(other) / START, data_dir=where)
    return taken


def first_models(
    experiment: Experiment, out: Path, *, notice: Callable[[str], None], **others: Any
) -> Callable[[BuiltSeed], Params | None]:
    """The trained models with which a run in `out` begins, seed by seed; they are trained first if it asks for that.

    What trains them is a run of its own in the folder `start`, which goes on like any other if it is interrupted.
    """
    if trains_first(experiment):
        before = completed(pretraining(experiment))
        when = when_ended(before.horizon, before.rounds)
        notice(f"training {before.labels[0]} first, whose models {when} are those that all others begin with")
        check_end(run(before, out=out / START, notice=notice, **others))
    return trained_models(experiment, out)


def trained_models(experiment: Experiment, out: Path) -> Callable[[BuiltSeed], Params | None]:
    """The same, where they are trained already."""
    start = experiment.start
    if start is None:
        return lambda built: None
    if start.pretrain is None:
        trained = open_trained(start)
    else:
        trained = TrainedModels(out / START, completed(pretraining(experiment)).labels[0])
    return lambda built: trained.model(built.seed, built.problem)


def trains_first(experiment: Experiment) -> bool:
    """Do its algorithms begin with models that it trains itself?"""
    return experiment.start is not None and experiment.start.pretrain is not None


def check_end(found: Run) -> Run:
    """The run, if none of its cells has diverged, for whoever needs all of them."""
    for cell in found.diverged:
        raise Diverged(cell.ended)
    return found


def _experiment(
    given: Experiment | Callable[[], Experiment] | str, settings: Sequence[str], notice: Callable[[str], None]
) -> Experiment:
    if isinstance(given, Experiment):
        return completed(given)
    if isinstance(given, str | Path):
        return load_recipe(given, settings, notice=notice)
    if not callable(given):
        raise UserMistake(
            f"experiment is {type(given).__name__}, but must be an Experiment, a function that makes one, or a recipe"
        )
    reference = reference_to(given)
    if reference is not None:
        return made_by(reference)
    made = given()
    if not isinstance(made, Experiment):
        raise UserMistake(f"experiment gives {type(made).__name__}, but must give an Experiment")
    return completed(made)


def _built_first(experiment: Experiment, out: Path, data_dir: Path | None, place: Place) -> BuiltSeed:
    """The first seed that has anything left to do, built before anything is written, so that mistakes show."""
    folder = RunFolder(out)
    seed = next(iter(unfinished_seeds(experiment, folder.has)), experiment.seeds[0])
    return build_seed(experiment, seed, data_dir, timelines=place.clock == "virtual")


def _summed_up(found: Run) -> Run:
    """Write the tables and the report of a run whose cells are finished."""
    # Here, since drawing takes a while to import, and `learn` draws nothing.
    from idiolect.report.report_data import report_data_of
    from idiolect.report.writing import PAGE, write_page

    RunFolder(found.path).write_tables(found.cells, write_summary(found.summary))
    write_page(report_data_of([found]), found.path / PAGE)
    return found
