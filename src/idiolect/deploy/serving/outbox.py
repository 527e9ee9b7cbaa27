"""Answers on their way out, so that a device that does not read holds up nobody else.

To send may take long: Zenoh waits for a link whose other end does not read, and closes it after some seconds. One
thread sends everything; if it is held up, another takes its place, and the first one ends when it is free. What else is
for the one that held it up waits for that, a few answers at most; if they are dropped, it asks again.
"""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

_HELD_UP = 0.2  # seconds over one answer, after which another thread takes over
_TOO_LONG = 2.0  # seconds after which whoever it is for is told on
_BYTES = 64 * 2**20  # that may wait; whoever puts in more waits as well
_EACH = 4  # answers that wait for one who holds up a thread


class Outbox:
    """Sends answers by `send(query, answer)`, from threads of its own. `held_up` hears who does not read."""

    def __init__(
        self,
        send: Callable[[Any, bytes], None],
        held_up: Callable[[str], None] = lambda name: None,
        *,
        too_long: float = _TOO_LONG,
    ) -> None:
        self._send, self._held_up, self._too_long = send, held_up, too_long
        self._waiting: queue.SimpleQueue[tuple[str, Any, bytes] | None] = queue.SimpleQueue()
        self._lock, self._sent = threading.Lock(), threading.Condition()
        self._bytes, self._closed = 0, False
        self._stuck: dict[str, list[tuple[Any, bytes]]] = {}  # who holds up a thread that was given up; what waits
        self._busy: tuple[str, float] | None = None  # for whom the present one is sending, and since when
        self._thread = self._start()

    def put(self, name: str, query: Any, answer: bytes) -> None:
        """Send an answer when those before it are sent; waits while there are too many."""
        with self._sent:
            while self._bytes > _BYTES and not self._closed:
                self._sent.wait(_HELD_UP)
                self.look()
            self._bytes += len(answer)
        self._waiting.put((name, query, answer))

    def look(self) -> None:
        """See whether somebody holds up the thread; called every now and then."""
        with self._lock:
            if self._busy is not None and time.monotonic() - self._busy[1] > _HELD_UP:
                self._stuck[self._busy[0]] = []
                self._busy = None
                self._thread = self._start()

    def close(self) -> None:
        """Send what is there, as far as it is read."""
        self._closed = True
        self._waiting.put(None)
        while self._thread.is_alive():
            self._thread.join(_HELD_UP)
            self.look()

    def _start(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None:
            name, query, answer = item
            with self._lock:
                held = self._stuck.get(name)
                if held is None:
                    self._busy = (name, time.monotonic())
                elif len(held) < _EACH:
                    held.append((query, answer))
            if held is None and not self._deliver(name, query, answer):
                return
            with self._sent:
                self._bytes -= len(answer)
                self._sent.notify()
            del item, query, answer, held  # a question that is forgotten is over for Zenoh, too

    def _deliver(self, name: str, query: Any, answer: bytes) -> bool:
        """Send an answer; whether this thread goes on, or another one has taken its place."""
        more: list[tuple[Any, bytes]] | None = [(query, answer)]
        replaced = False
        while more:
            began = time.monotonic()
            self._send(*more.pop(0))
            if time.monotonic() - began > self._too_long:
                self._held_up(name)
            with self._lock:
                replaced = replaced or threading.current_thread() is not self._thread
                if not replaced:
                    self._busy = None
                elif not more:
                    more, self._stuck[name] = self._stuck[name], []
                    if not more:
                        del self._stuck[name]
        if replaced:
            with self._sent:
                self._bytes -= len(answer)
        return not replaced
