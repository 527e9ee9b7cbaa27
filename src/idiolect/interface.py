"""The Python interface: an experiment, or one algorithm on a problem of your own, in one call."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from idiolect.contracts import Algorithm, LocalOptimizer, Params, Problem, Screening, StepRule
from idiolect.engines import Workers
from idiolect.engines.tree_store import MemoryBudget
from idiolect.errors import Diverged, UserMistake
from idiolect.evaluation.scores import Budget
from idiolect.experiments.building import BuiltSeed, build_seed
from idiolect.experiments.cell_results import Result
from idiolect.experiments.data_files import with_digests
from idiolect.experiments.describing import write_experiment
from idiolect.experiments.least_sizes import check_size
from idiolect.experiments.places import Place, check_place, opened
from idiolect.experiments.pretraining import pretraining
from idiolect.experiments.recipe_files import completed, load_recipe
from idiolect.experiments.recipe_tables import Evaluation, NamedAlgorithm, OwnTraining
from idiolect.experiments.running import Listen, Progress, Services, run_cells, unfinished_seeds
from idiolect.experiments.sources import made_by, source_of
from idiolect.experiments.value import Experiment
from idiolect.network.delays import Network
from idiolect.network.round_tables import Rounds
from idiolect.network.timelines import Timeline
from idiolect.network.topologies import Wire, erdos_renyi
from idiolect.network.unreliable_links import Links
from idiolect.options import Seed, checked_value
from idiolect.own_code import reference_to
from idiolect.protocols.attacks import Attack
from idiolect.report.progress import watched
from idiolect.results.beginning import begin_folder, check_clock, check_folder
from idiolect.results.checkpoint_files import Pace, checkpoints
from idiolect.results.folder import RunFolder
from idiolect.results.run import Run
from idiolect.results.seed_notes import mend_notes, note_seed
from idiolect.results.summary_files import write_summary
from idiolect.results.trained_models import TrainedModels, fitting, identified, open_trained
from idiolect.trees import names_of


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
    with opened(place, source) as execution, begin_folder(out, chosen, clock=place.clock) as folder:
        folder.check(chosen)
        save = partial(checkpoints, folder.path / "checkpoints", write_experiment(chosen))
        checkpointers = partial(save, pace=pace, memory=memory, stop=stop, notice=notice)
        with Workers() as workers:
            others = {"data_dir": where, "place": place, "code": code, "pace": pace, "memory": memory, "stop": stop}
            starts = first_models(chosen, out, notice=notice, **others)
            services = Services(workers, progress, checkpointers, execution, outlive=True, listen=listen)
            on_seed = partial(note_seed, folder, chosen)
            for result in run_cells(
                chosen, services, data_dir=where, first=first, skip=folder.has, on_seed=on_seed, starts=starts
            ):
                folder.add(result)
        for seed in chosen.seeds:
            mend_notes(folder, chosen, seed, where)
        folder.forget_checkpoints()
        return _summed_up(Run(out, chosen, runnable=True, data_dir=where, advice=first.advice))


def first_models(
    experiment: Experiment, out: Path, *, notice: Callable[[str], None], **others: Any
) -> Callable[[BuiltSeed], Params | None]:
    """The trained models with which a run in `out` begins, seed by seed; they are trained first if it asks for that.

    What trains them is a run of its own in the folder `start`, which goes on like any other if it is interrupted.
    """
    start = experiment.start
    if start is None:
        return lambda built: None
    if start.pretrain is None:
        trained = open_trained(start)
    else:
        before = completed(pretraining(experiment))
        notice(f"training {before.labels[0]} until {before.horizon:g} first, with whose models all others begin")
        check_end(run(before, out=out / "start", notice=notice, **others))
        trained = TrainedModels(out / "start", before.labels[0])
    return lambda built: trained.model(built.seed, built.problem)


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


def learn(
    problem: Problem,
    algorithm: str | Algorithm = "persa_fl_me",
    *,
    objective: Mapping[str, Any] | None = None,
    protocol: Mapping[str, Any] | None = None,
    local_steps: int | None = None,
    step_size: float = 0.01,
    batch_size: int = 32,
    step_rule: StepRule = StepRule(),
    optimizer: LocalOptimizer = LocalOptimizer(),
    network: Network = Network(),
    topology: Wire = erdos_renyi(probability=0.3),
    links: Links = Links(),
    timeline: Timeline | Rounds | None = None,
    horizon: float = 200.0,
    points: int = 10,
    budget: Budget = Budget(),
    screening: Screening = Screening(),
    attack: Attack | None = None,
    trajectory: bool = False,
    start: Params | None = None,
    seed: int = 0,
    progress: bool | Callable[[Progress], None] = True,
) -> Result:
    """Run one algorithm on a problem, in virtual time: one cell of an experiment, without a folder.

    Args:
        problem: A problem of your own, or of the catalog.
        algorithm: A name of the catalog, `objective+protocol`, or an `Algorithm` record of your own.
        objective: Options of a named objective.
        protocol: Options of a named protocol.
        local_steps: Of a named algorithm; 10 with a server and 1 without, unless the algorithm says otherwise.
        step_size: Of a named algorithm.
        batch_size: Of a named algorithm.
        step_rule: Of a named algorithm without a server.
        optimizer: Of a named algorithm's clients.
        network: When clients work, with a server.
        topology: Who can send to whom, without one.
        links: And what happens to messages; a round is a unit of time.
        timeline: Made by hand, in place of what would be drawn.
        horizon: When the run ends.
        points: At how many evenly spaced times models are scored.
        budget: How they are adapted first.
        screening: What a server does with updates that cannot be right.
        attack: Makes some clients lie.
        trajectory: Keep every client's model at every point; without a server these are the agents' z.
        start: A trained model to begin with, in place of a drawn one.
        seed: Of the start, the batches and what the network does.
        progress: Whether a bar is shown, where somebody watches a terminal; or a function that hears of the run.

    Returns:
        The scores, the timeline, the shared model, and of each client the model that it has (`received`) and what its
        objective makes of that (`model`).

    Example:
        >>> import idiolect
        >>> from idiolect.problems.synthetic import quadratics
        >>> result = idiolect.learn(quadratics(clients=4), "fedavg", horizon=40.0, step_size=0.1)
        >>> result.points[0].scores["participating"]["0"].mean > result.points[-1].scores["participating"]["0"].mean
        True
        >>> agents = idiolect.learn(quadratics(clients=4), "pars_push", horizon=20.0, points=4, trajectory=True)
        >>> [at.time for at in agents.trajectory]
        [0.0, 5.0, 10.0, 15.0, 20.0]
        >>> bool((agents.trajectory[-1].models[2] == agents.received(2)).all())
        True
    """
    if isinstance(timeline, Timeline | Rounds):
        horizon = float(timeline.length if isinstance(timeline, Rounds) else timeline.arrived.max())
    line: NamedAlgorithm | Algorithm
    if isinstance(algorithm, Algorithm):
        line = algorithm
    else:
        training = OwnTraining(
            local_steps=local_steps,
            step_size=step_size,
            batch_size=batch_size,
            step_rule=step_rule,
            optimizer=optimizer,
        )
        name = checked_value("algorithm", str, algorithm)
        options: dict[str, Any] = {"objective": objective or {}, "protocol": protocol or {}}
        line = NamedAlgorithm(name=name, training=training, **options)
    if not isinstance(budget, Budget):
        raise UserMistake(f"budget is {budget!r}, but must be an idiolect.Budget")
    asked = {**budget._asdict(), "tunes": list(budget.tunes) or None}
    evaluation = Evaluation(points=points, headline="own", **asked)
    seed = checked_value("seed", Seed, seed)
    cell = Experiment(
        problem,
        [line],
        seeds=[seed],
        horizon=horizon,
        network=network,
        topology=topology,
        links=links,
        timeline=timeline,
        evaluation=evaluation,
        screening=screening,
        attack=attack,
    )
    first = None if start is None else fitting(names_of("server", start), problem, "start")
    with Workers() as workers, watched(cell, progress) as show:
        services = Services(workers, show, keep_models=trajectory)
        (result,) = run_cells(completed(cell), services, starts=lambda built: first)
    return result
