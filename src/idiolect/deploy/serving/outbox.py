"""Answers on their way out, so that a device that does not read holds up nobody else.

To send may take long: Zenoh waits for a link whose other end does not read, and closes it after some seconds. One
thread sends everything; if it is held up, another takes its place, and the first one ends when it is free. While
somebody holds up a thread, what else is for it is dropped; if it ever listens again, it asks again.
"""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

_HELD_UP = 0.2  # seconds over one answer, after which another thread takes over
_BYTES = 64 * 2**20  # that may wait; whoever puts in more waits as well


class Outbox:
    """Sends answers by `send(query, answer)`, from threads of its own. `held_up` hears who does not read."""

    def __init__(self, send: Callable[[Any, bytes], None], held_up: Callable[[str], None] = lambda name: None) -> None:
        self._send, self._held_up = send, held_up
        self._waiting: queue.SimpleQueue[tuple[str, Any, bytes] | None] = queue.SimpleQueue()
        self._lock, self._sent = threading.Lock(), threading.Condition()
        self._bytes, self._closed = 0, False
        self._stuck: set[str] = set()  # for whom a thread waits that was given up
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
            if self._busy is None or time.monotonic() - self._busy[1] < _HELD_UP:
                return
            name, _ = self._busy
            self._stuck.add(name)
            self._busy = None
            self._thread = self._start()
        self._held_up(name)

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
        me = threading.current_thread()
        while (item := self._waiting.get()) is not None:
            name, query, answer = item
            with self._lock:
                dropped = name in self._stuck
                self._busy = None if dropped else (name, time.monotonic())
            if not dropped:
                self._send(query, answer)
            del item, query  # a question that is forgotten is over for Zenoh, too
            with self._sent:
                self._bytes -= len(answer)
                self._sent.notify()
            with self._lock:
                if self._thread is not me:
                    self._stuck.discard(name)
                    return
                self._busy = None
