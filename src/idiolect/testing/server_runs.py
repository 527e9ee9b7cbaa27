"""One algorithm with a server on small clients, ready to be run in every way that must not matter."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from idiolect.contracts import Algorithm, Clients, Objective, Params, Problem, PyTree, Shard
from idiolect.engines import Program, Snapshot, Workers, prepare, simulate
from idiolect.engines.checkpointing import Checkpoint, Tick
from idiolect.engines.side_by_side import SideBySide
from idiolect.network import Network, draw_timeline
from idiolect.network.timelines import Timeline

HORIZON = 60.0


class ServerCell(NamedTuple):
    """A compiled algorithm, its problem, and when clients work."""

    problem: Problem
    program: Program
    table: Timeline

    @property
    def name(self) -> str:
        """What the algorithm is called."""
        return self.program.algorithm.name

    def run(
        self,
        workers: Workers,
        *,
        seed: int = 0,
        times: Sequence[float] = (HORIZON,),
        clients: Clients | None = None,
        table: Timeline | None = None,
        tick: Tick = lambda time, save: None,
        saved: Checkpoint | None = None,
        width: int = 1,
    ) -> list[Snapshot]:
        """Snapshots of the fast engine, by default one at the end; with so many turns side by side."""
        where, when = clients or self.problem.clients, table or self.table
        backend = workers if width == 1 else SideBySide(self.program, where, workers, seed, width)
        return list(simulate(self.program, where, when, backend, seed=seed, times=times, tick=tick, saved=saved))

    def loss(self, snapshot: Snapshot) -> float:
        """The mean training loss of the clients."""
        return mean_loss(self.problem, self.program.algorithm.objective, snapshot.model, snapshot.own)


def server_cell(problem: Problem, algorithm: Algorithm, *, dropout: float = 0.1) -> ServerCell:
    """Compile (on first call) an algorithm, and draw a timeline on which some turns come to nothing."""
    program = prepare(problem, algorithm)
    table = a_timeline(problem, program, dropout=dropout)
    return ServerCell(problem, program, table)


def a_timeline(problem: Problem, program: Program, *, seed: int = 0, dropout: float = 0.1) -> Timeline:
    """When clients work, as the protocol's schedule has it."""
    network, schedule = Network(dropout=dropout), program.protocol.schedule
    return draw_timeline(network, problem.clients.participating, schedule, horizon=HORIZON, seed=seed)


def mean_loss(
    problem: Problem, objective: Objective, model: Callable[[int], Params], own: Callable[[int], PyTree]
) -> float:
    """The training loss of the model each client would start from, or has of its own, averaged over clients."""
    losses, key = [], jax.random.key(0)

    @jax.jit  # or its loops would be compiled for each client
    def adapted(shard: Shard, kept: PyTree, params: Params) -> Params:
        return objective.adapt(problem.oracle(shard, 200), kept, params, key).params

    for client in problem.clients.participating:
        shard, kept = problem.clients.train.shard(client), own(client)
        used = adapted(shard, kept, model(client)) if jax.tree.leaves(kept) else model(client)
        losses.append(float(problem.oracle(shard, 200).value(used, key)))
    return float(np.mean(losses))
