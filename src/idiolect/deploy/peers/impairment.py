"""A filter that mistreats what arrives: it drops, delays, doubles and reorders, by a seed. For trials and tests.

It stands between the transport and the peer, so that a network without loss shows what a bad one would do. TCP hides
loss; this does not.
"""

import heapq
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from idiolect.errors import UserMistake


class Impairment(NamedTuple):
    """What happens to each parcel: shares of them, and seconds. Delays differ, and so parcels overtake each other."""

    loss: float = 0.0
    doubles: float = 0.0
    delay: float = 0.0  # at most, uniformly drawn
    seed: int = 0


def read_impairment(text: str) -> Impairment:
    """Such as loss=0.3,doubles=0.1,delay=0.5,seed=1."""
    found = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name not in Impairment._fields:
            raise UserMistake(f"--impair has '{name}', but knows {', '.join(Impairment._fields)}")
        try:
            found[name] = int(value) if name == "seed" else float(value)
        except ValueError:
            raise UserMistake(f"--impair has {name}='{value}', which is no number") from None
        if found[name] < 0 or (name in ("loss", "doubles") and found[name] > 1):
            raise UserMistake(
                f"--impair has {name}={value}, which must be {'0 to 1' if name != 'delay' else 'at least 0'}"
            )
    return Impairment(**found)  # type: ignore[arg-type]


class Mistreatment:
    """Passes parcels on as the impairment says, from a thread of its own if they are late."""

    def __init__(self, impairment: Impairment, pass_on: Callable[[str, bytes], None]) -> None:
        self._impairment, self._pass_on = impairment, pass_on
        self._rng = np.random.default_rng(impairment.seed)
        self._late: list[tuple[float, int, str, bytes]] = []
        self._count, self._change = 0, threading.Condition()
        threading.Thread(target=self._deliver, daemon=True).start()

    def __call__(self, sender: str, parcel: bytes) -> None:
        """A parcel has arrived."""
        with self._change:
            copies = int(self._rng.random() >= self._impairment.loss) + int(
                self._rng.random() < self._impairment.doubles
            )
            for _ in range(copies):
                self._count += 1
                due = time.monotonic() + self._rng.random() * self._impairment.delay
                heapq.heappush(self._late, (due, self._count, sender, parcel))
            self._change.notify()

    def _deliver(self) -> None:
        while True:
            with self._change:
                wait = self._late[0][0] - time.monotonic() if self._late else None
                if wait is None or wait > 0:
                    self._change.wait(wait)
                    continue
                _, _, sender, parcel = heapq.heappop(self._late)
            self._pass_on(sender, parcel)
