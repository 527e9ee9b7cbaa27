"""Estimate of the seconds and the memory of a run, from a few turns that are really taken.

An estimate, not a promise. Time: a few client turns and a few evaluations of every algorithm run on the real engine, on
the first seed's data and timeline, and again: the first time tells what compiling takes, the others what a turn takes.
Times the numbers of turns and evaluations of the whole run, times the seeds. What is not in it: references, pictures,
exports, checkpoints, and whatever else the machine has to do meanwhile.
`idiolect.inspection.turn_times` takes these turns.

Memory: what this process has needed at most so far (interpreter, compiler, data, working memory of the turns it took),
plus what only a whole run holds: what clients keep between turns, and models that are under way.
"""

import math
import time
from typing import NamedTuple

import jax
import numpy as np

from idiolect.contracts import Algorithm, Problem
from idiolect.engines import LOOK_AHEAD, Program, Workers
from idiolect.engines.serverless import Lane, PeerProgram
from idiolect.engines.serverless.layout import build_layout, first_models, first_own
from idiolect.engines.side_by_side import Batching, batching_of
from idiolect.engines.tree_store import MemoryBudget
from idiolect.errors import Diverged, Refused
from idiolect.experiments.building import BuiltSeed
from idiolect.experiments.evaluation_plan import EvaluationPlan, plan_evaluation
from idiolect.experiments.preparing import Prepared, prepare_cell
from idiolect.experiments.value import Experiment
from idiolect.inspection.peak_memory import peak_bytes
from idiolect.inspection.turn_times import scored, watch_rounds, watch_scores, watch_turns
from idiolect.network import Timeline
from idiolect.network.round_tables import Rounds, oldest, taken_in
from idiolect.trees import bytes_of

_ASKED = 4  # clients who show how much a client keeps


class Cost(NamedTuple):
    """What one algorithm takes, on all seeds together where nothing else is said."""

    label: str
    updates: int  # of one seed
    compile_seconds: float  # once
    turn_seconds: float  # of one update, with all cores at work
    score_seconds: float  # of one client at one evaluation, likewise
    seconds: float
    kept_bytes: int  # by all clients of one seed between their turns, or by agents and links without a server
    flying_bytes: int  # of models under way and turns computed ahead, at most
    stopped: str = ""  # why it could not be watched, if it could not
    batching: Batching | None = None  # how many turns a run computes at once; None without a server


class Estimate(NamedTuple):
    """What a whole run takes."""

    data_bytes: int
    model_bytes: int
    algorithms: list[Cost]
    process_bytes: int | None  # what this process has needed so far, at most; None where the system does not tell
    budget_bytes: int  # beyond which what clients keep goes to disk
    seeds: int
    cores: int
    share: float  # of one core that this process got meanwhile; well below 1 if others kept the machine busy

    @property
    def seconds(self) -> float:
        """All algorithms on all seeds."""
        return sum(cost.seconds for cost in self.algorithms)

    @property
    def memory_bytes(self) -> int:
        """At the most demanding algorithm; without the process itself where the system does not tell what it needs."""
        begun = self.data_bytes + self.model_bytes if self.process_bytes is None else self.process_bytes
        return begun + max(min(c.kept_bytes + c.flying_bytes, self.budget_bytes) for c in self.algorithms)

    @property
    def disk_bytes(self) -> int:
        """What would not fit into memory, at the most demanding algorithm."""
        return max(0, max(c.kept_bytes + c.flying_bytes for c in self.algorithms) - self.budget_bytes)


def estimate(experiment: Experiment, built: BuiltSeed) -> Estimate:
    """Watch a few turns of every algorithm on one seed of an experiment, and reckon what all of them take."""
    plan, problem, seed, seeds = plan_evaluation(experiment), built.problem, built.seed, list(experiment.seeds)
    began, worked = time.perf_counter(), time.process_time()
    with Workers() as workers:
        costs = [
            _cost(label, problem, cell.algorithm, cell.table, plan, workers, seeds)
            for label, cell in built.cells.items()
        ]
        cores = workers.count
    share = (time.process_time() - worked) / (time.perf_counter() - began)
    model = jax.eval_shape(problem.init, jax.random.key(seed))
    stores = {id(leaf): leaf for part in problem.clients[:4] for leaf in jax.tree.leaves(part.rows)}
    return Estimate(
        bytes_of(list(stores.values())),
        bytes_of(model),
        costs,
        peak_bytes(),
        MemoryBudget().bytes,
        len(seeds),
        cores,
        share,
    )


def _cost(
    label: str,
    problem: Problem,
    algorithm: Algorithm,
    table: Timeline | Rounds,
    plan: EvaluationPlan,
    workers: Workers,
    seeds: list[int],
) -> Cost:
    prepared = prepare_cell(problem, algorithm, plan.budget)
    try:
        if isinstance(table, Rounds):
            snapshot, compiling, each = watch_rounds(prepared, problem, table, workers, seeds[0])
            kept, flying = _peer_bytes(prepared, problem, table, seeds[0]) * len(seeds), 0
            # Seeds go side by side, as many as there are workers.
            updates, length = int(table.awake.sum()), table.length * math.ceil(len(seeds) / workers.count)
        else:
            snapshot, compiling, each = watch_turns(prepared, problem, table, plan, workers, seeds[0])
            kept, flying = _server_bytes(prepared, problem, table, workers, seeds[0])
            updates = int(table.delivered.sum())
            length = updates * len(seeds)
        more, score = watch_scores(prepared, problem, snapshot, plan, workers, seeds[0])
    except (Diverged, Refused) as reason:
        return Cost(label, _updates(table), 0.0, 0.0, 0.0, 0.0, 0, 0, str(reason))
    scores = len(plan.times) * scored(problem, plan) * len(seeds)
    seconds = compiling + more + each * length + score * scores
    turn = each * table.length / max(updates, 1) if isinstance(table, Rounds) else each
    program = prepared.program
    batching = batching_of(program, seeds[0]) if isinstance(program, Program) else None
    return Cost(label, updates, compiling + more, turn, score, seconds, kept, flying, batching=batching)


def _updates(table: Timeline | Rounds) -> int:
    return int(table.awake.sum() if isinstance(table, Rounds) else table.delivered.sum())


def _server_bytes(
    prepared: Prepared, problem: Problem, table: Timeline, workers: Workers, seed: int
) -> tuple[int, int]:
    """What all clients keep, and what is under way at most: models offered, and turns computed ahead."""
    program = prepared.program
    assert isinstance(program, Program)
    server, members = program.protocol.server, problem.clients.participating
    key = jax.random.key(seed)
    offer = server.offer(server.init(program.init(key), len(members)))
    asked = members[:: max(1, len(members) // _ASKED)]
    each = float(np.mean([bytes_of(program.work.init(offer, client, key)) for client in asked]))
    versions = 1 if program.protocol.schedule.rounds else most_at_once(table)
    ahead = min(LOOK_AHEAD * workers.count, most_at_once(table))
    return int(each * len(np.unique(table.client))), int(versions * bytes_of(offer) + ahead * (bytes_of(offer) + each))


def most_at_once(table: Timeline) -> int:
    """How many turns are under way at the busiest moment; one that ends when another begins makes room for it."""
    begun = np.searchsorted(np.sort(table.offered), np.sort(table.offered), side="right")
    ended = np.searchsorted(np.sort(table.arrived), np.sort(table.offered), side="right")
    return int((begun - ended).max())


def _peer_bytes(prepared: Prepared, problem: Problem, table: Rounds, seed: int) -> int:
    """What agents and links hold, and the table they follow."""
    program = prepared.program
    assert isinstance(program, PeerProgram)
    lanes = [Lane(problem.clients, table, seed)]
    start = first_models(lanes[0], program.init(jax.random.key(seed)))
    with jax.enable_x64(True):
        layout = build_layout(program.algorithm, lanes, start, program.peer.carries == "sums")
        own = first_own(program.algorithm, lanes, [start])
        ring = 1 + oldest(table, taken_in(table))
        state = jax.eval_shape(lambda p, o, w: program.open(p, o, w, ring), start, own, layout)
        return bytes_of(state) + bytes_of(layout)
