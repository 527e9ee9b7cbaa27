"""Ctrl-C and SIGTERM: a run is asked to stop at the next moment at which nothing is lost."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ASKED = {signal.SIGINT: "interrupted", signal.SIGTERM: "asked to end"}


class Stopping:
    """Whether somebody has asked the run to stop, and how."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def asked(self) -> bool:
        """Has somebody?"""
        return self.signal is not None

    @property
    def code(self) -> int:
        """The exit code by which shells know the signal."""
        return 128 + (self.signal or signal.SIGINT)


@contextmanager
def stopping_gently(say: Callable[[str], None]) -> Iterator[Stopping]:
    """While this lasts, the first signal only asks; a second Ctrl-C interrupts at once."""
    state = Stopping()

    def ask(number: int, frame: FrameType | None) -> None:
        if state.asked() and number == signal.SIGINT:
            raise KeyboardInterrupt
        state.signal = number
        say(f"{_ASKED[signal.Signals(number)]}; saving (again to stop at once)")

    if threading.current_thread() is not threading.main_thread():
        yield state
        return
    before = {number: signal.signal(number, ask) for number in _ASKED}
    try:
        yield state
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
