"""A server on the network: messages wait in a line, are answered together, and leave when the log is synced.

Zenoh's threads only put messages in the line. Which rules hold for whom is read from the roster; when that changes, a
new session is opened with new rules, and devices connect again by themselves.
"""

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idiolect.deploy.access import needs_zenoh, server_config
from idiolect.deploy.assignment import Assignment
from idiolect.deploy.keys import Identity
from idiolect.deploy.roster import Roster, checked_name, read_roster
from idiolect.deploy.serving.reception import Reception
from idiolect.deploy.serving.status_file import write_status
from idiolect.deploy.wire import pack
from idiolect.errors import UserMistake

if TYPE_CHECKING:
    from zenoh import Query

_AT_ONCE = 256  # messages that are synced together
_WAITING = 10_000  # messages in the line; more are not taken
_LOOK_UP = 0.2  # seconds after which the server looks up, even if nothing has come
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
        self._line: queue.Queue[tuple[str, str, bytes, Query]] = queue.Queue(_WAITING)
        self._heard: dict[str, float] = {}  # by name: when it was heard last

    def run(self, done: Callable[[], bool], status: Path) -> None:
        """Answer until it is time to stop."""
        while not done():
            roster = self._roster()
            with self._listening(roster):
                self._answer_until(done, roster, status)

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
        try:
            waiting = [self._line.get(timeout=_LOOK_UP)]
        except queue.Empty:
            self._reception.commit()  # a round may be due
            return
        while len(waiting) < _AT_ONCE and not self._line.empty():
            waiting.append(self._line.get())
        # Updates first: whoever asks for a turn then gets the model that they came to, which is made once for all.
        waiting.sort(key=lambda message: message[1] != "upload")
        answers = [(query, self._reception.answer(name, verb, content)) for name, verb, content, query in waiting]
        self._reception.commit()
        self._moment("before reply")
        for query, answer in answers:
            _reply(query, answer)
        self._moment("after reply")

    @contextmanager
    def _listening(self, roster: Roster) -> Iterator[None]:
        config = server_config(self._identity, roster, self._endpoint, self._work.run)
        zenoh = needs_zenoh()
        try:
            session = zenoh.open(config)
        except zenoh.ZError as reason:
            raise UserMistake(f"--listen {self._endpoint} cannot be opened: {str(reason)[:200]}") from None
        with session:
            session.declare_queryable(f"idiolect/{self._work.run}/*/*", self._put)
            session.declare_queryable("idiolect/hello/*", self._greet)
            yield

    def _put(self, query: Any) -> None:
        """A message, on one of Zenoh's threads. Its key is all that tells whose it is, and the rules vouch for it."""
        *_, name, verb = str(query.key_expr).split("/")
        try:
            self._heard[checked_name(name)] = time.time()
            wait = self._reception.patience.wait(name)
            if wait > 0:
                return _reply(query, pack({"answer": "later", "seconds": round(wait, 3)}))
            self._line.put_nowait((name, verb, query.payload.to_bytes(), query))
        except queue.Full:
            _reply(query, pack({"answer": "later", "seconds": 1.0}))
        except (UserMistake, AttributeError):  # a name that is none, as only --insecure lets in; or no payload
            query.drop()

    def _greet(self, query: "Query") -> None:
        _reply(query, pack(self._work.about()))

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
