"""The Python interface: a recipe, or a problem of your own, in one call."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from idiolect import catalog
from idiolect.contracts import Algorithm, Peer, Problem, Protocol, Screening, StepRule
from idiolect.engines import Workers
from idiolect.errors import UserMistake
from idiolect.evaluation.scoring import OWN, Budget
from idiolect.experiments.building import Setting, check_graph, check_timeline
from idiolect.experiments.places import Place
from idiolect.experiments.recipe_files import load_recipe
from idiolect.experiments.recording import Cell, Result, prepare_cell
from idiolect.experiments.running import run_cell
from idiolect.network import Network, Timeline, draw_timeline
from idiolect.network.round_tables import Rounds
from idiolect.network.topologies import Wire, erdos_renyi
from idiolect.network.unreliable_links import Links, draw_rounds
from idiolect.protocols.attacks import Attack


def run(
    recipe: str = "demo",
    *settings: str,
    out: str | Path,
    data_dir: str | Path | None = None,
    place: Place = Place(),
) -> dict[str, Any]:
    """Run a recipe into the folder `out` and return its summary: what `idiolect run` does.

    `settings` are `path.to.key=value` strings. A run that was interrupted goes on. Clients work at the `place`.
    """
    from idiolect.results.execute import run_recipe

    folder = None if data_dir is None else Path(data_dir)
    return run_recipe(load_recipe(recipe, list(settings)), Path(out), data_dir=folder, place=place)


def learn(
    problem: Problem,
    algorithm: str = "persa_fl_me",
    *,
    objective: Mapping[str, Any] | None = None,
    protocol: Mapping[str, Any] | None = None,
    local_steps: int | None = None,
    step_size: float = 0.01,
    batch_size: int = 32,
    step_rule: StepRule = StepRule(),
    network: Network = Network(),
    topology: Wire = erdos_renyi(probability=0.3),
    links: Links = Links(),
    timeline: Timeline | Rounds | None = None,
    horizon: float = 200.0,
    points: int = 10,
    budget: Budget = Budget(),
    screening: Screening = Screening(),
    attack: Attack | None = None,
    seed: int = 0,
) -> Result:
    """Run one algorithm (a name of the catalog, or `objective+protocol`) on a problem, in virtual time.

    With a server, `network` decides when clients work; without one, `topology` and `links` do, and a round is a unit of
    time. A `timeline` made by hand takes their place. A server screens what arrives; `attack` makes some clients lie.
    """
    chosen = catalog.algorithm(
        algorithm,
        problem,
        objective=objective,
        protocol=protocol,
        local_steps=local_steps,
        step_size=step_size,
        batch_size=batch_size,
        step_rule=step_rule,
        screening=screening,
        attack=attack,
    )
    table: Timeline | Rounds
    if isinstance(chosen.protocol, Peer):
        table = _rounds(timeline, topology, links, len(problem.clients.participating), int(horizon), seed)
        check_graph(table.graph, chosen)
        horizon = float(table.length)
    else:
        table = _turns(timeline, network, chosen, problem, horizon, seed)
        horizon = horizon if timeline is None else float(table.arrived.max())
    cell_ = catalog.cell(algorithm)
    optimum = problem.optimum(cell_.objective, catalog.objective_options(cell_, objective or {}), batch_size)
    setting = Setting(np.linspace(0, horizon, points + 1).tolist(), budget, OWN)
    with Workers() as workers:
        cell = Cell(problem.clients, table, seed, optimum)
        return run_cell(prepare_cell(problem, chosen, budget), cell, setting, workers)


def _turns(
    given: Timeline | Rounds | None, network: Network, algorithm: Algorithm, problem: Problem, horizon: float, seed: int
) -> Timeline:
    """The timeline of an algorithm with a server: the given one, or one drawn from the network."""
    assert isinstance(algorithm.protocol, Protocol)
    participating = problem.clients.participating
    if given is None:
        return draw_timeline(network, participating, algorithm.protocol.schedule, horizon=horizon, seed=seed)
    if isinstance(given, Rounds):
        raise UserMistake(f"timeline is a table of rounds between agents, but {algorithm.name} has a server")
    return check_timeline(given, algorithm, participating)


def _rounds(given: Timeline | Rounds | None, wire: Wire, links: Links, agents: int, horizon: int, seed: int) -> Rounds:
    """The rounds of an algorithm without a server: the given ones, or drawn from the links."""
    if given is None:
        return draw_rounds(links, wire(agents, np.random.default_rng([seed, 1])), horizon, seed)
    if not isinstance(given, Rounds):
        raise UserMistake(
            "timeline is a table of turns with a server, but this algorithm has none; make it with rounds()"
        )
    if given.graph.agents != agents:
        raise UserMistake(f"timeline has {given.graph.agents} agents, but {agents} clients take part in training")
    return given
