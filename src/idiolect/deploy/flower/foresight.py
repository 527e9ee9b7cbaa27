"""What a device asks next, as far as its server can tell; so that a turn is one journey and not three.

Nothing depends on it: an answer is labelled by its question, and a device that asks something else is answered then.
To offer a turn that is not asked for does no harm either, since it is offered again when it is.
"""

from typing import Any

from idiolect.deploy.flower.envelopes import Question
from idiolect.deploy.wire import Message, WireError, chunks_of, pack, unpack

_MOST_CHUNKS = 1000  # of a model, that are sent before they are asked for


class Foresight:
    """What is known of one device: how it last asked for a turn, and which model it has."""

    def __init__(self) -> None:
        self._offer: dict[str, Any] | None = None
        self._model: str | None = None

    def after(self, question: Question, answer: Message, last: int | None) -> list[Question]:
        """What a device asks when it has this answer; `last` is the turn of its last update that is in the log."""
        if question.verb == "offer":
            return self._after_offer(question, answer)
        if question.verb == "upload" and self._offer is not None:
            return self._after_upload(self._offer, str(answer.header.get("answer")), last)
        return []

    def _after_offer(self, question: Question, answer: Message) -> list[Question]:
        """It fetches the model in chunks, unless that is there already or came with the offer."""
        try:
            self._offer = unpack(question.content, limit=len(question.content)).header
        except WireError:
            return []
        if answer.header.get("answer") != "turn":
            return []
        before, self._model = self._offer.get("has"), answer.header["model"]
        chunks = chunks_of(answer.header["size"])
        if "model" in answer.tensors or self._model == before or chunks > _MOST_CHUNKS:
            return []
        return [Question("model", pack({"model": self._model, "number": number})) for number in range(chunks)]

    def _after_upload(self, offer: dict[str, Any], answer: str, last: int | None) -> list[Question]:
        """It asks for a turn as before, with the model that it has now."""
        if answer in ("taken", "taken before"):
            return [Question("offer", pack({**offer, "last": last, "has": self._model}))]
        if answer in ("refused", "lost"):
            return [Question("offer", pack({**offer, "has": self._model}))]
        return []
