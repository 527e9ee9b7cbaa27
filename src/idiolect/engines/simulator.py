"""The embedded engine: folds a protocol over a timeline in virtual time, on one machine.

What a client computes between a download and its upload depends on nothing else. So the simulator starts outstanding
turns ahead of time, on all cores, in the order in which the server will need them; what each turn returns, and so every
result, does not depend on how many run at once. `idiolect.engines.stepwise` is the same fold with nothing clever in it.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Clients, Params, PyTree
from idiolect.engines.health import check_health, check_model
from idiolect.engines.program import Arrival, Program, Turn, open_ledger, take_in, training_key
from idiolect.engines.snapshot import Snapshot
from idiolect.engines.workers import Workers
from idiolect.network.timeline import ARRIVAL, CLOSE, Timeline, events, staleness
from idiolect.screening import shapes_of, tally

CHECK_EVERY = 64  # updates between two looks at whether most of them can still be used
LOOK_AHEAD = 8  # turns computed ahead of need, per worker: enough to keep cores busy, little enough to hold in memory


def simulate(
    program: Program,
    clients: Clients,
    table: Timeline,
    workers: Workers,
    *,
    seed: int,
    times: Sequence[float],
    tick: Callable[[float], None] = lambda time: None,
) -> Iterator[Snapshot]:
    """Run the program over the timeline and pause at each of the `times`.

    `tick` hears the virtual time of every event.
    """
    fold = _Fold(program, clients, table, workers, seed)
    pauses = sorted(times)
    for event in events(table):
        while pauses and event.time > pauses[0]:
            yield fold.snapshot(pauses.pop(0))
        tick(event.time)
        if event.kind == ARRIVAL:
            fold.arrival(event.turn)
        elif event.kind == CLOSE:
            fold.close()
        else:
            fold.offer(event.turn)
    fold.check(over=True)
    for time in pauses:
        yield fold.snapshot(time)


class _Fold:
    """The state of a simulation: the server's, the clients', and the turns under way."""

    def __init__(self, program: Program, clients: Clients, table: Timeline, workers: Workers, seed: int) -> None:
        self._program, self._clients, self._table, self._workers = program, clients, table, workers
        protocol, params = program.protocol, program.init(jax.random.key(seed))
        self._server, self._key = protocol.server, training_key(seed)
        self._ledger = open_ledger(program, params, len(clients.participating), clients.total)
        self._expected, self._crowd = shapes_of(self._server.offer(self._ledger.server)), len(np.unique(table.client))
        self._personal: dict[int, PyTree] = {}
        self._staleness = staleness(table, protocol.schedule.updates_per_step).astype(np.float32)
        self._waiting: list[tuple[float, int, PyTree]] = []  # offered, not yet computed, soonest needed first
        self._running: dict[int, tuple[PyTree, Future[Turn]]] = {}  # what the client had before, and what it will send
        self._updates = 0

    def offer(self, turn: int) -> None:
        if self._table.delivered[turn]:  # a client that drops out leaves nothing behind
            heapq.heappush(self._waiting, (self._table.arrived[turn], turn, self._server.offer(self._ledger.server)))
            self._start_some()

    def arrival(self, turn: int) -> None:
        while turn not in self._running:
            self._start_next()
        before, future = self._running.pop(turn)
        result, client = future.result(), self._table.client[turn]
        self._start_some()
        arrival = Arrival(np.int32(turn), client, self._staleness[turn])
        self._ledger, kept = take_in(self._program, self._ledger, before, result, arrival, self._expected)
        if jax.tree.leaves(kept):
            self._personal[int(client)] = kept
        self._updates += 1
        if self._updates % CHECK_EVERY == 0:
            self.check()

    def check(self, *, over: bool = False) -> None:
        check_health(self._ledger, self._program, self._table, self._crowd, over=over)

    def close(self) -> None:
        self._ledger = self._program.close(self._ledger)

    def snapshot(self, time: float) -> Snapshot:
        self.check()
        check_model(self._ledger, self._program, time)
        count, refusals = int(self._ledger.told), tally(self._ledger.watch)
        means = {name: float(total) / count for name, total in self._ledger.totals.items() if count}
        self._ledger = self._ledger._replace(totals={}, told=jnp.int32(0))
        work, personal, offer = self._program.work, dict(self._personal), self._server.offer(self._ledger.server)

        def state(client: int) -> PyTree:
            return personal[client] if client in personal else work.init(offer, client)

        def model(client: int) -> Params:
            return work.model(state(client), offer)

        def own(client: int) -> PyTree:
            return work.own(state(client))

        params = self._server.read(self._ledger.server)
        return Snapshot(time, self._updates, params, model, personal, own, means, refusals=refusals)

    def _start_some(self) -> None:
        while self._waiting and len(self._running) < LOOK_AHEAD * self._workers.count:
            self._start_next()

    def _start_next(self) -> None:
        _, turn, offer = heapq.heappop(self._waiting)
        client = int(self._table.client[turn])
        personal = self._personal[client] if client in self._personal else self._program.work.init(offer, client)
        args = (personal, offer, self._clients.train.shard(client), self._key, np.int32(turn))
        self._running[turn] = personal, self._workers.submit(self._program.turn, *args)
