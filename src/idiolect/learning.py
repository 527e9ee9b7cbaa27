"""One algorithm on a problem of your own, in one call and without a folder."""

from collections.abc import Callable, Mapping
from typing import Any

from idiolect.contracts import Algorithm, LocalOptimizer, Params, Problem, Screening, StepRule
from idiolect.engines import Workers
from idiolect.errors import UserMistake
from idiolect.evaluation.scores import Budget
from idiolect.experiments.cell_results import Result
from idiolect.experiments.recipe_files import completed
from idiolect.experiments.recipe_tables import Evaluation, NamedAlgorithm, OwnTraining
from idiolect.experiments.running import Progress, Services, run_cells
from idiolect.experiments.value import Experiment
from idiolect.network.delays import Network
from idiolect.network.round_tables import Rounds
from idiolect.network.timelines import Timeline
from idiolect.network.topologies import Wire, erdos_renyi
from idiolect.network.unreliable_links import Links
from idiolect.options import Seed, checked_value
from idiolect.protocols.attacks import Attack
from idiolect.report.progress import watched
from idiolect.results.trained_models import fitting
from idiolect.trees import names_of


def learn(
    problem: Problem,
    algorithm: str | Algorithm = "persa_fl_me",
    *,
    objective: Mapping[str, Any] | None = None,
    protocol: Mapping[str, Any] | None = None,
    local_steps: int | None = None,
    epochs: int | None = None,
    step_size: float = 0.01,
    batch_size: int = 32,
    step_rule: StepRule = StepRule(),
    optimizer: LocalOptimizer = LocalOptimizer(),
    network: Network = Network(),
    topology: Wire = erdos_renyi(probability=0.3),
    links: Links = Links(),
    timeline: Timeline | Rounds | None = None,
    horizon: float | None = None,
    rounds: int | None = None,
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
        epochs: In place of `local_steps`, passes over a client's training part in a turn.
        step_size: Of a named algorithm.
        batch_size: Of a named algorithm.
        step_rule: How the step size of a named algorithm changes.
        optimizer: Of a named algorithm's clients.
        network: When clients work, with a server.
        topology: Who can send to whom, without one.
        links: And what happens to messages; a round is a unit of time.
        timeline: Made by hand, in place of what would be drawn.
        horizon: When the run ends, in virtual time; by default at 200.
        rounds: In its place, after how many rounds; time is then counted in rounds.
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
    if isinstance(timeline, Timeline | Rounds) and rounds is None:
        horizon = float(timeline.length if isinstance(timeline, Rounds) else timeline.arrived.max())
    line: NamedAlgorithm | Algorithm
    if isinstance(algorithm, Algorithm):
        line = algorithm
    else:
        training = OwnTraining(
            local_steps=local_steps,
            epochs=epochs,
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
    seed, trajectory = checked_value("seed", Seed, seed), checked_value("trajectory", bool, trajectory)
    progress = progress if callable(progress) else checked_value("progress", bool, progress)
    cell = Experiment(
        problem,
        [line],
        seeds=[seed],
        horizon=horizon,  # type: ignore[arg-type]  # None until an experiment gives it a number
        rounds=rounds,
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
