"""The server's state, and the only way it changes: by records of the log, one after the other.

What a record does depends on nothing but the state before it. So a checkpoint and the log behind it give the server
back to the byte, and the timeline that is written down replays in the simulator: turns are numbered as they are
offered, and absorbed by the same function, in the order of the log. Updates wait until somebody wants to see what they
come to, and are absorbed together (`batch`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from idiolect.contracts import PyTree
from idiolect.deploy.assignment import Assignment
from idiolect.deploy.serving.batch import Batch
from idiolect.deploy.wire import Message
from idiolect.engines.checkpointing import Checkpoint
from idiolect.engines.screening import FINE, REASONS, shapes_of
from idiolect.engines.simulator.server_program import open_server
from idiolect.network.recorder import TimelineRecorder
from idiolect.network.timelines import NO_ROUND, Timeline
from idiolect.trees import as_tensors, bytes_of, fill, names_of

DELTA, OFFER = "delta", "offer"  # begin the names of arrays in messages
_CUT_DOWN = "cut down"
_REMEMBERED = 1000  # incarnations of a device before the present one


class Member(NamedTuple):
    """A client, by the name in its certificate."""

    number: int
    incarnation: str
    past: tuple[str, ...] = ()  # its incarnations before
    open: int | None = None  # the turn it was offered
    last: int | None = None  # the turn of its last update that is in the log, of this incarnation
    refused: str = ""  # why that was not absorbed, if it was not


class Desk:
    """Who takes part, who was offered what, and what has come of it."""

    def __init__(self, work: Assignment) -> None:
        self._program, clients = work.program, work.problem.clients
        self.free = list(clients.participating)  # the numbers that nobody has
        params = self._program.init(jax.random.key(work.seed))
        self._state = open_server(self._program, params, len(self.free), clients.total)
        self.schedule = self._program.protocol.schedule
        self._per_step = self.schedule.updates_per_step
        self.expected: PyTree = shapes_of(
            self._program.protocol.sends(self._program.protocol.server.offer(self._state.server))
        )
        self.upload_bytes = bytes_of(self.expected)
        self._leaves, self._batch = list(names_of(DELTA, self.expected)), Batch(self._program, self.expected)
        self._senders: list[str] = []  # of the updates in the batch
        self.judged: Callable[[str, str], None] = lambda name, why: None  # hears who was absorbed, or why not
        self.members: dict[str, Member] = {}  # whether a last update is refused is known when they are settled
        self.recorder, self.updates, self.time = TimelineRecorder(), 0, 0.0
        self.round, self.came = 0, 0  # rounds that are closed; updates in the one that is open
        self.opened: float | None = None  # when that was
        self.scores: list[dict[str, Any]] = []
        self.scored: dict[str, int] = {}  # by name: after how many updates its last score came
        self.refusals: dict[str, dict[str, int]] = {}  # by name and reason

    def apply(self, record: Message) -> None:
        """Change the state as a record says."""
        said = record.header
        if said["kind"] != "arrival":
            self.settle()
        self.time = said.get("time", self.time)
        getattr(self, f"_{said['kind']}")(said, record.tensors)

    def settle(self) -> None:
        """Absorb what has come."""
        if not self._senders:
            return
        self._state, reasons = self._batch.absorb(self._state)
        senders, self._senders = self._senders, []
        for name, reason in zip(senders, reasons, strict=True):
            why = "" if reason == FINE else (*REASONS, _CUT_DOWN)[reason]
            self._count(name, why)
            refused = "" if why == _CUT_DOWN else why
            if refused:
                self._now(name, refused=refused)
            self.judged(name, refused)

    def offer_tensors(self) -> dict[str, np.ndarray]:
        """The model that a client would be offered now."""
        self.settle()
        return as_tensors(names_of(OFFER, self._program.protocol.server.offer(self._state.server)))

    def model(self) -> PyTree:
        """The shared model."""
        self.settle()
        return self._program.protocol.server.read(self._state.server)

    @property
    def version(self) -> int:
        """Changes whenever the model that is offered may have changed."""
        return self.round if self.schedule.rounds else self.updates

    @property
    def awaited(self) -> list[str]:
        """Who has a turn under way."""
        return [name for name, member in self.members.items() if member.open is not None]

    def staleness(self, turn: int) -> int:
        """How many versions of the model have come since a turn was offered; a round has one."""
        return 0 if self.schedule.rounds else self.recorder.age(turn, self._per_step)

    def timeline(self) -> Timeline:
        """What happened so far, for the simulator. A round that is still open has not changed the model yet."""
        return self.recorder.table(self.time + 1e-6, self.round if self.schedule.rounds else None)

    def _member(self, said: dict[str, Any], _: Any) -> None:
        """A client comes for the first time, or as a new incarnation."""
        name, known = said["name"], self.members.get(said["name"])
        if known is None:
            self.free.remove(said["number"])
            self.members[name] = Member(said["number"], said["incarnation"])
            return
        if known.open is not None:
            self.recorder.give_up(known.open, said["time"])
        past = (*known.past, known.incarnation)[-_REMEMBERED:]
        self.members[name] = Member(known.number, said["incarnation"], past)

    def _offer(self, said: dict[str, Any], _: Any) -> None:
        turn = self.recorder.offer(self.members[said["name"]].number, said["time"], said.get("round", NO_ROUND))
        assert turn == said["turn"]
        if "round" in said and self.opened is None:
            self.opened = said["time"]
        self._now(said["name"], open=turn)

    def _lost(self, said: dict[str, Any], _: Any) -> None:
        """A turn is given up; if its update was refused before it was logged, the reason is counted."""
        self.recorder.give_up(said["turn"], said["time"])
        self._now(said["name"], open=None)
        self._count(said["name"], said["why"])

    def _arrival(self, said: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
        name, turn = said["name"], said["turn"]
        number, age = self.members[name].number, self.staleness(turn)
        self.recorder.arrival(turn, said["time"], self._per_step)
        self._now(name, open=None, last=turn, refused="")
        self._batch.add([tensors[leaf] for leaf in self._leaves], said["weight"], turn, number, age)
        self._senders.append(name)
        self.updates, self.came = self.updates + 1, self.came + 1
        if self._batch.count == self._batch.room:
            self.settle()

    def _close(self, said: dict[str, Any], _: Any) -> None:
        """A round is over; what has not come by now never will."""
        assert said["round"] == self.round
        for name in self.awaited:
            self.recorder.give_up(_turn_of(self.members[name]), said["time"])
            self._now(name, open=None)
        self._state = self._program.close(self._state)
        self.round, self.came, self.opened = self.round + 1, 0, None

    def _score(self, said: dict[str, Any], _: Any) -> None:
        self.scores.append({name: value for name, value in said.items() if name != "kind"})
        self.scored[said["name"]] = said["updates"]

    def _now(self, name: str, **changes: Any) -> None:
        self.members[name] = self.members[name]._replace(**changes)

    def _count(self, name: str, why: str) -> None:
        if why:
            mine = self.refusals.setdefault(name, {})
            mine[why] = mine.get(why, 0) + 1

    def saved(self) -> Checkpoint:
        """All that the log before this moment has come to."""
        self.settle()
        facts = {
            "members": {name: list(member) for name, member in self.members.items()},
            "updates": self.updates,
            "time": self.time,
            "scores": self.scores,
            "refusals": self.refusals,
            "rounds": [self.round, self.came, self.opened],
        }
        leaves = names_of("server_state", self._state._replace(totals={}))
        return Checkpoint(facts, {**as_tensors(leaves), **self.recorder.tensors()})

    def restore(self, saved: Checkpoint) -> None:
        """Go on from there."""
        facts = saved.facts
        self._state = fill("server_state", self._state._replace(totals={}), saved.tensors)
        self.recorder.restore(saved.tensors)
        for name, (number, incarnation, past, *rest) in facts["members"].items():
            self.members[name] = Member(number, incarnation, tuple(past), *rest)
            self.free.remove(number)
        self.updates, self.time = facts["updates"], facts["time"]
        self.round, self.came, self.opened = facts.get("rounds", (0, 0, None))
        self.scores, self.refusals = facts["scores"], facts["refusals"]
        self.scored = {one["name"]: one["updates"] for one in self.scores}


def _turn_of(member: Member) -> int:
    assert member.open is not None
    return member.open
