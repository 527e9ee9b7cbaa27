"""Envelopes: what Flower's messages carry, a server's answers one way and a device's questions the other.

Devices ask, and servers answer; but Flower's messages begin at the server, and each has one reply. So a message brings
answers, and its reply brings what the device asks next. An answer has the label of its question: a device that has not
asked that leaves it alone. Hence a server can answer ahead what a device is about to ask, and a message that is
lost, late or doubled does no harm: the device asks again, and gets the answer that it got before.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from idiolect.deploy.wire import Message, WireError, digest_of, pack, unpack

NEEDS_NO_ANSWER = ("chunk", "score")  # what a device may send along with a question


class Question(NamedTuple):
    """A message that a device sends to its server."""

    verb: str
    content: bytes

    @property
    def label(self) -> str:
        """By which its answer is known."""
        return digest_of(self.verb.encode() + b" " + self.content)[:32]


class Answers(NamedTuple):
    """What a server sends: what it serves, and answers by their labels."""

    about: dict[str, Any]
    found: dict[str, bytes]


class Questions(NamedTuple):
    """What a device sends. Only the last one waits for its answer; if there is none, `why` says why."""

    asked: Sequence[Question]
    why: str = ""


def pack_answers(answers: Answers) -> bytes:
    """Answers as bytes."""
    return pack({"about": answers.about, "to": list(answers.found)}, _numbered(list(answers.found.values())))


def unpack_answers(content: bytes, limit: int) -> Answers:
    """The answers that these bytes are, or a `WireError`."""
    said = unpack(content, limit=limit)
    about, contents = said.header.get("about"), _contents(said)
    if not isinstance(about, dict):
        raise WireError("malformed")
    return Answers(about, dict(zip(_texts(said, "to", len(contents)), contents, strict=True)))


def pack_questions(questions: Questions) -> bytes:
    """Questions as bytes."""
    header = {"verbs": [one.verb for one in questions.asked], "why": questions.why}
    return pack(header, _numbered([one.content for one in questions.asked]))


def unpack_questions(content: bytes, limit: int) -> Questions:
    """The questions that these bytes are, or a `WireError`."""
    said = unpack(content, limit=limit)
    why, contents = said.header.get("why"), _contents(said)
    if not isinstance(why, str):
        raise WireError("malformed")
    verbs = _texts(said, "verbs", len(contents))
    along = verbs[:-1]
    if not set(along) <= {*NEEDS_NO_ANSWER} or along.count("score") > 1:
        raise WireError("malformed")  # one letter is one question, however long it is
    return Questions([*map(Question, verbs, contents)], why)


def _numbered(contents: Sequence[bytes]) -> Mapping[str, np.ndarray]:
    return {str(place): np.frombuffer(content, np.uint8) for place, content in enumerate(contents)}


def _contents(said: Message) -> list[bytes]:
    try:
        return [said.tensors[str(place)].tobytes() for place in range(len(said.tensors))]
    except KeyError:
        raise WireError("malformed") from None


def _texts(said: Message, name: str, count: int) -> list[str]:
    found = said.header.get(name)
    if not isinstance(found, list) or len(found) != count or not all(isinstance(text, str) for text in found):
        raise WireError("malformed")
    return found
