"""The compiled functions of an experiment's algorithms: what each has for itself, and what several share."""

from collections.abc import Callable
from typing import NamedTuple

from idiolect.contracts import Algorithm, Metric, Origin, Params, Peer, Problem, Scene, Shard
from idiolect.engines import Program, prepare
from idiolect.engines.serverless import PeerProgram, prepare_peers
from idiolect.engines.workers import compile_for_clients
from idiolect.evaluation.scores import Budget
from idiolect.evaluation.scoring import Adapter, adapter
from idiolect.evaluation.scoring_clients import GroupScorer, group_scorer
from idiolect.experiments.building import BuiltSeed


class Prepared(NamedTuple):
    """An algorithm compiled for a kind of problem, to be run on any clients and any seed."""

    program: Program | PeerProgram
    score: GroupScorer
    adapt: Adapter
    metrics: tuple[Metric, ...]
    scene: Callable[[Params, Shard], Scene] | None
    origin: Origin | None


Judges = dict[tuple[int, int], tuple[GroupScorer, Adapter]]  # by the two functions of an objective that matter to them


def prepare_cell(problem: Problem, algorithm: Algorithm, budget: Budget, judges: Judges | None = None) -> Prepared:
    """Compile an algorithm and its evaluation, once for all seeds; with `judges`, also for others that adapt alike."""
    serverless, objective = isinstance(algorithm.protocol, Peer), algorithm.objective
    program = prepare_peers(problem, algorithm) if serverless else prepare(problem, algorithm)
    judges, kind = {} if judges is None else judges, (id(objective.whole), id(objective.adapt))
    if kind not in judges:
        judges[kind] = group_scorer(problem, objective, budget), adapter(problem, objective, budget)
    scene = None if problem.scene is None else compile_for_clients(problem.scene)
    return Prepared(program, *judges[kind], problem.metrics, scene, problem.origin)


def prepare_cells(built: BuiltSeed, budget: Budget) -> dict[str, Prepared]:
    """All algorithms of an experiment, by label; those that adapt alike are scored by one program."""
    judges: Judges = {}
    return {label: prepare_cell(built.problem, cell.algorithm, budget, judges) for label, cell in built.cells.items()}
