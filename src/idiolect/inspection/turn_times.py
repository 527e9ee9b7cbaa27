"""What a turn, a round and an evaluation take, from a few of them on the engine.

A turn of many local steps is tried with a few steps first. Where these tell that whole turns would take long, the steps
stand for them: a turn then counts as so many times its steps, and what else belongs to it is counted too often.
"""

import time

import jax
import numpy as np

from idiolect.contracts import Problem
from idiolect.engines import Program, Snapshot, Workers, simulate
from idiolect.engines.serverless import Lane, PeerProgram, simulate_peers
from idiolect.evaluation.scoring import scored_split
from idiolect.evaluation.scoring_clients import evaluate
from idiolect.experiments.evaluation_plan import EvaluationPlan
from idiolect.experiments.preparing import Prepared, prepare_cell
from idiolect.network import Timeline
from idiolect.network.round_tables import Rounds

_SECONDS = 1.0  # of turns to watch, about
_TURNS = 400  # to watch, at most
_MANY = 50  # local steps of a turn, from which on a few are tried first
_STEPS = 2  # that then stand for it, if it takes long


def watch_turns(
    prepared: Prepared, problem: Problem, table: Timeline, plan: EvaluationPlan, workers: Workers, seed: int
) -> tuple[Snapshot, float, float]:
    """What the first turns of the timeline came to, the seconds for compiling, and those for one turn."""
    algorithm = prepared.program.algorithm
    if algorithm.epochs is None and algorithm.local_steps >= _MANY:
        few = prepare_cell(problem, algorithm._replace(local_steps=_STEPS), plan.budget)
        snapshot, compiling, each = _watch_whole_turns(few, problem, table, workers, seed)
        whole = each * algorithm.local_steps / _STEPS
        if whole > _SECONDS:
            return snapshot, compiling, whole
    return _watch_whole_turns(prepared, problem, table, workers, seed)


def _watch_whole_turns(
    prepared: Prepared, problem: Problem, table: Timeline, workers: Workers, seed: int
) -> tuple[Snapshot, float, float]:
    """The same of turns with all of their steps."""
    program = prepared.program
    assert isinstance(program, Program)

    def run(turns: int) -> tuple[Snapshot, float]:
        part, began = Timeline(*(column[:turns] for column in table)), time.perf_counter()
        times = [float(part.arrived.max())]
        *_, last = simulate(program, problem.clients, part, workers, seed=seed, times=times)
        jax.block_until_ready(last.params)  # type: ignore[no-untyped-call]
        return last, time.perf_counter() - began

    few = min(2 * workers.count, table.turns)
    _, first = run(few)
    snapshot, again = run(few)
    if again < _SECONDS:  # what is quick is tried more often, since others may be at work
        again = min(again, run(few)[1], run(few)[1])
    each = again / max(int(table.delivered[:few].sum()), 1)
    more = int(min(_TURNS, table.turns, few * _SECONDS / max(again, 1e-9)))
    extra = int(table.delivered[few:more].sum())
    if extra:
        snapshot, longer = run(more)
        if longer > again:
            each = (longer - again) / extra  # what it takes to begin a run is in both
    return snapshot, max(0.0, first - again), each


def watch_rounds(
    prepared: Prepared, problem: Problem, table: Rounds, workers: Workers, seed: int
) -> tuple[Snapshot, float, float]:
    """The same of rounds without a server: seconds for one round of one seed."""
    program = prepared.program
    assert isinstance(program, PeerProgram)
    pauses = [2**k for k in range(10) if 2**k <= table.length]
    shown = simulate_peers(program, [Lane(problem.clients, table, seed)], workers, times=pauses)
    stamps, snapshot = [time.perf_counter()], None
    for done, snapshots in zip(pauses, shown, strict=True):
        snapshot = snapshots[0]
        snapshot.check()
        stamps.append(time.perf_counter())
        if done > 1 and stamps[-1] - stamps[-2] > _SECONDS / 2:
            break
    assert snapshot is not None, "a run has at least one round"
    rounds = pauses[len(stamps) - 2] // 2 or 1
    each = (stamps[-1] - stamps[-2]) / rounds
    return snapshot, max(0.0, stamps[1] - stamps[0] - each), each


def watch_scores(
    prepared: Prepared, problem: Problem, snapshot: Snapshot, plan: EvaluationPlan, workers: Workers, seed: int
) -> tuple[float, float]:
    """The seconds for compiling, and those for scoring one client."""

    def run(clients: int) -> tuple[int, float]:
        budget, began = plan.budget._replace(at_most=clients), time.perf_counter()
        found = evaluate(prepared.score, prepared.metrics, problem.clients, snapshot, budget, workers, seed=seed)
        return len(found), time.perf_counter() - began

    few = min(2 * workers.count, scored(problem, plan))
    _, first = run(few)
    count, again = run(few)
    return max(0.0, first - again), again / count


def scored(problem: Problem, plan: EvaluationPlan) -> int:
    """How many clients are scored at a time."""
    has, unseen = scored_split(problem.clients, plan.budget).sizes > 0, np.zeros(problem.clients.total, bool)
    unseen[list(problem.clients.unseen)] = True
    groups = [int((has & ~unseen).sum()), int((has & unseen).sum())]
    most = plan.budget.at_most
    return sum(count if most is None else min(count, most) for count in groups)
