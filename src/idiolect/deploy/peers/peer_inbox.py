"""What comes to a peer from the threads of its session, for its own thread to take: parcels, answers, arrivals."""

import threading
import time
from collections import deque


class PeerInbox:
    """Waits for what comes, and keeps no more of one sender than is of use."""

    def __init__(self, deep: int) -> None:
        self._deep, self._news = deep, threading.Condition()
        self._parcels: dict[str, deque[bytes]] = {}
        self._answers: deque[tuple[str, list[bytes]]] = deque()
        self.heard_at: dict[str, float] = {}  # when the last parcel of each came
        self.alive: dict[str, bool] = {}
        self.unanswered: set[str] = set()  # whom to ask what they heard

    def put_parcel(self, sender: str, parcel: bytes) -> None:
        """A parcel has come."""
        with self._news:
            self._parcels.setdefault(sender, deque(maxlen=self._deep)).append(parcel)
            self.heard_at[sender] = time.monotonic()
            self._news.notify()

    def put_answer(self, other: str, parcels: list[bytes]) -> None:
        """An out-neighbour has answered what it last heard."""
        with self._news:
            self._answers.append((other, parcels))
            self.unanswered.discard(other)
            self._news.notify()

    def put_alive(self, other: str, there: bool) -> None:
        """A neighbour has come, and may know something new; or it has gone."""
        with self._news:
            self.alive[other] = there
            if there:
                self.unanswered.add(other)
            self._news.notify()

    def take(self, seconds: float) -> tuple[list[tuple[str, bytes]], list[tuple[str, list[bytes]]]]:
        """All parcels and answers that have come; waits for some, but not longer than this."""
        with self._news:
            if not self._answers and not any(self._parcels.values()):
                self._news.wait(seconds)
            parcels = [(sender, parcel) for sender, waiting in self._parcels.items() for parcel in waiting]
            answers = list(self._answers)
            self._parcels, self._answers = {}, deque()
            return parcels, answers
