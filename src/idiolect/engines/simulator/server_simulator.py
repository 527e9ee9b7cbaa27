"""The simulator of protocols with a server: runs them over a timeline in virtual time, on one machine.

What a client computes between a download and its upload depends on nothing else. So the simulator starts outstanding
turns ahead of time, on all cores, in the order in which the server will need them; what each turn returns, and so every
result, does not depend on how many run at once. `stepwise_server` is the same fold with nothing clever in it.
"""

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Clients, Params, PyTree
from idiolect.engines.backend import Backend, Job, Pending, ThreadBackend
from idiolect.engines.checkpointing import Checkpoint, Tick
from idiolect.engines.screening import shapes_of, tally
from idiolect.engines.simulator.health import check_health, check_model
from idiolect.engines.simulator.server_program import Arrival, Program, chosen_model, open_server, take_in
from idiolect.engines.snapshot import Snapshot
from idiolect.engines.tree_store import MemoryBudget, TreeStore
from idiolect.engines.workers import Workers
from idiolect.network.event_blocks import event_blocks
from idiolect.network.recorder import TimelineRecorder
from idiolect.network.timelines import ARRIVAL, CLOSE, Timeline
from idiolect.trees import as_tensors, fill, names_of

CHECK_EVERY = 64  # updates between two looks at whether most of them can still be used
MOMENT = 0.5  # seconds to wait for a turn before the run looks up


def simulate(
    program: Program,
    clients: Clients,
    table: Timeline,
    backend: Backend | Workers,
    *,
    seed: int,
    times: Sequence[float],
    tick: Tick = lambda time, save: None,
    saved: Checkpoint | None = None,
    memory: MemoryBudget = MemoryBudget(),
) -> Iterator[Snapshot]:
    """Run the program over the timeline and pause at each of the `times`.

    Args:
        program: From `prepare`.
        clients: Who holds what.
        table: Who works when.
        backend: Computes the turns of clients; for threads of this process, the workers are enough.
        seed: Of the start and the batches.
        times: When to pause, in virtual time.
        tick: Hears of every event, and can ask for what would have to be saved to go on after it.
        saved: A checkpoint to go on from.
        memory: How much of what clients keep and have received lies in memory; the rest lies on disk.

    Returns:
        An iterator that runs until the next pause, and gives a snapshot.

    Example:
        >>> from idiolect import Algorithm, objectives, protocols, timeline
        >>> from idiolect.engines import Workers, prepare, simulate
        >>> from idiolect.problems.synthetic import quadratics
        >>> problem = quadratics(clients=2, dimension=2)
        >>> program = prepare(problem, Algorithm("mine", objectives.plain(), protocols.asynchronous(), local_steps=1))
        >>> table = timeline([0, 1, 0], offered=[1.0, 1.0, 3.0], arrived=[2.0, 5.0, 4.0])
        >>> with Workers(1) as workers:
        ...     first = next(simulate(program, problem.clients, table, workers, seed=0, times=[0.5, 6.0]))
        >>> first.updates
        0
    """
    if isinstance(backend, Workers):
        backend = ThreadBackend(program, clients, backend, seed)
    fold, pauses, begin = Fold(program, clients, table, backend, seed, memory), sorted(times), 0
    if saved is not None:
        fold.restore(saved)
        begin, pauses = saved.facts["events"], pauses[saved.facts["pauses"] :]
    for done, (time, kind, turn, age) in enumerate(_events(table, program, begin), start=begin + 1):
        while pauses and time > pauses[0]:
            yield fold.snapshot(pauses.pop(0))
        if kind == ARRIVAL:
            for _ in fold.waiting_for(turn):  # whoever asks the run to stop is heard
                tick(time, partial(fold.saved, done - 1, len(times) - len(pauses)))
            fold.arrival(turn, np.float32(age))
        elif kind == CLOSE:
            fold.close()
        elif table.delivered[turn]:  # a client that drops out leaves nothing behind
            fold.offer(turn)
        tick(time, partial(fold.saved, done, len(times) - len(pauses)))
    fold.check(over=True)
    for time in pauses:
        yield fold.snapshot(time)


def _events(table: Timeline, program: Program, begin: int) -> Iterator[tuple[float, int, int, float]]:
    """The events from this one on: time, kind, turn, and how many versions late what arrives is."""
    for block in event_blocks(table, program.protocol.schedule.updates_per_step):
        if begin < len(block.time):
            yield from zip(*(column[begin:].tolist() for column in block), strict=True)
        begin = max(0, begin - len(block.time))


class Fold:
    """The state of a run: the server's, the clients', and the turns under way."""

    def __init__(
        self,
        program: Program,
        clients: Clients,
        table: Timeline | TimelineRecorder,
        backend: Backend,
        seed: int,
        memory: MemoryBudget,
    ) -> None:
        self._program, self._table, self._backend = program, table, backend
        self._key = jax.random.key(seed)
        protocol, params = program.protocol, program.init(self._key)
        self._server = protocol.server
        self._ledger = open_server(program, params, len(clients.participating), clients.total)
        self._expected = shapes_of(protocol.sends(self._server.offer(self._ledger.server)))
        self._adapt = clients.adapt
        self._crowd = len(np.unique(table.client)) or len(clients.participating)  # nobody knows yet who will come
        half = memory._replace(bytes=memory.bytes // 2)
        self._personal, self._offers = (
            TreeStore(half),
            TreeStore(half),
        )  # of clients; of versions that some turn still needs
        self._turns: dict[int, int] = {}  # those under way: which version they were offered
        self._needed: Counter[int] = Counter()  # how many turns under way need a version
        self._waiting: list[tuple[float, int]] = []  # offered, not yet computed, soonest needed first
        self._before: dict[int, PyTree] = {}  # what the clients had whose turns are running
        self.running: dict[int, Pending] = {}
        self._version, self._updates = 0, 0

    def rehearse(self, members: Sequence[int]) -> None:
        """Let each of these clients take a turn that counts for nothing, so that everything is compiled."""
        offer = self._server.offer(self._ledger.server)
        jobs = [Job(-1, client, self._program.work.init(offer, client, self._key), -1, offer) for client in members]
        for job, turn in [(job, self._backend.submit(job)) for job in jobs]:
            arrival = Arrival(np.int32(-1), np.int32(job.client), np.float32(0))
            server_state = jax.tree.map(jnp.copy, self._ledger)  # absorbing overwrites some of what it is given
            self._program.absorb(server_state, job.personal, turn.result(), arrival)

    def offer(self, turn: int) -> None:
        """A client receives the model as it is."""
        if self._version not in self._offers:
            self._offers[self._version] = self._server.offer(self._ledger.server)
        self._under_way(turn, self._version)
        self._start_some()

    def waiting_for(self, turn: int) -> Iterator[None]:
        """The moments until a turn is computed, at each of which the run can be saved as it is."""
        while turn not in self.running:
            self._start_next()
        while not self.running[turn].done() and turn not in self._backend.ready({turn: self.running[turn]}, MOMENT):
            yield

    def arrival(self, turn: int, age: np.float32) -> None:
        """The server absorbs what comes of a turn, so many versions late."""
        result, client = self.running.pop(turn).result(), np.int32(self._table.client[turn])
        self._forget(self._turns.pop(turn))
        before = self._before.pop(turn)
        self._start_some()
        arrival = Arrival(np.int32(turn), client, age)
        self._ledger, kept = take_in(self._program, self._ledger, before, result, arrival, self._expected)
        if jax.tree.leaves(kept):
            self._personal[int(client)] = kept
        self._version, self._updates = self._version + 1, self._updates + 1
        if self._updates % CHECK_EVERY == 0:
            self.check()

    def check(self, *, over: bool = False) -> None:
        """Stop a run that has gone wrong."""
        check_health(self._ledger, self._program, self._table, self._crowd, over=over)

    def close(self) -> None:
        """A round is over."""
        self._version, self._ledger = self._version + 1, self._program.close(self._ledger)

    def saved(self, events: int, pauses: int) -> Checkpoint:
        """All that cannot be computed again: turns under way are kept as what was offered."""
        leaves = names_of("server_state", self._ledger._replace(totals={})) | names_of("totals", self._ledger.totals)
        for client, state in self._personal.items():
            leaves |= names_of(f"client{client}", state)
        for version, offer in self._offers.items():
            leaves |= names_of(f"offer{version}", offer)
        facts = {
            "events": events,
            "pauses": pauses,
            "version": self._version,
            "updates": self._updates,
            "totals": list(self._ledger.totals),
            "clients": list(self._personal),
            "offers": {str(turn): version for turn, version in self._turns.items()},
        }
        return Checkpoint(facts, as_tensors(leaves))

    def restore(self, saved: Checkpoint) -> None:
        """Go on from there."""
        facts, tensors, server_state = saved.facts, saved.tensors, self._ledger
        totals = fill("totals", dict.fromkeys(facts["totals"], 0.0), tensors)
        first = self._server.offer(server_state.server)
        self._ledger = fill("server_state", server_state, tensors)._replace(totals=totals)
        for client in facts["clients"]:
            self._personal[client] = fill(f"client{client}", self._program.work.init(first, client, self._key), tensors)
        self._version, self._updates = facts["version"], facts["updates"]
        for version in set(facts["offers"].values()):
            self._offers[version] = fill(f"offer{version}", first, tensors)
        for turn, version in facts["offers"].items():
            self._under_way(int(turn), version)
        self._start_some()

    def snapshot(self, time: float) -> Snapshot:
        """The run at this time."""
        self.check()
        check_model(self._ledger, self._program, time)
        count, refusals = int(self._ledger.told), tally(self._ledger.watch)
        means = {name: float(total) / count for name, total in self._ledger.totals.items() if count}
        self._ledger = self._ledger._replace(totals={}, told=jnp.int32(0))
        work, personal, offer = self._program.work, self._personal.seen_now(), self._server.offer(self._ledger.server)

        def state(client: int) -> PyTree:
            return personal[client] if client in personal else work.init(offer, client, self._key)

        def model(client: int) -> Params:
            return chosen_model(self._program, state(client), offer, self._adapt.shard(client), self._key)

        def own(client: int) -> PyTree:
            return work.own(state(client))

        params = self._server.read(self._ledger.server)
        groups = () if work.choose is None else offer
        return Snapshot(time, self._updates, params, model, personal, own, means, refusals=refusals, groups=groups)

    def _under_way(self, turn: int, version: int) -> None:
        self._turns[turn], self._needed[version] = version, self._needed[version] + 1
        heapq.heappush(self._waiting, (float(self._table.arrived[turn]), turn))

    def _forget(self, version: int) -> None:
        self._needed[version] -= 1
        if not self._needed[version]:
            del self._offers[version], self._needed[version]

    def _start_some(self) -> None:
        while self._waiting and len(self.running) < self._backend.ahead:
            self._start_next()

    def _start_next(self) -> None:
        needed, turn = heapq.heappop(self._waiting)
        client, version = int(self._table.client[turn]), self._turns[turn]
        offer = self._offers[version]
        fresh = client not in self._personal
        personal = self._program.work.init(offer, client, self._key) if fresh else self._personal[client]
        self._before[turn] = personal
        self.running[turn] = self._backend.submit(Job(turn, client, personal, version, offer, needed))
