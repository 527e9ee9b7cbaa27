"""The line from a device to its server: asks until there is an answer, by a new session if the old one is dead."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from idiolect import __version__
from idiolect.deploy.access import MESSAGE_BYTES, device_config, needs_zenoh
from idiolect.deploy.assignment import FORMAT, Assignment
from idiolect.deploy.keys import Identity
from idiolect.deploy.wire import Message, WireError, pack, unpack
from idiolect.errors import Interrupted, UserMistake

_ANSWER = 30.0  # seconds to wait for an answer
_SHORTEST, _LONGEST = 0.2, 10.0  # seconds between two attempts
_REOPEN = 5  # attempts in vain after which a new session is opened


class Line:
    """A session with a server, for one device."""

    def __init__(
        self,
        identity: Identity | None,
        name: str,
        endpoint: str,
        *,
        stop: Callable[[], bool] = lambda: False,
        notice: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._config = partial(device_config, identity, endpoint, name)
        self._name, self._endpoint, self._stop, self._notice = name, endpoint, stop, notice
        self._silent, self.run = False, ""
        self._zenoh: Any = needs_zenoh()
        self._session: Any = None  # while it is open

    def greet(self, work: Assignment) -> None:
        """Find out whether the server works on the same, and say how it differs if it does not."""
        theirs = self._until_answered(f"idiolect/hello/{self._name}", pack({})).header
        check_same_work(theirs, work, f"at {self._endpoint}")
        if theirs.get("version") != __version__:
            self._notice(f"the server has idiolect {theirs.get('version')}, and this device {__version__}")
        self.run = work.run

    def ask(self, verb: str, content: bytes) -> Message:
        """Send a message until there is an answer; a server that says `later` or `wait` is asked later."""
        while True:
            found = self._until_answered(f"idiolect/{self.run}/{self._name}/{verb}", content)
            answer = found.header.get("answer")
            if answer not in ("later", "wait"):
                return found
            if answer == "later":
                self._notice(f"the server puts this device off for {found.header.get('seconds')} seconds")
            self._sleep(min(float(found.header["seconds"]), 3600.0))

    def close(self) -> None:
        """End the session."""
        if self._session is not None:
            with suppress(Exception):
                self._session.close()
        self._session = None

    def _until_answered(self, key: str, content: bytes) -> Message:
        wait, failed = _SHORTEST, 0
        while True:
            try:
                found = self._once(key, content)
            except (self._zenoh.ZError, WireError):
                found = None
            if found is not None:
                if self._silent:
                    self._notice(f"the server at {self._endpoint} answers again")
                self._silent = False
                return found
            if not self._silent and failed >= 1:
                self._silent = True
                self._notice(f"nobody answers {self._name} at {self._endpoint}; it goes on trying (is it let in?)")
            failed += 1
            if failed % _REOPEN == 0:
                self.close()
            self._sleep(wait)
            wait = min(wait * 1.5, _LONGEST)

    def _once(self, key: str, content: bytes) -> Message | None:
        session = self._opened()
        for reply in session.get(key, payload=content, timeout=_ANSWER):
            if reply.ok is not None:
                return unpack(reply.ok.payload.to_bytes(), limit=MESSAGE_BYTES)
        return None

    def _opened(self) -> Any:
        if self._session is None:
            self._session = self._zenoh.open(self._config())
        return self._session

    def _sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self._stop():
                raise Interrupted
            time.sleep(min(left, 0.2))


def check_same_work(theirs: Mapping[str, Any], work: Assignment, where: str) -> None:
    """Say how what a server says of itself differs from what this device works on, if it does."""
    if theirs.get("format") != FORMAT:
        raise UserMistake(
            f"the server {where} speaks another version of messages ({theirs.get('format')}, not {FORMAT}); install "
            f"the same idiolect on both sides"
        )
    if theirs.get("identity") != work.identity:
        raise UserMistake(
            f"the server {where} serves {theirs.get('experiment')}, {theirs.get('algorithm')}, seed "
            f"{theirs.get('seed')}, but not as this recipe has it; give both the same recipe and settings"
        )
