"""The backend on Ray for an algorithm with a server: turns go to where the client's data is, several in a message.

A message costs Ray the same whether it brings one small turn or eight. So turns wait for others that go to the same
actor, but never so long that it could run out of work: two full batches are there while a third fills up, and what is
needed, or would be the last that an actor has, is sent at once. A version of a model that is small goes with the turns,
once in a message; a large one is put into Ray's store, once for all that receive it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from idiolect.contracts import Clients
from idiolect.engines.backend import LOOK_AHEAD, Job, Pending, dealt
from idiolect.engines.ray.actor import Errand
from idiolect.engines.ray.actor_pool import ActorPool, Patience, failed_put, failed_send
from idiolect.engines.ray.packing import Packed, leaves_of, packed, unpacked
from idiolect.engines.simulator.server_program import Program, Turn, training_key
from idiolect.trees import bytes_of

BATCHES = 3  # for each actor: one that it computes, one that waits there, one that fills up here
WIDEST, WIDEST_LARGE = 8, 2  # turns in a message, of small models and of large ones
SMALL = 64 * 1024  # bytes of a model that goes with its turn; Ray's store would cost more than the copies
REMEMBERED = 4  # large versions of the model that need not be put anew


class RayBackend:
    """The pool at work on one algorithm and one seed."""

    def __init__(self, pool: ActorPool, program: Program, clients: Clients, seed: int) -> None:
        self.pool, self._program, self._clients, self._seed = pool, program, clients, seed
        homes = dealt(clients.participating, pool.count)
        self._small = bytes_of(jax.eval_shape(program.init, jax.random.key(seed))) <= SMALL
        self.width = width_for(len(homes[-1]), self._small)
        self.count, self.ahead = len(homes), max(LOOK_AHEAD, BATCHES * self.width) * len(homes)
        self._homes = {client: number for number, members in enumerate(homes) for client in members}
        self._filling = [TurnBatch(self, number) for number in range(len(homes))]
        self._sent = [0] * len(homes)  # turns that actors have, as far as is known here
        self._stored: dict[int, Any] = {}  # large versions that lie in Ray's store
        self._structures: dict[Any, Any] = {}  # of what a turn returns, by that of what a client keeps

    def submit(self, job: Job) -> "RayPending":
        """Put a turn into the batch that fills up for where the client's data is."""
        batch = self._filling[self._homes[job.client]]
        batch.jobs.append(job)
        place = RayPending(batch, len(batch.jobs) - 1, self._structure(job))
        if len(batch.jobs) == self.width:
            self.send(batch)
        return place

    def ready(self, pending: Mapping[int, Pending], seconds: float) -> list[int]:
        """Which of these have come back; wait for the first of them, but no longer than this."""
        turns = {number: turn for number, turn in pending.items() if isinstance(turn, RayPending)}
        if there := [number for number, turn in turns.items() if turn.batch.there]:
            return there
        batches = {turn.batch for turn in turns.values()}
        for batch in batches:
            self.send(batch)
        self.keep_busy()
        refs = {batch.ref: batch for batch in batches}
        found, silent = self.pool.ray.wait(list(refs), num_returns=1, timeout=seconds, fetch_local=True)
        for ref in silent:  # whoever has not answered for too long is replaced
            refs[ref].look_after()
        for ref in found:
            refs[ref].collect()
        return [number for number, turn in turns.items() if turn.batch.there]

    def keep_busy(self) -> None:
        """Before the run waits: send what has gathered for actors that may soon have nothing to do."""
        for batch, sent in zip(list(self._filling), self._sent, strict=True):
            if batch.jobs and sent <= self.width:
                self.send(batch)

    def send(self, batch: "TurnBatch") -> None:
        """Send a batch, however full, unless that has been done."""
        if batch is self._filling[batch.home]:
            self._filling[batch.home] = TurnBatch(self, batch.home)
            self._sent[batch.home] += len(batch.jobs)
            batch.go(self._message(batch.jobs))

    def arrived(self, batch: "TurnBatch") -> None:
        """An actor has done these."""
        self._sent[batch.home] -= len(batch.jobs)

    def _message(self, jobs: list[Job]) -> tuple[Any, ...]:
        offers = {job.version: job.offer for job in jobs}
        places = {version: place for place, version in enumerate(offers)}
        kept, stored = [leaves_of(job.personal) for job in jobs], list[Any]()
        if self._small:
            kept += [leaves_of(offer) for offer in offers.values()]
        else:
            stored = [self._put(version, offer) for version, offer in offers.items()]
        clients, numbers = tuple(job.client for job in jobs), tuple(job.turn for job in jobs)
        which = tuple(places[job.version] for job in jobs)
        return Errand(self._program.algorithm.name, self._seed, clients, numbers, which, packed(kept)), *stored

    def _put(self, version: int, offer: Any) -> Any:
        if version not in self._stored:
            if len(self._stored) == REMEMBERED:
                del self._stored[next(iter(self._stored))]
            try:
                self._stored[version] = self.pool.ray.put(packed([leaves_of(offer)]))
            except self.pool.ray.exceptions.RayError as reason:
                raise failed_put(reason) from None
        return self._stored[version]

    def _structure(self, job: Job) -> Any:
        kind = jax.tree.structure(job.personal)
        if kind not in self._structures:
            shard, key = self._clients.train.shard(job.client), training_key(self._seed)
            turn = jax.eval_shape(self._program.turn, job.personal, job.offer, shard, key, np.int32(0))
            self._structures[kind] = jax.tree.structure(turn)
        return self._structures[kind]


def width_for(members: int, small: bool) -> int:
    """How many turns go in a message to an actor with so many clients, so that it has two messages while one fills up.

    Example:
        >>> from idiolect.engines.ray.turn_backend import width_for
        >>> [width_for(members, small=True) for members in (2, 10, 1000)]
        [1, 3, 8]
    """
    return min(max(1, members // BATCHES), WIDEST if small else WIDEST_LARGE)


class TurnBatch:
    """Turns that travel together, to an actor and back."""

    def __init__(self, backend: RayBackend, home: int) -> None:
        self.home, self.jobs, self.found = home, list[Job](), list[list[np.ndarray]]()
        self._backend, self._pool = backend, backend.pool
        self.ref: Any = None

    @property
    def there(self) -> bool:
        """Have they come back?"""
        return bool(self.found)

    def go(self, message: tuple[Any, ...]) -> None:
        """Send them."""
        turns = " and ".join(f"turn {job.turn} of client {job.client}" for job in self.jobs)
        self._message, self._patience = message, Patience(self._pool, self.home, f"over {turns}")
        self._ask()

    def look_after(self) -> None:
        """Send them to another actor if this one has been silent for too long."""
        if not self.there and self._patience.overdue:
            self.collect()

    def collect(self) -> bool:
        """Wait a little for the answer; if the actor has died or is silent, send the work to one in its place."""
        if not self.there:
            self._backend.send(self)
            self._backend.keep_busy()
            answer: Packed | None = self._patience.answer(self.ref)
            if answer is not None:
                # A copy, or else what clients keep would fill Ray's store.
                self.found = unpacked(Packed(answer.kinds, np.array(answer.bytes)))
                self._backend.arrived(self)
                self.jobs, self._message = [], ()
            elif self._patience.again:
                self._ask()
        return self.there

    def _ask(self) -> None:
        actor = self._patience.begin()
        try:
            self.ref = actor.turns.remote(*self._message)
        except self._pool.ray.exceptions.RayError as reason:
            raise failed_send(reason) from None


class RayPending(NamedTuple):
    """A turn under way on an actor."""

    batch: TurnBatch
    number: int
    structure: Any

    def done(self) -> bool:
        """Is it there? An actor that has died, or is silent, is replaced meanwhile."""
        return self.batch.collect()

    def result(self) -> Turn:
        """What the client sends, once it is there."""
        while not self.batch.collect():
            pass
        turn: Turn = jax.tree.unflatten(self.structure, self.batch.found[self.number])
        return turn
