"""What one peer needs of an experiment and a graph: its agent, and its scores on its own data."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from idiolect.contracts import Algorithm, Peer, Problem
from idiolect.deploy.own_rows import at_place, own_problem
from idiolect.deploy.peers.agent import Agent, agent_at
from idiolect.deploy.peers.agent_program import CATCH_UP, AgentProgram, compile_agent
from idiolect.deploy.peers.agent_state import AgentState
from idiolect.deploy.peers.graph_files import PeerGraph
from idiolect.deploy.peers.letters import Neighbours
from idiolect.errors import UserMistake
from idiolect.evaluation.scores import OWN
from idiolect.evaluation.scoring import Scorer, adaptation_key, scored_split, scorer
from idiolect.experiments.building import build_algorithm, build_problem, check_graph
from idiolect.experiments.describing import describe
from idiolect.experiments.evaluation_plan import EvaluationPlan, plan_evaluation
from idiolect.experiments.value import Experiment

Score = Callable[[AgentState], dict[str, float]]


class PeerSetup(NamedTuple):
    """One peer, ready to run: its agent, what tells its disk from others, when and how it is scored."""

    place: Neighbours
    agent: Agent
    owner: str
    horizon: int
    plan: EvaluationPlan
    score: Score


class OwnRows(NamedTuple):
    """Which peer brings its own rows, and what `--data` calls them."""

    peer: str
    data: str


class Rules(NamedTuple):
    """What a network of peers runs: one algorithm without a server, on one seed, compiled for whichever peer."""

    problem: Problem
    algorithm: Algorithm
    seed: int
    horizon: int
    program: AgentProgram
    plan: EvaluationPlan
    scorer: Scorer


def network_rules(
    experiment: Experiment,
    graph: PeerGraph,
    label: str | None,
    data_dir: Path | None = None,
    own: OwnRows | None = None,
) -> Rules:
    """The algorithm that a network runs, if it can: the one of this label, or the experiment's only one."""
    seed, horizon = experiment.seeds[0], experiment.horizon
    if label is None and len(experiment.labels) > 1:
        raise UserMistake(f"the recipe has {', '.join(experiment.labels)}; say which to run with --algorithm")
    if label is not None and label not in experiment.labels:
        raise UserMistake(f"--algorithm is '{label}', but the recipe has {', '.join(experiment.labels)}")
    line = experiment.lines[experiment.labels.index(label) if label else 0]
    problem = _problem(experiment, graph, seed, data_dir, own)
    algorithm = build_algorithm(experiment, line, problem)
    if not isinstance(algorithm.protocol, Peer):
        raise UserMistake(f"{algorithm.name} has a server; peers need an algorithm without one, such as pars_push")
    if horizon != int(horizon):
        raise UserMistake(f"horizon is {horizon:g}, but peers work in rounds, and need a whole number")
    members = len(problem.clients.participating)
    if members != len(graph.names):
        raise UserMistake(f"the graph has {len(graph.names)} peers, but {members} clients take part in training")
    if experiment.start is not None:
        raise UserMistake("the recipe has a [start], but peers begin with the model that the recipe draws")
    check_graph(graph.topology, algorithm)
    peer = algorithm.protocol
    capped = peer if peer.catch_up is not None else peer._replace(catch_up=CATCH_UP)
    algorithm, plan = algorithm._replace(protocol=capped), plan_evaluation(experiment)
    program = compile_agent(problem, algorithm, len(graph.names))
    scores = scorer(problem, algorithm.objective, plan.budget)
    return Rules(problem, algorithm, seed, int(horizon), program, plan, scores)


def _problem(
    experiment: Experiment, graph: PeerGraph, seed: int, data_dir: Path | None, own: OwnRows | None
) -> Problem:
    """The recipe's problem; a peer that brings its own rows has those, and those of the others are with them."""
    if own is None:
        return build_problem(experiment, seed, data_dir)
    problem = own_problem(own.data, experiment, seed, data_dir)
    number = graph.place(own.peer).number
    return problem._replace(clients=at_place(problem.clients, number, len(graph.names)))


def set_up_peer(experiment: Experiment, graph: PeerGraph, name: str, rules: Rules) -> PeerSetup:
    """Build one peer of a network."""
    place = graph.place(name)
    agent = agent_at(rules.program, place, seed=rules.seed, horizon=rules.horizon)
    owner = _owner(experiment, graph, rules.algorithm.name, name)
    return PeerSetup(place, agent, owner, rules.horizon, rules.plan, _scores(rules, place, agent))


def _scores(rules: Rules, place: Neighbours, agent: Agent) -> Score:
    """What a peer scores on its own test part, after each number of steps on its own adaptation part."""
    clients, budget = rules.problem.clients, rules.plan.budget
    client, columns = clients.participating[place.number], (*map(str, budget.steps), OWN)
    shards = (clients.adapt.shard(client), scored_split(clients, budget).shard(client))

    def score(state: AgentState) -> dict[str, float]:
        if not int(shards[1].size):
            return {}
        found = rules.scorer(agent.model(state), state.own, *shards, adaptation_key(rules.seed))
        return dict(zip(columns, np.asarray(found, float)[0].tolist(), strict=True))

    return score


def _owner(experiment: Experiment, graph: PeerGraph, label: str, name: str) -> str:
    """What tells this peer's disk from all others; where peers listen may change."""
    what: list[Any] = [describe(experiment), graph.name, graph.names, graph.links, label, name]
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()
