"""Who is refused: updates that cannot be right, found before they are logged, and devices that ask too often.

Only what a message shows by itself is judged here. Whether an update is too long depends on what others have sent, and
is judged in the order of the log (`engines.screening`), so that it is remembered with everything else.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

FORGIVEN = 3  # refusals in a row before a device is put off
LONGEST = 3600.0  # seconds for which it is
_HEAVIEST = 2**31 - 1


class Rules(NamedTuple):
    """What a server takes.

    Args:
        stale_after: An update that began with a model so many versions old is refused.
        rate: Messages a second that a device may send.
        burst: How many at once.
        score_every: After so many updates, devices are asked for scores; 0: never.
        checkpoint_every: Records between two checkpoints.
        deadline: Seconds after which a round may close without those who have not answered.
        quorum: Updates that it needs for that; by default, as many as a round has in simulations.
    """

    stale_after: int = 10_000
    rate: float = 200.0
    burst: float = 400.0
    score_every: int = 0
    checkpoint_every: int = 1000
    deadline: float = 60.0
    quorum: int | None = None


def fault_in(said: Mapping[str, Any], tensors: Mapping[str, np.ndarray], expected: Mapping[str, Any]) -> str:
    """Why an update must not be logged; empty if it may. `expected` has the shapes and dtypes by name."""
    weight = said.get("weight")
    if not isinstance(weight, int) or isinstance(weight, bool) or not 0 < weight <= _HEAVIEST:
        return "wrong weight"
    if tensors.keys() != expected.keys():
        return "wrong shape"
    for name, wanted in expected.items():
        if tensors[name].shape != wanted.shape:
            return "wrong shape"
        if tensors[name].dtype != wanted.dtype:
            return "wrong dtype"
    if said.get("fault") is not False or not all(_finite(array) for array in tensors.values()):
        return "not finite"
    return ""


def _finite(array: np.ndarray) -> bool:
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


class Patience:
    """With whom the server is patient: too many messages a second, or too many refusals in a row, must wait."""

    def __init__(self, rules: Rules, read: Callable[[], float] = time.monotonic) -> None:
        self._rules, self._read, self._lock = rules, read, threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}  # by name: messages left, and when that was
        self._strikes: dict[str, int] = {}
        self._until: dict[str, float] = {}

    def wait(self, name: str) -> float:
        """For how many seconds a device must not ask; asking counts. Any thread may call this."""
        with self._lock:
            now = self._read()
            left, then = self._left.get(name, (self._rules.burst, now))
            left = min(self._rules.burst, left + (now - then) * self._rules.rate)
            self._left[name] = (max(left - 1, 0.0), now)
            slow = 0.0 if left >= 1 else (1 - left) / self._rules.rate
            return max(slow, self._until.get(name, now) - now)

    def strike(self, name: str) -> None:
        """A device was refused."""
        with self._lock:
            self._strikes[name] = count = self._strikes.get(name, 0) + 1
            if count > FORGIVEN:
                self._until[name] = self._read() + min(2.0 ** (count - FORGIVEN), LONGEST)

    def praise(self, name: str) -> None:
        """Something of it was taken."""
        with self._lock:
            self._strikes.pop(name, None)
