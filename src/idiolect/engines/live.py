"""The engine with a real clock: the server applies updates as they arrive, and writes down when they did.

Every member of the crew works for its clients one after the other, each time on the model of that moment; nobody waits
for anybody. Turns are numbered as they are offered and every event has a time of its own, so that the simulator, on the
timeline that was written down, does the same again. The clock stands still while the server scores or saves.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from idiolect.contracts import Clients
from idiolect.engines.crew import Crew, dealt
from idiolect.engines.program import Program
from idiolect.engines.shelf import Room
from idiolect.engines.simulator import Fold
from idiolect.engines.snapshot import Snapshot
from idiolect.network.diary import Clock, Diary
from idiolect.saving import Pulse, Saved

HEARTBEAT = 0.2  # seconds after which the server looks up, even if nothing has arrived


def live(
    program: Program,
    clients: Clients,
    crew: Crew,
    *,
    seed: int,
    times: Sequence[float],
    pulse: Pulse = lambda time, save: None,
    saved: Saved | None = None,
    room: Room = Room(),
    read: Callable[[], float] = time.perf_counter,
) -> Iterator[Snapshot]:
    """Run the program until the last of the `times`, in seconds, and pause at each of them. The last has the timeline.

    `pulse`, `saved` and `room` are as for the simulator; `read` tells seconds, the system's by default.
    """
    diary, pauses, horizon = Diary(), sorted(times), max(times)
    fold = Fold(program, clients, diary, crew, seed, room)
    fold.rehearse([members[0] for members in dealt(clients.participating, crew.count)])
    if saved is not None:
        diary.restore(saved.tensors)
        fold.restore(saved)
        pauses = pauses[saved.facts["pauses"] :]
    rota, per_step = _Rota(clients.participating, crew.count, diary), program.protocol.schedule.updates_per_step
    clock = Clock(0.0 if saved is None else saved.facts["seconds"], read)

    def save() -> Saved:
        facts, tensors = fold.saved(len(diary.client), len(times) - len(pauses))
        return Saved({**facts, "seconds": clock.last}, {**tensors, **diary.tensors()})

    while (now := clock.now()) < horizon:
        for client in rota.free():
            if (now := clock.now()) < horizon:
                fold.offer(diary.offer(client, now))
        found = crew.ready(fold.running, max(0.0, min(pauses[0] - now, HEARTBEAT)))
        now = clock.now()
        with clock.stopped():
            while now > pauses[0] and pauses[0] < horizon:
                yield fold.snapshot(pauses.pop(0))
        if found and now < horizon:
            turn = found[0]
            fold.arrival(turn, np.float32(diary.arrival(turn, now, per_step)))
            rota.back(diary.client[turn])
        with clock.stopped():
            pulse(now, save)
    fold.check(over=True)
    *rest, last = pauses
    yield from map(fold.snapshot, rest)
    yield fold.snapshot(last)._replace(table=diary.table(horizon))


class _Rota:
    """Whose turn it is at each place: whoever has waited longest, as soon as the place is free."""

    def __init__(self, clients: list[int], count: int, diary: Diary) -> None:
        places = dealt(clients, count)
        latest = {client: turn for turn, client in enumerate(diary.client)}
        away = {diary.client[turn] for turn in diary.under_way}
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
