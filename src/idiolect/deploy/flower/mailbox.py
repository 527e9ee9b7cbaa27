"""A device's line to its server by couriers: what it asks waits here until one comes, and takes it along.

`ask` is called by the device, on its thread, and `deliver` by couriers, on theirs. What needs no answer (chunks of an
upload, scores) waits for what does, so that a turn is one journey.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from idiolect.deploy.access import MESSAGE_BYTES
from idiolect.deploy.assignment import Assignment
from idiolect.deploy.flower.envelopes import NEEDS_NO_ANSWER, Question, Questions, pack_questions, unpack_answers
from idiolect.deploy.flower.hatch import LETTER_BYTES, Hatch
from idiolect.deploy.joining.line import check_same_work
from idiolect.deploy.wire import Message, WireError, unpack
from idiolect.errors import Interrupted, UserMistake

_LOOK_UP = 0.2  # seconds after which the device looks whether it is to stop
_LEFT = "this device has left"


class Mailbox:
    """Questions on their way out, and answers on their way in."""

    def __init__(
        self,
        folder: Path,
        *,
        stop: Callable[[], bool] = lambda: False,
        notice: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._folder, self._stop, self._notice = folder, stop, notice
        self._news = threading.Condition()
        self._work: Assignment | None = None
        self._hatch: Hatch | None = None
        self._outbox: list[Question] = []
        self._waits: str | None = None  # the label of the answer that the device waits for
        self._answers: dict[str, bytes] = {}  # of the last letter, by their labels
        self._closed = False
        self._refused = ""  # why the last letter was, so that it is told once

    def greet(self, work: Assignment) -> None:
        """Open the hatch. What a server works on is compared with every letter, since any run of Flower's may call."""
        self._work = work
        self._hatch = Hatch(self._folder, self.deliver)
        self._notice(f"waiting for a SuperNode of this machine: --node-config 'idiolect=\"{self._folder.resolve()}\"'")

    def ask(self, verb: str, content: bytes) -> Message:
        """The answer to a message, however long its courier takes; at once, if the server has foreseen it."""
        question = Question(verb, content)
        with self._news:
            if question.label not in self._answers:
                self._outbox.append(question)
                if verb in NEEDS_NO_ANSWER:
                    return Message({"answer": "on its way"}, {})
                self._wait_for(question.label)
            return unpack(self._answers.pop(question.label), limit=MESSAGE_BYTES)

    def deliver(self, letter: bytes) -> bytes:
        """Take in a letter; what the device asks next, as soon as it does."""
        try:
            answers = self._checked(letter)
        except (UserMistake, WireError) as reason:
            if str(reason) != self._refused:
                self._notice(f"a letter was not taken: {reason}")
            self._refused = str(reason)
            return pack_questions(Questions([], str(reason)))
        with self._news:
            if self._waits in answers:
                self._answers, self._outbox, self._waits = answers, [], None
                self._news.notify_all()
            self._news.wait_for(lambda: self._waits is not None or self._closed)
            return pack_questions(Questions([], _LEFT) if self._closed else Questions(self._outbox))

    def close(self) -> None:
        """Nothing more is asked; couriers who wait are told so."""
        with self._news:
            self._closed = True
            self._news.notify_all()
        if self._hatch is not None:
            self._hatch.close()

    def _wait_for(self, label: str) -> None:
        self._waits = label
        self._news.notify_all()
        while self._waits is not None:
            if self._stop():
                raise Interrupted
            self._news.wait(_LOOK_UP)

    def _checked(self, letter: bytes) -> dict[str, bytes]:
        """The answers of a letter that are messages, if it comes from a server that works on the same."""
        assert self._work is not None
        about, found = unpack_answers(letter, LETTER_BYTES)
        check_same_work(about, self._work, "that this run of Flower has started")
        whole = dict[str, bytes]()
        for label, content in found.items():
            with suppress(WireError):
                unpack(content, limit=MESSAGE_BYTES)
                whole[label] = content
        return whole
