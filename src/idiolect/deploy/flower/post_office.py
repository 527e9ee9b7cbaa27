"""A server whose devices are reached by letters: one is under way to each node, and replies are answered as they come.

Nobody is waited for. What is said is in the log, synced, before any letter that says so leaves. Whose reply it is, is
known by the letter that it replies to, not by anything that it says. A node that has nothing to say is called again
after a while, then after a longer one.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from idiolect.deploy.access import MESSAGE_BYTES
from idiolect.deploy.assignment import Assignment
from idiolect.deploy.flower.envelopes import Answers, Question, pack_answers, unpack_questions
from idiolect.deploy.flower.foresight import Foresight
from idiolect.deploy.serving.reception import Reception
from idiolect.deploy.serving.status_file import write_status
from idiolect.deploy.wire import WireError, unpack
from idiolect.errors import in_one_line

_LOOK_AROUND = 2.0  # seconds between two looks at which nodes there are, and two writings of the status
_SHORTEST, _LONGEST = 5.0, 300.0  # seconds for which a node that has nothing to say is left alone
_PARTING = 60.0  # seconds in which devices get the letter that says that the run is over


class Reply(NamedTuple):
    """What came back for a letter: another letter, or a sentence on why there is none."""

    to: str  # the letter's id
    letter: bytes
    why: str = ""


class Carrier(Protocol):
    """Who brings letters to nodes."""

    def nodes(self) -> Iterable[int]:
        """Those that can be reached now."""

    def push(self, node: int, letter: bytes) -> str | None:
        """Send a letter; its id, or None if it cannot be sent."""

    def pull(self, sent: Sequence[str]) -> Iterable[Reply]:
        """What has come back for these letters; each reply comes once."""


class Sent(NamedTuple):
    """A letter under way."""

    node: int
    since: float


class PostOffice:
    """The server of a run while its letters are carried."""

    def __init__(
        self,
        work: Assignment,
        reception: Reception,
        carrier: Carrier,
        *,
        patience: float = 3600.0,
        pause: float = 0.5,
        moment: Callable[[str], None] = lambda name: None,
        notice: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._work, self._reception, self._carrier = work, reception, carrier
        self._patience, self._pause, self._moment, self._notice = patience, pause, moment, notice
        upload = reception.desk.upload_bytes
        self._limit = upload + upload // 256 + MESSAGE_BYTES  # an upload, its chunks' headers, and scores
        self._sent: dict[str, Sent] = {}
        self._due: dict[int, float] = {}  # by node: when it is called again
        self._silence: dict[int, float] = {}  # by node: for how long it was left alone last
        self._foresight: dict[int, Foresight] = {}
        self._nodes: set[int] = set()
        self._heard: dict[str, float] = {}  # by name: when it was heard last

    def run(self, done: Callable[[], bool], status: Path) -> None:
        """Answer until it is time to stop, and have the devices told that it is."""
        looked = -_LOOK_AROUND
        while not done():
            if time.monotonic() - looked > _LOOK_AROUND:
                looked = time.monotonic()
                self._nodes = set(self._carrier.nodes())
                self.write_status(status)
            self._give_up_old()
            self._call()
            if not self._exchange():
                time.sleep(self._pause)
        if self._reception.over:
            self._see_off()

    def write_status(self, path: Path) -> None:
        """Who takes part and what has come, for an operator."""
        write_status(path, self._work, self._reception, f"Flower, {len(self._nodes)} nodes", self._heard)

    def _call(self) -> None:
        """Send a letter without answers to nodes that have none under way: they say what they ask."""
        now, under_way = time.monotonic(), {sent.node for sent in self._sent.values()}
        for node in self._nodes - under_way:
            if self._due.get(node, now) <= now:
                self._send(node, {})

    def _exchange(self) -> bool:
        """Answer what has come, and send the answers when they are in the log. Has anything come?"""
        replies = {reply.to: reply for reply in self._carrier.pull([*self._sent])}
        came = [(self._sent.pop(one).node, reply) for one, reply in replies.items() if one in self._sent]
        if not came:
            return False
        answers = [(node, self._answers(node, reply)) for node, reply in came]
        self._reception.commit()
        self._moment("before reply")
        for node, found in answers:
            if found:
                self._send(node, found)
        self._moment("after reply")
        return True

    def _see_off(self) -> None:
        """Wait until the last letters have come: Flower throws away what is under way when a ServerApp ends."""
        end = time.monotonic() + _PARTING
        while self._sent and time.monotonic() < end:
            for reply in self._carrier.pull([*self._sent]):
                self._sent.pop(reply.to, None)
            self._give_up_old()
            time.sleep(self._pause)

    def _give_up_old(self) -> None:
        now = time.monotonic()
        self._sent = {one: sent for one, sent in self._sent.items() if now - sent.since < self._patience}

    def _answers(self, node: int, reply: Reply) -> dict[str, bytes]:
        """The answers to what a device asks, and to what it will ask next; none if it has to wait."""
        if reply.why:
            return self._leave_alone(node, reply.why)
        name = name_of(node)
        self._heard[name] = time.time()
        wait = self._reception.patience.wait(name)
        if wait > 0:
            return self._put_off(node, wait)
        try:
            asked, why = unpack_questions(reply.letter, self._limit)
        except WireError:
            self._reception.answer(name, "letter", b"")  # no such message: refused, and counted
            return self._put_off(node, _SHORTEST)
        if not asked:
            return self._leave_alone(node, why)
        self._silence.pop(node, None)
        *before, last = asked
        for question in before:
            self._reception.answer(name, *question)
        found = self._reception.answer(name, *last)
        said = unpack(found, limit=len(found)).header
        if said["answer"] == "later":
            return self._put_off(node, float(said["seconds"]))
        return {last.label: found, **self._foreseen(node, last, found)}

    def _foreseen(self, node: int, question: Question, answer: bytes) -> dict[str, bytes]:
        """The answers to what a device will ask when it has this one."""
        member = self._reception.desk.members.get(name_of(node))
        last = None if member is None else member.last
        known = self._foresight.setdefault(node, Foresight())
        answers = dict[str, bytes]()
        for following in known.after(question, unpack(answer, limit=len(answer)), last):
            found = self._reception.answer(name_of(node), *following)
            answers |= {following.label: found, **self._foreseen(node, following, found)}
        return answers

    def _send(self, node: int, found: dict[str, bytes]) -> None:
        sent = self._carrier.push(node, pack_answers(Answers(self._work.about(), found)))
        if sent is None:
            self._leave_alone(node, "the letter cannot be sent")
        else:
            self._sent[sent] = Sent(node, time.monotonic())

    def _put_off(self, node: int, seconds: float) -> dict[str, bytes]:
        self._due[node] = time.monotonic() + seconds
        return {}

    def _leave_alone(self, node: int, why: str) -> dict[str, bytes]:
        """A node without a device, or with one that will not: call it again later, and then later still."""
        self._silence[node] = seconds = min(2 * self._silence.get(node, _SHORTEST / 2), _LONGEST)
        self._notice(f"{name_of(node)} is called again in {seconds:.0f} seconds: {in_one_line(why)[:300]}")
        return self._put_off(node, seconds)


def name_of(node: int) -> str:
    """A device's name, from the number that Flower gives to a SuperNode's key."""
    return f"node-{node}"
