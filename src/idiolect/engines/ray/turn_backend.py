"""The backend on Ray for an algorithm with a server: turns go to where the client's data is, several in a message.

A message costs Ray the same whether it brings one small turn or eight. So turns wait here for others that go to the
same actor, until they are worth a message by the time that its last ones took, but never so long that it could run out
of work: what is needed is sent at once, and whoever has no more than one batch left gets another before the run waits.
Turns that are needed sooner go first. So no actor is ever far ahead on what can wait, while another has nothing to do.

A version of a model that is small goes with the turns, once in a message; a large one is put into Ray's store, once for
all that receive it.
"""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import jax
import numpy as np

from idiolect.contracts import Clients
from idiolect.engines.backend import LOOK_AHEAD, Job, Pending, dealt
from idiolect.engines.ray.actor import Errand
from idiolect.engines.ray.actor_pool import LOOK, ActorPool, Patience, failed_put, failed_send
from idiolect.engines.ray.packed_arrays import Packed, leaves_of, packed, unpacked
from idiolect.engines.simulator.server_program import Program, Turn, training_key
from idiolect.trees import bytes_of

BATCHES = 3  # for each actor: one that it computes, one that waits there, one that gathers here
WIDEST, WIDEST_LARGE = 8, 2  # turns in a message, of small models and of large ones
WORTH = 0.01  # seconds of work that are worth a message
SMALL = 64 * 1024  # bytes of a model that goes with its turn; Ray's store would cost more than the copies
REMEMBERED = 4  # large versions of the model that need not be put anew


class RayBackend:
    """The pool at work on one algorithm and one seed."""

    def __init__(self, pool: ActorPool, program: Program, clients: Clients, seed: int) -> None:
        self.pool, self._program, self._clients, self._seed = pool, program, clients, seed
        homes = dealt(clients.participating, pool.count)
        self._small = bytes_of(jax.eval_shape(program.init, jax.random.key(seed))) <= SMALL
        self.widest = width_for(len(homes[-1]), self._small)
        self.count, self.ahead = len(homes), max(LOOK_AHEAD, BATCHES * self.widest) * len(homes)
        self._homes = [_Home(number, self.widest) for number in range(len(homes))]
        self._home_of = {client: self._homes[number] for number, members in enumerate(homes) for client in members}
        self._order = count()
        self._under_way: dict[Any, TurnBatch] = {}  # by what Ray calls their answers
        self._stored: dict[int, Any] = {}  # large versions that lie in Ray's store
        self._structures: dict[Any, Any] = {}  # of what a turn returns, by that of what a client keeps

    def submit(self, job: Job) -> "RayPending":
        """Put a turn among those that wait to be sent to where the client's data is."""
        home, turn = self._home_of[job.client], RayPending(self, job, self._structure(job))
        heapq.heappush(home.waiting, (job.needed, next(self._order), turn))
        if len(home.waiting) >= home.width >= home.sent:
            self._send(home)
        return turn

    def ready(self, pending: Mapping[int, Pending], seconds: float) -> list[int]:
        """Which of these have come back; wait for the first of them, but no longer than this."""
        turns = {number: turn for number, turn in pending.items() if isinstance(turn, RayPending)}
        for turn in turns.values():
            self.send_until(turn)
        self.keep_busy()
        if there := [number for number, turn in turns.items() if turn.there]:
            return there
        self.collect_first(seconds)
        return [number for number, turn in turns.items() if turn.there]

    def collect_first(self, seconds: float) -> None:
        """Wait for the first answer of any actor, but no longer than this.

        Of any: whoever has answered may have no more to do, while another is still at what the run waits for.
        """
        found, silent = self.pool.ray.wait(list(self._under_way), num_returns=1, timeout=seconds, fetch_local=True)
        for ref in silent:  # whoever has not answered for too long is replaced
            self._again(ref, self._under_way[ref].look_after)
        for ref in found:
            self._again(ref, self._under_way[ref].collect)

    def _again(self, ref: Any, ask: Callable[[], object]) -> None:
        """Ask a batch for its answer; it is under way no more, or under another name if its actor was replaced."""
        batch = self._under_way.pop(ref)
        ask()
        if not batch.found:
            self._under_way[batch.ref] = batch

    def keep_busy(self) -> None:
        """Before the run waits: send something to all that may soon have nothing to do."""
        for home in self._homes:
            if home.waiting and home.sent <= home.width:
                self._send(home)

    def send_until(self, turn: "RayPending") -> None:
        """Send what is needed before this turn, and this turn."""
        while turn.batch is None:
            self._send(self._home_of[turn.job.client])

    def _send(self, home: "_Home") -> None:
        turns = [heapq.heappop(home.waiting)[2] for _ in range(min(len(home.waiting), home.width))]
        home.sent += len(turns)
        jobs = [turn.job for turn in turns]
        batch = TurnBatch(self.pool, home, jobs, self._message(jobs))
        self._under_way[batch.ref] = batch
        for number, turn in enumerate(turns):
            turn.batch, turn.number = batch, number

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


@dataclass
class _Home:
    """An actor, as the run sees it: turns that wait to be sent to it, how many it has, and how many go in a message."""

    number: int
    widest: int
    waiting: list[tuple[float, int, "RayPending"]] = field(default_factory=list)  # soonest needed first
    sent: int = 0
    width: int = 1

    def took(self, turns: int, seconds: float) -> None:
        """It has computed so many turns in so many seconds."""
        self.sent -= turns
        self.width = int(np.clip(np.ceil(WORTH * turns / max(seconds, 1e-6)), 1, self.widest))


class TurnBatch:
    """Turns that travel together, to an actor and back."""

    def __init__(self, pool: ActorPool, home: _Home, jobs: list[Job], message: tuple[Any, ...]) -> None:
        turns = " and ".join(f"turn {job.turn} of client {job.client}" for job in jobs)
        self._pool, self._home, self._message, self.found = pool, home, message, list[list[np.ndarray]]()
        self._patience = Patience(pool, home.number, f"over {turns}")
        self._ask()

    def look_after(self) -> None:
        """Send them to another actor if this one has been silent for too long."""
        if not self.found and self._patience.overdue:
            self.collect()

    def collect(self) -> None:
        """Wait a little for the answer; if the actor has died or is silent, send the work to one in its place."""
        if not self.found:
            answer: tuple[Packed, float] | None = self._patience.answer(self.ref)
            if answer is not None:
                sent, seconds = answer
                # A copy, or else what clients keep would fill Ray's store.
                self.found, self._message = unpacked(Packed(sent.kinds, np.array(sent.bytes))), ()
                self._home.took(len(self.found), seconds)
            elif self._patience.again:
                self._ask()

    def _ask(self) -> None:
        actor = self._patience.begin()
        try:
            self.ref = actor.turns.remote(*self._message)
        except self._pool.ray.exceptions.RayError as reason:
            raise failed_send(reason) from None


class RayPending:
    """A turn that waits to be sent, or is under way on an actor."""

    def __init__(self, backend: RayBackend, job: Job, structure: Any) -> None:
        self._backend, self.job, self._structure = backend, job, structure
        self.batch: TurnBatch | None = None
        self.number = 0

    @property
    def there(self) -> bool:
        """Has it come back?"""
        return self.batch is not None and bool(self.batch.found)

    def done(self) -> bool:
        """Is it there? An actor that has died, or is silent, is replaced meanwhile."""
        if self.there:
            return True
        self._backend.send_until(self)
        self._backend.keep_busy()
        self._backend.collect_first(LOOK)
        return self.there

    def result(self) -> Turn:
        """What the client sends, once it is there."""
        while not self.done():
            pass
        assert self.batch is not None
        turn: Turn = jax.tree.unflatten(self._structure, self.batch.found[self.number])
        return turn
