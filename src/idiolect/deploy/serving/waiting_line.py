"""The line in which messages wait for the server: bounded in messages, in bytes, and for each device by itself."""

import threading
from collections import Counter, deque
from typing import Any, NamedTuple

_AT_ONCE, _BYTES_AT_ONCE = 256, 32 * 2**20  # messages that are synced together, and their bytes


class Waiting(NamedTuple):
    """A message, whose it is, and the question that it came as."""

    name: str
    verb: str
    content: bytes
    query: Any


class WaitingLine:
    """Any thread may put messages in; one takes them out, in the order in which they came.

    A device asks one question at a time, and once more if nothing comes; `each` is how many of its messages wait at
    most. So whoever sends more than that takes nobody's place.
    """

    def __init__(self, most: int = 10_000, most_bytes: int = 64 * 2**20, each: int = 4) -> None:
        self._most, self._most_bytes, self._each = most, most_bytes, each
        self._line: deque[Waiting] = deque()
        self._of: Counter[str] = Counter()
        self._bytes, self._came = 0, threading.Condition()

    def put(self, message: Waiting) -> bool:
        """Let a message wait; whether there was room."""
        with self._came:
            size = self._bytes + len(message.content)
            # A message that finds nobody before it has room in any case.
            full = len(self._line) >= self._most or (self._line and size > self._most_bytes)
            if full or self._of[message.name] >= self._each:
                return False
            self._line.append(message)
            self._of[message.name] += 1
            self._bytes = size
            self._came.notify()
            return True

    def some(self, seconds: float) -> list[Waiting]:
        """Those that wait, as many as are answered together; if there are none, those that come within a while."""
        found, size = list[Waiting](), 0
        with self._came:
            if not self._line:
                self._came.wait(seconds)
            while self._line and len(found) < _AT_ONCE and size < _BYTES_AT_ONCE:
                message = self._line.popleft()
                found.append(message)
                size += len(message.content)
                self._of[message.name] -= 1
                if not self._of[message.name]:
                    del self._of[message.name]
            self._bytes -= size
        return found
