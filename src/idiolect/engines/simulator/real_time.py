"""The engine with a real clock: the server applies updates as they arrive, and writes down when they did.

Every worker of the backend serves its clients one after the other, each time on the model of that moment; nobody waits
for anybody. Turns are numbered as they are offered and every event has a time of its own, so that the simulator, on the
timeline that was written down, does the same again. The clock stands still while the server scores or saves.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from idiolect.contracts import Clients
from idiolect.engines.backend import Backend, dealt
from idiolect.engines.checkpointing import Checkpoint, Tick
from idiolect.engines.simulator.server_program import Program
from idiolect.engines.simulator.server_simulator import Fold
from idiolect.engines.snapshot import Snapshot
from idiolect.engines.tree_store import MemoryBudget
from idiolect.network.recorder import Clock, TimelineRecorder

HEARTBEAT = 0.2  # seconds after which the server looks up, even if nothing has arrived


def run_in_real_time(
    program: Program,
    clients: Clients,
    backend: Backend,
    *,
    seed: int,
    times: Sequence[float],
    tick: Tick = lambda time, save: None,
    saved: Checkpoint | None = None,
    memory: MemoryBudget = MemoryBudget(),
    read: Callable[[], float] = time.perf_counter,
) -> Iterator[Snapshot]:
    """Run the program until the last of the `times`, in seconds, and pause at each of them. The last has the timeline.

    Args:
        program: From `prepare`.
        clients: Who holds what.
        backend: Computes the turns of clients.
        seed: Of the start and the batches.
        times: When to pause, in seconds; the run ends at the last of them.
        tick: Hears of every event, and can ask for what would have to be saved to go on after it.
        saved: A checkpoint to go on from.
        memory: How much of what clients keep and have received lies in memory.
        read: Tells seconds; the system's by default.

    Returns:
        An iterator that runs until the next pause, and gives a snapshot.

    Example:
        >>> import inspect
        >>> from idiolect import Algorithm, objectives, protocols
        >>> from idiolect.engines import ThreadBackend, Workers, prepare, run_in_real_time
        >>> from idiolect.problems.synthetic import quadratics
        >>> problem = quadratics(clients=2, dimension=2)
        >>> program = prepare(problem, Algorithm("mine", objectives.plain(), protocols.asynchronous(), local_steps=1))
        >>> with Workers(1) as workers:
        ...     backend = ThreadBackend(program, problem.clients, workers, seed=0)
        ...     snapshots = run_in_real_time(program, problem.clients, backend, seed=0, times=[1.0, 60.0])
        >>> inspect.isgenerator(snapshots)  # the clock starts when the first is asked for
        True
    """
    recorder, pauses, horizon = TimelineRecorder(), sorted(times), max(times)
    fold = Fold(program, clients, recorder, backend, seed, memory)
    fold.rehearse([members[0] for members in dealt(clients.participating, backend.count)])
    if saved is not None:
        recorder.restore(saved.tensors)
        fold.restore(saved)
        pauses = pauses[saved.facts["pauses"] :]
    rota, per_step = _Rota(clients.participating, backend.count, recorder), program.protocol.schedule.updates_per_step
    clock = Clock(0.0 if saved is None else saved.facts["seconds"], read)

    def save() -> Checkpoint:
        facts, tensors = fold.saved(len(recorder.client), len(times) - len(pauses))
        return Checkpoint({**facts, "seconds": clock.last}, {**tensors, **recorder.tensors()})

    while (now := clock.now()) < horizon:
        for client in rota.free():
            if (now := clock.now()) < horizon:
                fold.offer(recorder.offer(client, now))
        found = backend.ready(fold.running, max(0.0, min(pauses[0] - now, HEARTBEAT)))
        now = clock.now()
        with clock.stopped():
            while now > pauses[0] and pauses[0] < horizon:
                yield fold.snapshot(pauses.pop(0))
        if found and now < horizon:
            turn = found[0]
            fold.arrival(turn, np.float32(recorder.arrival(turn, now, per_step)))
            rota.back(recorder.client[turn])
        with clock.stopped():
            tick(now, save)
    fold.check(over=True)
    *rest, last = pauses
    yield from map(fold.snapshot, rest)
    yield fold.snapshot(last)._replace(table=recorder.table(horizon))


class _Rota:
    """Whose turn it is at each place: whoever has waited longest, as soon as the place is free."""

    def __init__(self, clients: list[int], count: int, recorder: TimelineRecorder) -> None:
        places = dealt(clients, count)
        latest = {client: turn for turn, client in enumerate(recorder.client)}
        away = {recorder.client[turn] for turn in recorder.under_way}
        self._place = {client: place for place, members in enumerate(places) for client in members}
        self._busy = Counter(self._place[client] for client in away)
        self._queues = [
            deque(sorted((c for c in members if c not in away), key=lambda client: latest.get(client, -1)))
            for members in places
        ]

    def free(self) -> Iterator[int]:
        """The next client of every place that has nothing to do."""
        for place, queue in enumerate(self._queues):
            if queue and not self._busy[place]:
                self._busy[place] += 1
                yield queue.popleft()

    def back(self, client: int) -> None:
        """This client has finished its turn."""
        self._busy[self._place[client]] -= 1
        self._queues[self._place[client]].append(client)
