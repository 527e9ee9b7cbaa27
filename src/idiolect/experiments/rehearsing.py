"""Rehearsals: while one algorithm runs, the functions of the next ones are compiled on a thread of its own.

An algorithm is rehearsed by a turn, a score and a closed round that count for nothing, so that all it will call is
compiled as it will be called. Compiling happens outside of the interpreter; where there is one core only, it would do
no more than take turns with the run, and nobody rehearses. Whatever goes wrong in a rehearsal goes wrong again in the
run itself, and is told there.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial

import jax
import numpy as np

from idiolect.contracts import Clients
from idiolect.engines import Program, Workers
from idiolect.engines.backend import Job
from idiolect.engines.side_by_side import threads
from idiolect.engines.simulator.server_program import Arrival, open_server
from idiolect.engines.simulator.server_simulator import Fold
from idiolect.engines.tree_store import MemoryBudget
from idiolect.evaluation.scores import Budget
from idiolect.evaluation.scoring_clients import evaluate
from idiolect.experiments.preparing import Prepared
from idiolect.network import Timeline

Awaited = Callable[[str], None]  # returns when an algorithm has been rehearsed, or is not going to be


@contextmanager
def rehearsing(
    prepared: Mapping[str, tuple[Prepared, Timeline]], clients: Clients, budget: Budget, seed: int, cores: int
) -> Iterator[Awaited]:
    """Rehearse algorithms in this order, as long as the context lasts."""
    if cores < 2 or jax.local_device_count() > 1:
        yield lambda label: None
        return
    pool, begun, judges = ThreadPoolExecutor(2, thread_name_prefix="rehearsal"), dict[str, list[Future[None]]](), set()
    for label, (one, table) in prepared.items():
        begun[label] = [pool.submit(_quietly, partial(_rehearse_turns, one, clients, seed))]
        if id(one.score) not in judges:
            judges.add(id(one.score))
            begun[label].append(pool.submit(_quietly, partial(_rehearse_scores, one, clients, table, budget, seed)))

    def awaited(label: str) -> None:
        for rehearsal in begun.pop(label, []):
            rehearsal.result()

    try:
        yield awaited
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _quietly(rehearse: Callable[[], None]) -> None:
    with suppress(Exception):
        rehearse()


def _rehearse_turns(prepared: Prepared, clients: Clients, seed: int) -> None:
    program, key, client = prepared.program, jax.random.key(seed), clients.participating[0]
    assert isinstance(program, Program)
    state = open_server(program, program.init(key), len(clients.participating), clients.total)
    offer = program.protocol.server.offer(state.server)
    personal = program.work.init(offer, client, key)
    with Workers(1) as workers:
        turn = threads(program, clients, workers, seed).submit(Job(0, client, personal, 0, offer)).result()
    state, _ = program.absorb(state, personal, turn, Arrival(np.int32(0), np.int32(client), np.float32(0)))
    if program.protocol.schedule.rounds:
        program.close(state)


def _rehearse_scores(prepared: Prepared, clients: Clients, table: Timeline, budget: Budget, seed: int) -> None:
    program, few = prepared.program, budget._replace(at_most=1)
    assert isinstance(program, Program)
    with Workers(1) as workers:
        backend = threads(program, clients, workers, seed)
        snapshot = Fold(program, clients, table, backend, seed, MemoryBudget()).snapshot(0.0)
        evaluate(prepared.score, prepared.metrics, clients, snapshot, few, workers, seed=seed)
