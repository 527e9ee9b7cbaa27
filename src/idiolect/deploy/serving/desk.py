"""The server's state, and the only way it changes: by records of the log, one after the other.

What a record does depends on nothing but the state before it. So a checkpoint and the log behind it give the server
back to the byte, and the timeline that is written down replays in the simulator: turns are numbered as they are
offered, and absorbed by the same compiled function, in the order of the log.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

from idiolect.contracts import PyTree, Upload
from idiolect.deploy.assignment import Assignment
from idiolect.deploy.wire import Message
from idiolect.engines.checkpointing import Checkpoint
from idiolect.engines.screening import REASONS, shapes_of
from idiolect.engines.simulator.server_program import Arrival, Turn, open_server, take_in
from idiolect.network.recorder import TimelineRecorder
from idiolect.trees import as_tensors, bytes_of, fill, names_of, norm

DELTA, OFFER = "delta", "offer"  # begin the names of arrays in messages
_SOUND: Any = np.array([-1.0, 0.0], np.float32)  # of a turn in which every number was finite
_CUT_DOWN = "cut down"


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
        self._per_step = self._program.protocol.schedule.updates_per_step
        self.expected: PyTree = shapes_of(self._program.protocol.server.offer(self._state.server))
        self.upload_bytes = bytes_of(self.expected)
        self.members: dict[str, Member] = {}
        self.recorder, self.updates, self.time = TimelineRecorder(), 0, 0.0
        self.scores: list[dict[str, Any]] = []
        self.scored: dict[str, int] = {}  # by name: after how many updates its last score came
        self.refusals: dict[str, dict[str, int]] = {}  # by name and reason

    def apply(self, record: Message) -> None:
        """Change the state as a record says."""
        said = record.header
        self.time = said.get("time", self.time)
        getattr(self, f"_{said['kind']}")(said, record.tensors)

    def offer_tensors(self) -> dict[str, np.ndarray]:
        """The model that a client would be offered now."""
        return as_tensors(names_of(OFFER, self._program.protocol.server.offer(self._state.server)))

    def model(self) -> PyTree:
        """The shared model."""
        return self._program.protocol.server.read(self._state.server)

    def staleness(self, turn: int) -> int:
        """How many versions of the model have come since a turn was offered."""
        return self.recorder.age(turn, self._per_step)

    def _member(self, said: dict[str, Any], _: Any) -> None:
        """A client comes for the first time, or as a new incarnation."""
        name, known = said["name"], self.members.get(said["name"])
        if known is None:
            self.free.remove(said["number"])
            self.members[name] = Member(said["number"], said["incarnation"])
            return
        if known.open is not None:
            self.recorder.give_up(known.open, said["time"])
        past = (*known.past, known.incarnation)
        self.members[name] = Member(known.number, said["incarnation"], past)

    def _offer(self, said: dict[str, Any], _: Any) -> None:
        turn = self.recorder.offer(self.members[said["name"]].number, said["time"])
        assert turn == said["turn"]
        self._now(said["name"], open=turn)

    def _lost(self, said: dict[str, Any], _: Any) -> None:
        """A turn is given up; if its update was refused before it was logged, the reason is counted."""
        self.recorder.give_up(said["turn"], said["time"])
        self._now(said["name"], open=None)
        self._count(said["name"], said["why"])

    def _arrival(self, said: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
        name, turn = said["name"], said["turn"]
        number = self.members[name].number
        delta = fill(DELTA, self.expected, tensors)
        came = Turn((), Upload(delta, np.int32(said["weight"])), norm(delta), {}, _SOUND)
        age = self.recorder.arrival(turn, said["time"], self._per_step)
        before = np.asarray(self._state.watch.counts[number])  # absorbing overwrites it
        arrival = Arrival(np.int32(turn), np.int32(number), np.float32(age))
        self._state, _ = take_in(self._program, self._state, (), came, arrival, self.expected)
        counted = np.flatnonzero(np.asarray(self._state.watch.counts[number]) - before)
        why = (*REASONS, _CUT_DOWN)[counted[0]] if len(counted) else ""
        self._count(name, why)
        self._now(name, open=None, last=turn, refused="" if why == _CUT_DOWN else why)
        self.updates += 1

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
        facts = {
            "members": {name: list(member) for name, member in self.members.items()},
            "updates": self.updates,
            "time": self.time,
            "scores": self.scores,
            "refusals": self.refusals,
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
        self.scores, self.refusals = facts["scores"], facts["refusals"]
        self.scored = {one["name"]: one["updates"] for one in self.scores}
