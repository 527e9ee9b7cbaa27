"""What a server answers, and what it logs before it does. No network here: bytes come in, and bytes go out.

A device asks for a turn (`offer`), fetches the model if it has not got it (`model`), and sends what came of its turn
(`chunk`, `upload`). `answer` changes the state by records and keeps them; `commit` syncs all of them at once, and only
then may the answers leave. If the process dies in between, nobody was told anything.

The id of a turn is (name, incarnation, number). An update whose id is in the log is `taken before`; a turn whose
model is still here is offered again as it was to a device that lost it, and given up for a new one if it is not.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from idiolect.deploy.assignment import Assignment, budget_of
from idiolect.deploy.serving.desk import DELTA, Desk, Member
from idiolect.deploy.serving.held_models import HeldModels
from idiolect.deploy.serving.incoming_parts import IncomingParts
from idiolect.deploy.serving.journal import Journal
from idiolect.deploy.serving.real_rounds import RealRounds
from idiolect.deploy.serving.turned_away import Patience, Rules, fault_in
from idiolect.deploy.wire import (
    CHUNK_BYTES,
    HEADER_BYTES,
    Message,
    WireError,
    arrays_in,
    chunk,
    pack,
    unpack,
)
from idiolect.evaluation.scores import OWN
from idiolect.trees import names_of

_SLACK = 2**17  # bytes of a message beside its arrays
_INCARNATION = re.compile(r"[0-9a-f]{16}")


class Reception:
    """Answers devices from the desk, and keeps the log."""

    def __init__(
        self,
        work: Assignment,
        folder: Path,
        *,
        rules: Rules = Rules(),
        moment: Callable[[str], None] = lambda name: None,
        notice: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._rules, self.desk, self.patience = rules, Desk(work), Patience(rules)
        self.turned_away: dict[str, dict[str, int]] = {}  # messages that no turn is known by, since this process began
        self._journal = Journal(self.desk, folder, work.identity, rules.checkpoint_every, moment=moment, notice=notice)
        self._note = self._journal.note
        self.desk.judged = self._judged
        self.over = False
        self.told_over: set[str] = set()  # who knows that the run is over
        self._expected = names_of(DELTA, self.desk.expected)
        self._columns = {*map(str, budget_of(work)), OWN}
        self._models = HeldModels(self.desk.offer_tensors)
        self._offered: dict[int, str] = {}  # which model a turn under way began with, since this process began
        self._parts = IncomingParts(self.desk.upload_bytes + _SLACK)
        self._rounds: RealRounds | None = None
        if self.desk.schedule.rounds:
            now = self._journal.clock.now
            self._rounds = RealRounds(self.desk, rules, work.seed, self._note, now, notice=notice)
        self._verbs = {
            "offer": self._offer,
            "model": self._model,
            "chunk": self._chunk,
            "score": self._score,
        }
        words = HEADER_BYTES + 8  # of a message without arrays
        self._limits = {"offer": words, "model": words, "score": words, "chunk": CHUNK_BYTES + _SLACK}
        self._limits["upload"] = self.desk.upload_bytes + _SLACK

    def answer(self, name: str, verb: str, content: bytes) -> bytes:
        """The answer to a message; it may leave after the next `commit`."""
        try:
            if verb not in self._limits:
                raise WireError("malformed")
            said = unpack(content, limit=self._limits[verb])
            if verb == "upload":
                return self._upload(name, said, content)
            return self._verbs[verb](name, said)
        except WireError as reason:
            return self._refuse(name, str(reason))
        except (KeyError, TypeError, ValueError, OverflowError):
            return self._refuse(name, "malformed")

    def commit(self) -> None:
        """Sync what was decided since the last time."""
        self.desk.settle()
        if self._rounds is not None:
            self._rounds.decide(over=self.over)
        self._journal.sync()

    def close(self) -> None:
        """Save, and let go of the files."""
        self.commit()
        self._journal.close()

    def _offer(self, name: str, said: Message) -> bytes:
        if self.over:
            self.told_over.add(name)
            return pack({"answer": "over"})
        incarnation, last = _incarnation(said), _number(said, "last", none=True)
        self.desk.settle()
        member = self.desk.members.get(name)
        if member is not None and incarnation in member.past:
            return pack({"answer": "superseded"})
        if member is None and not self.desk.free:
            return self._refuse(name, "no room for another client")
        if member is None or incarnation != member.incarnation:
            wanted = _number(said, "wants", none=True)
            number = wanted if wanted in self.desk.free else next(iter(self.desk.free), -1)
            if member is not None:
                self.patience.strike(name)  # disks are rarely lost; who does this again and again fills ours
            self._note("member", name, number=number if member is None else member.number, incarnation=incarnation)
        elif member.last is not None and (last is None or last < member.last):
            return pack({"answer": "behind", "last": member.last})
        return self._offered_turn(name, said.header.get("has"))

    def _offered_turn(self, name: str, has: Any) -> bytes:
        turn = self.desk.members[name].open
        if self._rounds is not None and turn is None:
            return pack({"answer": "wait", "seconds": self._rounds.wait(name)})
        if self._rounds is not None and turn is not None:
            self._offered[turn] = self._newest()  # a round's model stays until it closes
        if turn is not None and self._offered.get(turn) not in self._models:
            self._note("lost", name, turn=turn, why="")  # nobody has its model any more
            turn = None
        if turn is None:
            turn = len(self.desk.recorder.client)
            self._offered[turn] = self._newest()
            self._note("offer", name, turn=turn)
        digest, member = self._offered[turn], self.desk.members[name]
        content = self._models.get(digest) or b""
        answer = {
            "answer": "turn",
            "turn": turn,
            "client": member.number,
            "model": digest,
            "size": len(content),
            "verdict": None if member.last is None else {"turn": member.last, "refused": member.refused},
            "score": self._wants_score(name),
        }
        inline = has != digest and len(content) <= CHUNK_BYTES
        return pack(answer, self._models.inside(digest) if inline else {})

    def _model(self, name: str, said: Message) -> bytes:
        """A chunk of a model, by its digest."""
        content = self._models.get(str(said.header["model"]))
        if content is None:
            return pack({"answer": "gone"})
        part = chunk(content, _number(said, "number"))
        return pack({"answer": "chunk"}, {"chunk": _as_array(part)}) if part else self._refuse(name, "malformed")

    def _chunk(self, name: str, said: Message) -> bytes:
        """A chunk of an upload."""
        digest, size, number = str(said.header["whole"]), _number(said, "size"), _number(said, "number")
        if not self._parts.add(name, digest, size, number, said.tensors["chunk"].tobytes()):
            return pack({"answer": "later", "seconds": 2.0})
        return pack({"answer": "chunk"})

    def _upload(self, name: str, said: Message, content: bytes) -> bytes:
        if "whole" in said.header:
            whole = self._parts.take(name, said.header["whole"])
            if whole is None:
                return pack({"answer": "again"})  # this process has not got them; the device sends them once more
            said, content = unpack(whole, limit=self.desk.upload_bytes + _SLACK), whole
        member, turn, incarnation = self.desk.members.get(name), _number(said, "turn"), _incarnation(said)
        if member is None or incarnation != member.incarnation:
            known = member is not None and incarnation in member.past
            return pack({"answer": "superseded"}) if known else self._refuse(name, "unknown incarnation")
        if self._is_taken(member, turn):
            return pack({"answer": "taken before"})
        if turn != member.open:
            return self._late(name, turn) if self._is_late(member, turn) else pack({"answer": "lost"})
        why = fault_in(said.header, said.tensors, self._expected)
        if not why and self.desk.staleness(turn) > self._rules.stale_after:
            why = "too stale"
        self._offered.pop(turn, None)
        if why:
            self._note("lost", name, turn=turn, why=why)
            self.patience.strike(name)
            return pack({"answer": "refused", "why": why})
        self._note("arrival", name, said.tensors, arrays_in(content), turn=turn, weight=said.header["weight"])
        return pack({"answer": "taken"})

    def _judged(self, name: str, refused: str) -> None:
        """An update was absorbed, or was not, for a reason."""
        self.patience.strike(name) if refused else self.patience.praise(name)

    def _is_taken(self, member: Member, turn: int) -> bool:
        return self._is_of(member, turn) and self.desk.recorder.arrived[turn] < float("inf")

    def _is_late(self, member: Member, turn: int) -> bool:
        """Is its round over?"""
        return self._is_of(member, turn) and 0 <= self.desk.recorder.round[turn] < self.desk.round

    def _is_of(self, member: Member, turn: int) -> bool:
        clients = self.desk.recorder.client
        return 0 <= turn < len(clients) and clients[turn] == member.number

    def _late(self, name: str, turn: int) -> bytes:
        """Its round was closed without it, which is nobody's fault: it is counted, and held against nobody."""
        self._offered.pop(turn, None)
        self._count(name, "late")
        return pack({"answer": "refused", "why": "late"})

    def _score(self, name: str, said: Message) -> bytes:
        """Numbers that a device has found on its own data."""
        member, scores = self.desk.members.get(name), said.header["scores"]
        if member is None or member.open != _number(said, "turn"):
            return pack({"answer": "lost"})
        if not isinstance(scores, dict) or scores.keys() != self._columns:
            return self._refuse(name, "malformed")
        if not self._wants_score(name):
            return pack({"answer": "noted"})  # it was, or nobody has asked: scores that pile up would fill the disk
        numbers = {column: float(score) for column, score in scores.items()}
        self._note("score", name, client=member.number, updates=self.desk.updates, scores=numbers)
        return pack({"answer": "noted"})

    def _wants_score(self, name: str) -> bool:
        every = self._rules.score_every
        if not every:
            return False
        return self.desk.updates // every > self.desk.scored.get(name, -every) // every

    def _newest(self) -> str:
        return self._models.newest(self.desk.version)

    def hold_against(self, name: str, why: str) -> None:
        """A device has done what it should not: it is counted, and has to wait if that goes on."""
        self._count(name, why)
        self.patience.strike(name)

    def _refuse(self, name: str, why: str) -> bytes:
        self.hold_against(name, why)
        return pack({"answer": "refused", "why": why})

    def _count(self, name: str, why: str) -> None:
        mine = self.turned_away.setdefault(name, {})
        mine[why] = mine.get(why, 0) + 1


def _as_array(content: bytes) -> np.ndarray:
    return np.frombuffer(content, np.uint8)


def _incarnation(said: Message) -> str:
    found = said.header["incarnation"]
    if not isinstance(found, str) or not _INCARNATION.fullmatch(found):
        raise WireError("malformed")
    return found


def _number(said: Message, name: str, *, none: bool = False) -> Any:
    found = said.header.get(name) if none else said.header[name]
    if found is None and none:
        return None
    if not isinstance(found, int) or isinstance(found, bool):
        raise WireError("malformed")
    return found
