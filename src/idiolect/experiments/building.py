"""Builds the parts of an experiment: the problem, the algorithms and the timelines of a seed, each once."""

import json
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from idiolect import catalog
from idiolect.contracts import Algorithm, Params, Peer, Problem, Protocol, Schedule, Sharing
from idiolect.errors import UserMistake
from idiolect.experiments.recipe_tables import NamedAlgorithm
from idiolect.experiments.value import Experiment, Line
from idiolect.network.drawn_timelines import draw_counted, draw_timeline
from idiolect.network.round_files import read_rounds
from idiolect.network.round_tables import Rounds, check_weights
from idiolect.network.timelines import NO_ROUND, UNWRITTEN, Timeline, read_timeline
from idiolect.network.topologies import Topology
from idiolect.network.unreliable_links import draw_rounds
from idiolect.options import make
from idiolect.refusals import advice_on
from idiolect.registry import Choice
from idiolect.sharing import private_leaves


class BuiltCell(NamedTuple):
    """An algorithm on one seed: its timeline, and the minimiser it should find, where that is known."""

    algorithm: Algorithm
    table: Timeline | Rounds
    optimum: Params | None
    kind: Hashable  # what those without a server have in common that can run as one batch


class BuiltSeed(NamedTuple):
    """One seed of an experiment: its problem, and its algorithms by label."""

    seed: int
    problem: Problem
    cells: Mapping[str, BuiltCell]
    advice: list[str]  # what theory would warn of


def build_seed(experiment: Experiment, seed: int, data_dir: Path | None = None, *, timelines: bool = True) -> BuiltSeed:
    """Build all parts of a seed, so that a mistake in the last one does not cost the work of the others.

    Without `timelines`, where the time of a real clock will tell.
    """
    problem = build_problem(experiment, seed, data_dir)
    some, cells, advice = problem.clients.train.shard(problem.clients.participating[0]), {}, list(problem.notes)
    for label, line in zip(experiment.labels, experiment.lines, strict=True):
        algorithm = build_algorithm(experiment, line, problem)
        problem.oracle(some, algorithm.batch_size)  # a problem may refuse a batch size
        advice += advice_on(algorithm, problem)
        table = build_timeline(experiment, algorithm, problem, seed) if timelines else UNWRITTEN
        optimum = problem.optimum(algorithm.objective, algorithm.batch_size)
        cells[label] = BuiltCell(algorithm, table, optimum, _kind(line, algorithm))
    problem.oracle(some, experiment.evaluation.batch_size)
    _check_evaluation(experiment, problem)
    return BuiltSeed(seed, problem, cells, advice)


def _check_evaluation(experiment: Experiment, problem: Problem) -> None:
    evaluation = experiment.evaluation
    split = evaluation.split
    if not getattr(problem.clients, split).sizes[problem.clients.participating].any():
        raise UserMistake(f"evaluation.split is '{split}', but no participating client has any {split} samples")
    if evaluation.tunes:
        private_leaves(jax.eval_shape(problem.init, jax.random.key(0)), evaluation.tunes, "evaluation.tunes")
    if evaluation.neighbours is not None and (problem.classifier is None or problem.also):
        raise UserMistake(
            f"evaluation.neighbours is given, but the problem {problem.name} does not say which features its model has "
            "and is scored by accuracy alone; leave it out, or give the problem a classifier"
        )
    for name in evaluation.references:
        if name not in problem.references:
            known = ", ".join(problem.references) or "none"
            raise UserMistake(f"evaluation.references has '{name}', but the problem {problem.name} knows {known}")
    for name, members in evaluation.groups.items():
        if max(members) >= problem.clients.total:
            raise UserMistake(
                f"evaluation.groups.{name} has client {max(members)}, but clients are 0 to {problem.clients.total - 1}"
            )


def build_problem(experiment: Experiment, seed: int, data_dir: Path | None = None) -> Problem:
    """The experiment's problem; the seed decides who holds what, unless the problem is a value of one's own."""
    source = experiment.problem
    if isinstance(source, Choice):
        found = make(catalog.PROBLEMS, "problem", source, seed=seed, data_dir=data_dir)
    else:
        found = source if isinstance(source, Problem) else source(seed)
    if not isinstance(found, Problem):
        raise UserMistake(f"problem gives {type(found).__name__} for seed {seed}, but must give an idiolect.Problem")
    return found


def build_algorithm(experiment: Experiment, line: Line, problem: Problem) -> Algorithm:
    """One of the experiment's algorithms: a record of one's own as it is, a named one with its options and training."""
    if isinstance(line, Algorithm):
        return catalog.finished(line, problem, experiment.attack)
    return catalog.algorithm(
        line.name,
        problem,
        objective=line.objective,
        protocol=line.protocol,
        label=line.label,
        screening=experiment.screening,
        attack=line.attack or experiment.attack,
        sharing=sharing_of(line),
        **line.training.over(experiment.training),
    )


def sharing_of(line: NamedAlgorithm) -> Sharing:
    """Which part of its model stays with the client: as the algorithm has it, unless the line says otherwise."""
    told = {name: getattr(line, name) for name in Sharing._fields}
    return catalog.cell(line.name).sharing._replace(
        **{name: value for name, value in told.items() if value is not None}
    )


def _kind(line: Line, algorithm: Algorithm) -> Hashable:
    """What algorithms without a server have in common that can run as one batch: all but numbers."""
    family = algorithm.objective.family
    if family is None or not isinstance(line, NamedAlgorithm):
        return algorithm.name
    protocol = (catalog.cell(line.name).protocol, json.dumps(line.protocol, sort_keys=True))
    return protocol, family.name, algorithm.local_steps, algorithm.epochs, algorithm.batch_size


def build_timeline(experiment: Experiment, algorithm: Algorithm, problem: Problem, seed: int) -> Timeline | Rounds:
    """The experiment's own timeline, or one drawn from its network; alike for all algorithms with the same schedule."""
    participating = problem.clients.participating
    if isinstance(algorithm.protocol, Peer):
        return _build_rounds(experiment, algorithm, len(participating), seed)
    schedule, given = algorithm.protocol.schedule, experiment.timeline
    if given is None:
        if experiment.rounds is None:
            return draw_timeline(experiment.network, participating, schedule, horizon=experiment.horizon, seed=seed)
        schedule = _with_rounds(algorithm, experiment.rounds)
        return draw_counted(experiment.network, participating, schedule, rounds=experiment.rounds, seed=seed)
    if isinstance(given, Rounds):
        raise UserMistake(f"timeline is a table of rounds between agents, but {algorithm.name} has a server")
    table = given if isinstance(given, Timeline) else read_timeline(Path(given))
    table = check_timeline(table, algorithm, participating)
    if table.arrived.max() > experiment.horizon:
        raise UserMistake(f"horizon is {experiment.horizon:g}, but the timeline goes on until {table.arrived.max():g}")
    return table


def _with_rounds(algorithm: Algorithm, rounds: int) -> Schedule:
    """The schedule of an algorithm that is to work in rounds; where nothing is shared, everybody does so alone."""
    assert isinstance(algorithm.protocol, Protocol)
    schedule = algorithm.protocol.schedule
    if schedule.rounds or not algorithm.protocol.shares:
        return schedule._replace(rounds=True)
    raise UserMistake(
        f"rounds is {rounds}, but {algorithm.name} has none: its clients come and go, each in its own time; give "
        "horizon instead, in virtual time"
    )


def _build_rounds(experiment: Experiment, algorithm: Algorithm, agents: int, seed: int) -> Rounds:
    if experiment.horizon != int(experiment.horizon):
        raise UserMistake(
            f"horizon is {experiment.horizon:g}, but {algorithm.name} works in rounds, and needs a whole number"
        )
    table = _given_rounds(experiment, agents, seed) or draw_rounds(
        experiment.links, build_graph(experiment, agents, seed), int(experiment.horizon), seed
    )
    check_graph(table.graph, algorithm)
    assert isinstance(algorithm.protocol, Peer)
    # Bounds keep weights away from zero.
    lawless = experiment.timeline is not None or "unbounded" in experiment.links
    if lawless and algorithm.protocol.carries == "sums":
        check_weights(table)
    return table


def _given_rounds(experiment: Experiment, agents: int, seed: int) -> Rounds | None:
    given = experiment.timeline
    if given is None:
        return None
    if isinstance(given, Timeline):
        raise UserMistake(
            "timeline is a table of turns with a server, but this algorithm has none; make it with rounds()"
        )
    if isinstance(given, str):
        return read_rounds(Path(given), build_graph(experiment, agents, seed), int(experiment.horizon))
    if given.graph.agents != agents:
        raise UserMistake(f"timeline has {given.graph.agents} agents, but {agents} clients take part in training")
    return given


def build_graph(experiment: Experiment, agents: int, seed: int) -> Topology:
    """Who can send to whom on this seed."""
    chosen = experiment.topology
    wire = make(catalog.TOPOLOGIES, "topology", chosen) if isinstance(chosen, Choice) else chosen
    graph: Topology = wire(agents, np.random.default_rng([seed, 1]))
    return graph


def check_graph(graph: Topology, algorithm: Algorithm) -> None:
    """Refuse a directed graph where the protocol averages over undirected ones."""
    if isinstance(algorithm.protocol, Peer) and algorithm.protocol.carries == "copies" and not graph.undirected:
        raise UserMistake(
            f"{algorithm.name} averages along links that go both ways, but the topology has links that go one way "
            "only; choose star, grid, complete, random_regular or a ring that is not directed"
        )


def check_timeline(table: Timeline, algorithm: Algorithm, participating: list[int]) -> Timeline:
    """Refuse a timeline that names other clients, or that has no rounds where the protocol needs them."""
    assert isinstance(algorithm.protocol, Protocol)
    strangers = np.setdiff1d(table.client, participating)
    if len(strangers):
        raise UserMistake(
            f"the timeline names client {strangers[0]}, who does not take part in this problem's training"
        )
    if algorithm.protocol.schedule.rounds and (table.round == NO_ROUND).any():
        raise UserMistake(f"{algorithm.name} works in rounds, but the timeline has turns without a round number")
    if not algorithm.protocol.schedule.rounds and (table.round != NO_ROUND).any():
        raise UserMistake(f"{algorithm.name} knows no rounds, but the timeline has a round column; leave it out")
    schedule, held = algorithm.protocol.schedule, np.unique(table.round[table.delivered], return_counts=True)
    most = schedule.cohort(len(participating))
    if schedule.cohort_only and (held[1] > most).any():
        raise UserMistake(
            f"{algorithm.name} holds {most} updates a round (protocol.participation of {len(participating)} clients), "
            f"but round {held[0][np.argmax(held[1])]} of the timeline delivers {held[1].max()}"
        )
    return table


def is_serverless(line: Line) -> bool:
    """Does this algorithm do without a server?"""
    return isinstance(line.protocol, Peer) if isinstance(line, Algorithm) else catalog.serverless(line.name)
