"""A device's turns: ask for one, compute it, commit it, send it, and learn with the next offer whether it counts.

Nothing here knows of a network: `ask` sends a message to the server and returns its answer, however long that takes.
Personal state, private parts and data stay in this process and on this disk; what is sent is the update, the number of
samples it comes from and, if the device allows it, scores.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from idiolect.contracts import PyTree, Shard
from idiolect.deploy.access import MESSAGE_BYTES
from idiolect.deploy.assignment import Assignment
from idiolect.deploy.joining.device_record import DeviceRecord, RecordFile
from idiolect.deploy.wire import Assembly, Message, WireError, chunk, chunks_of, digest_of, pack, unpack
from idiolect.engines.screening import shapes_of
from idiolect.engines.simulator.server_program import training_key
from idiolect.errors import UserMistake
from idiolect.trees import as_tensors, bytes_of, fill, names_of

_SLACK = 2**17  # bytes of a message beside its arrays


Ask = Callable[[str, bytes], Message]  # sends a message under a verb, again and again, until there is an answer


class OwnData(NamedTuple):
    """The rows of one client, in the parts that it needs here."""

    train: Shard
    adapt: Shard
    scored: Shard


class Offered(NamedTuple):
    """What a server offers: a turn, the model it begins with, and whether the last update counts."""

    turn: int
    client: int
    model: str  # its digest
    size: int
    verdict: tuple[int, str] | None  # of which turn, and why it was refused, if it was
    score: bool


class Over(Exception):
    """The device has nothing more to do; the text says why."""


class Device:
    """One client of a run."""

    def __init__(
        self,
        work: Assignment,
        data: OwnData,
        files: RecordFile,
        ask: Ask,
        *,
        wants: int | None = None,
        score: Callable[[PyTree, PyTree, OwnData], dict[str, float]] | None = None,
        moment: Callable[[str], None] = lambda name: None,
        notice: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._work, self._data, self._files, self._ask = work, data, files, ask
        self._wants, self._score, self._moment, self._notice = wants, score, moment, notice
        self._key = jax.random.key(work.seed)
        params = work.program.init(self._key)
        self._offer = shapes_of(work.program.protocol.server.offer(_opened(work, params)))
        self._like = work.program.work.init(work.program.protocol.server.offer(_opened(work, params)), 0, self._key)
        self.record: DeviceRecord = files.read(work.identity, self._like)
        self._model: tuple[str, PyTree] | None = None  # the last one fetched, by its digest

    def step(self) -> None:
        """Do what comes next: send what is committed, or take a turn."""
        if self.record.stage == "committed":
            self._send()
        else:
            self._take_turn()

    def _take_turn(self) -> None:
        record = self.record
        has = None if self._model is None else self._model[0]
        asked = {"incarnation": record.incarnation, "last": record.last, "has": has, "wants": self._wants}
        said, tensors = self._ask("offer", pack(asked))
        if said.get("answer") != "turn":
            return self._told(said)
        offered = _read_offer(said)
        self._settle(offered.verdict)
        if self.record.last is not None and offered.turn <= self.record.last:
            return self._be_reborn(f"the server offers turn {offered.turn} once more, so its disk is an older copy")
        model = self._fetch(offered, tensors)
        if model is None:
            return None
        if offered.score and self._score is not None:
            self._tell_scores(offered, model)
        self._commit(offered.turn, offered.client, model)
        return self._send()

    def _commit(self, turn: int, client: int, model: PyTree) -> None:
        """Compute a turn, and write down what it came to."""
        program, before = self._work.program, self.record.before
        personal = program.work.init(model, client, self._key) if before is None else before
        found = program.turn(personal, model, self._data.train, training_key(self._work.seed), np.int32(turn))
        facts = {
            "incarnation": self.record.incarnation,
            "turn": turn,
            "weight": int(found.upload.weight),
            "fault": bool(found.fault[0] >= 0),
        }
        upload = pack(facts, as_tensors(names_of("delta", found.upload.delta)))
        self._moment("before commit")
        self._keep(stage="committed", turn=turn, client=client, after=found.personal, upload=upload)
        self._moment("after commit")

    def _send(self) -> None:
        """Send what is committed; it is forgotten when the server has it."""
        self._moment("before send")
        said = self._ask_upload(self.record.upload)
        self._moment("after send")
        if said.get("answer") in ("taken", "taken before"):
            self._keep(stage="taken", last=self.record.turn, upload=b"")
            self._moment("after taken")
        elif said.get("answer") in ("refused", "lost"):
            why = f"refused: {said.get('why')}" if said["answer"] == "refused" else "lost: the server has given it up"
            self._notice(f"the update of turn {self.record.turn} was {why}")
            self._keep(stage="idle", turn=None, after=None, upload=b"")
            self._moment("after taken")
        else:
            self._told(said)

    def _ask_upload(self, content: bytes) -> dict[str, Any]:
        if len(content) + _SLACK <= MESSAGE_BYTES:
            return self._ask("upload", content).header
        digest = digest_of(content)
        while True:
            for number in range(chunks_of(len(content))):
                about = {"whole": digest, "size": len(content), "number": number}
                self._ask("chunk", pack(about, {"chunk": np.frombuffer(chunk(content, number), np.uint8)}))
            said = self._ask("upload", pack({"whole": digest})).header
            if said.get("answer") != "again":  # the server has begun anew in between
                return said

    def _settle(self, verdict: tuple[int, str] | None) -> None:
        """The server tells whether the last update counts."""
        record = self.record
        if record.stage != "taken":
            return
        turn, refused = (None, "") if verdict is None else verdict
        if turn != record.turn:
            self._notice(f"the server has forgotten turn {record.turn}; what it came to here stays")
            refused = ""
        if refused:
            self._notice(f"the update of turn {record.turn} was not absorbed: {refused}")
        self._keep(stage="idle", turn=None, before=record.before if refused else record.after, after=None)
        self._moment("after settle")

    def _told(self, said: dict[str, Any]) -> None:
        """What else a server may answer."""
        answer = said.get("answer")
        if answer == "wait":
            return  # until the next round
        if answer == "behind":
            self._be_reborn(f"the server has heard turn {said.get('last')} of this device; its disk is an older copy")
        elif answer == "over":
            raise Over("the server has ended the run")
        elif answer == "superseded":
            raise Over("another device with this name, or this one with another disk, has taken this one's place")
        elif answer == "refused":
            raise Over(f"the server refuses this device: {said.get('why')}")
        else:
            raise Over(f"the server answers {str(answer)[:40]!r}, which this version does not know")

    def _be_reborn(self, why: str) -> None:
        self.record = self.record.reborn()
        self._files.write(self.record)
        self._notice(f"{why}; it goes on as a new incarnation with what it has")

    def _fetch(self, offered: Offered, tensors: dict[str, np.ndarray]) -> PyTree:
        """The model of an offer, unless it is here already; None if it is gone in between."""
        digest = offered.model
        if self._model is not None and self._model[0] == digest:
            return self._model[1]
        limit = bytes_of(self._offer) + _SLACK
        try:
            content = tensors["model"].tobytes() if "model" in tensors else self._fetch_chunks(offered, limit)
            if content is None:
                return None
            if digest_of(content) != digest:
                raise WireError("wrong digest")
            model = fill("offer", self._offer, unpack(content, limit=limit).tensors)
        except (UserMistake, WireError) as reason:
            raise Over(f"the server's model cannot be used: {reason}") from None
        self._model = (digest, model)
        return model

    def _fetch_chunks(self, offered: Offered, limit: int) -> bytes | None:
        parts = Assembly(offered.model, offered.size, limit)
        for number in parts.missing:
            said, tensors = self._ask("model", pack({"model": offered.model, "number": number}))
            if said.get("answer") != "chunk" or "chunk" not in tensors:
                return None  # the next offer has a newer one
            parts.add(number, tensors["chunk"].tobytes())
        return parts.content()

    def _tell_scores(self, offered: Offered, model: PyTree) -> None:
        assert self._score is not None
        work, kept = self._work.program.work, self.record.before
        personal = work.init(model, offered.client, self._key) if kept is None else kept
        scores = self._score(work.model(personal, model), work.own(personal), self._data)
        if all(map(np.isfinite, scores.values())):
            self._ask("score", pack({"turn": offered.turn, "scores": scores}))

    def _keep(self, **changes: Any) -> None:
        """Change the record: first on disk, then here."""
        record = self.record._replace(**changes)
        self._files.write(record)
        self.record = record


def _read_offer(said: dict[str, Any]) -> Offered:
    try:
        verdict = said["verdict"]
        told = None if verdict is None else (int(verdict["turn"]), str(verdict["refused"]))
        numbers = (int(said["turn"]), int(said["client"]), str(said["model"]), int(said["size"]))
        return Offered(*numbers, told, bool(said["score"]))
    except (KeyError, TypeError, ValueError):
        raise Over("the server's offer cannot be read") from None


def _opened(work: Assignment, params: PyTree) -> PyTree:
    return work.program.protocol.server.init(params, len(work.problem.clients.participating))
