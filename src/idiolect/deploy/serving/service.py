"""A server on the network: messages wait in a line, are answered together, and leave when the log is synced.

Zenoh's threads only put messages in the line, and answers leave by threads of their own. Which rules hold for whom is
read from the roster; when that changes, a new session is opened with new rules, and devices connect again.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idiolect.deploy.access import needs_zenoh, server_config
from idiolect.deploy.assignment import Assignment
from idiolect.deploy.keys import Identity
from idiolect.deploy.roster import Roster, checked_name, read_roster
from idiolect.deploy.serving.outbox import Outbox
from idiolect.deploy.serving.reception import Reception
from idiolect.deploy.serving.status_file import write_status
from idiolect.deploy.serving.waiting_line import Waiting, WaitingLine
from idiolect.deploy.wire import pack
from idiolect.errors import UserMistake

if TYPE_CHECKING:
    from zenoh import Query

_LOOK_UP = 0.2  # seconds after which the server looks up, even if nothing has come
_LETS_GO = 60.0  # seconds within which a session that was closed gives its endpoint free
_STATUS = 2.0  # seconds between two looks at the roster, and two writings of the status


class Service:
    """The server of a run while it listens."""

    def __init__(
        self,
        work: Assignment,
        reception: Reception,
        identity: Identity | None,
        endpoint: str,
        *,
        moment: Callable[[str], None] = lambda name: None,
        notice: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._work, self._reception, self._identity, self._endpoint = work, reception, identity, endpoint
        self._moment, self._notice = moment, notice
        self._line, self._outbox = WaitingLine(), self._new_outbox()
        self._heard: dict[str, float] = {}  # by name: when it was heard last

    def run(self, done: Callable[[], bool], status: Path) -> None:
        """Answer until it is time to stop."""
        patience = 0.0
        while not done():
            roster = self._roster()
            with self._listening(roster, patience):
                self._answer_until(done, roster, status)
            patience = _LETS_GO

    def _answer_until(self, done: Callable[[], bool], roster: Roster, status: Path) -> None:
        """Answer until it is time to stop, or the roster has changed."""
        looked = -_STATUS
        while not done():
            if time.monotonic() - looked > _STATUS:
                looked = time.monotonic()
                self.write_status(status)
                if self._roster_if_whole(roster) != roster:
                    return
            self._answer_some()

    def _answer_some(self) -> None:
        self._outbox.look()
        waiting = self._line.some(_LOOK_UP)
        # Updates first: whoever asks for a turn then gets the model that they came to, which is made once for all.
        waiting.sort(key=lambda message: message.verb != "upload")
        answers = [self._reception.answer(message.name, message.verb, message.content) for message in waiting]
        self._reception.commit()  # also if there is nothing: a round may be due
        if not waiting:
            return
        self._moment("before reply")
        for message, answer in zip(waiting, answers, strict=True):
            self._outbox.put(message.name, message.query, answer)
        self._moment("after reply")

    @contextmanager
    def _listening(self, roster: Roster, patience: float) -> Iterator[None]:
        session = self._opened(roster, patience)
        try:
            session.declare_queryable(f"idiolect/{self._work.run}/*/*", self._put)
            session.declare_queryable("idiolect/hello/*", self._greet)
            yield
        finally:
            self._outbox.close()  # while there is a session to send by
            self._outbox = self._new_outbox()
            with suppress(needs_zenoh().ZError):  # somebody does not read what was sent; Zenoh gives up after a while
                session.close()

    def _opened(self, roster: Roster, patience: float) -> Any:
        """A session with the rules of this roster; one that was open before may take a while to let go."""
        config = server_config(self._identity, roster, self._endpoint, self._work.run)
        zenoh, end = needs_zenoh(), time.monotonic() + patience
        while True:
            try:
                return zenoh.open(config)
            except zenoh.ZError as reason:
                if time.monotonic() >= end:
                    raise UserMistake(f"--listen {self._endpoint} cannot be opened: {str(reason)[:200]}") from None
            time.sleep(_LOOK_UP)

    def _new_outbox(self) -> Outbox:
        return Outbox(_reply, lambda name: self._reception.hold_against(name, "does not read"))

    def _put(self, query: Any) -> None:
        """A message, on one of Zenoh's threads. Its key is all that tells whose it is, and the rules vouch for it."""
        *_, name, verb = str(query.key_expr).split("/")
        try:
            self._heard[checked_name(name)] = time.time()
            wait = self._reception.patience.wait(name)
            if not wait and not self._line.put(Waiting(name, verb, query.payload.to_bytes(), query)):
                wait = 1.0  # there is no room
            if wait:
                self._outbox.put(name, query, pack({"answer": "later", "seconds": round(wait, 3)}))
        except (UserMistake, AttributeError):  # a name that is none, as only --insecure lets in; or no payload
            query.drop()

    def _greet(self, query: Any) -> None:
        name = str(query.key_expr).rpartition("/")[2]
        if self._reception.patience.wait(name):
            query.drop()  # it has asked too often, or is put off
        else:
            self._outbox.put(name, query, pack(self._work.about()))

    def _roster(self) -> Roster:
        if self._identity is None:
            return Roster({})
        return read_roster(self._identity.roster, self._identity.ca)

    def _roster_if_whole(self, known: Roster) -> Roster:
        """The roster; while an operator is about to replace it by one that cannot be read, the one that is known."""
        try:
            found = self._roster()
        except UserMistake as mistake:
            self._notice(f"{mistake}; the rules stay as they are")
            return known
        if found != known:
            self._notice(f"the roster has changed; {', '.join(found.names)} may connect")
        return found

    def write_status(self, path: Path) -> None:
        """Who takes part and what has come, for an operator."""
        write_status(path, self._work, self._reception, self._endpoint, self._heard)


def _reply(query: "Query", content: bytes) -> None:
    """Answer, if whoever asked can still be reached; if not, it asks again."""
    with suppress(needs_zenoh().ZError), query:
        query.reply(query.key_expr, content)
