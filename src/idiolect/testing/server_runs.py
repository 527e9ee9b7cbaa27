"""One algorithm with a server on small clients, ready to be run in every way that must not matter."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from idiolect.contracts import Algorithm, Clients, Objective, Params, Problem, PyTree
from idiolect.engines import Program, Snapshot, Workers, prepare, simulate
from idiolect.engines.checkpointing import Checkpoint, Tick
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
    ) -> list[Snapshot]:
        """Snapshots of the fast engine, by default one at the end."""
        where, when = clients or self.problem.clients, table or self.table
        return list(simulate(self.program, where, when, workers, seed=seed, times=times, tick=tick, saved=saved))

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
    for client in problem.clients.participating:
        oracle, kept = problem.oracle(problem.clients.train.shard(client), 200), own(client)
        used = objective.adapt(oracle, kept, model(client), key).params if jax.tree.leaves(kept) else model(client)
        losses.append(float(oracle.value(used, key)))
    return float(np.mean(losses))
