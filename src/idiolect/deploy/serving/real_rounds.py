"""Rounds on real devices: when one is opened and for whom, and when it is closed.

A round is opened for devices that are there, and closed when all of them have answered or, at the deadline, if at
least the quorum has. It is in the log before anybody hears of it: who takes part, as offers with its number, and its
end. So a server that dies in a round goes on in it, with the same members and the same model, which stays as it is
until the round closes.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from idiolect.contracts import Schedule
from idiolect.deploy.serving.desk import Desk
from idiolect.deploy.serving.turned_away import Rules
from idiolect.errors import UserMistake

_SOON, _ASKS = 0.25, 400.0  # seconds until a device asks again; all of them together ask so often a second, at most
_GATHERING = 1.0  # seconds that others have to come when there are enough for a round
_LONELY = 10.0  # seconds without enough devices after which it says so
_SHOWN = 5  # names in a sentence


def checked_quorum(rules: Rules, schedule: Schedule, clients: int) -> int:
    """How many updates a round needs; by default, as many as it has in simulations."""
    cohort = schedule.cohort(clients)
    most = cohort if schedule.cohort_only else clients
    quorum = cohort if rules.quorum is None else rules.quorum
    if quorum > most:
        raise UserMistake(f"--quorum is {quorum}, but a round of this recipe has {most} devices at most")
    return quorum


class RealRounds:
    """Opens and closes rounds, by records that `note(kind, name, **facts)` writes down."""

    def __init__(
        self,
        desk: Desk,
        rules: Rules,
        seed: int,
        note: Callable[..., None],
        now: Callable[[], float],
        *,
        notice: Callable[[str], None] = lambda sentence: None,
        read: Callable[[], float] = time.monotonic,
    ) -> None:
        self._desk, self._deadline, self._seed = desk, rules.deadline, seed
        clients = len(desk.free) + len(desk.members)
        self._schedule, self._quorum = desk.schedule, checked_quorum(rules, desk.schedule, clients)
        self._most = desk.schedule.cohort(clients) if desk.schedule.cohort_only else clients
        self._note, self._now, self._notice, self._read = note, now, notice, read
        self._here: dict[str, float] = {}  # when those who wait for a round asked last
        self._enough_since: float | None = None
        self._few_since: float | None = None
        self._told: tuple[int, str] | None = None  # of which round what was said last

    def wait(self, name: str) -> float:
        """A device is there, and is to ask again after so many seconds."""
        self._here[name] = self._read()
        return max(_SOON, len(self._here) / _ASKS)

    def decide(self, *, over: bool) -> None:
        """Close the round if that is due, and open the next one if there are enough and the run is not over."""
        if self._desk.opened is not None:
            self._close_if_due()
        if self._desk.opened is None and not over:
            self._open_if_due()

    def _close_if_due(self) -> None:
        desk, awaited = self._desk, self._desk.awaited
        assert desk.opened is not None
        if awaited and self._now() - desk.opened < self._deadline:
            return
        if awaited and desk.came < self._quorum:
            self._say(
                f"round {desk.round} has {desk.came} of the {self._quorum} updates that it needs after "
                f"{self._deadline:g} s; it goes on waiting for {_some(awaited)} (a lower --quorum goes on without them)"
            )
            return
        if awaited:
            self._say(f"round {desk.round} ends with {desk.came} updates, without {_some(awaited)}")
        self._note("close", "", round=desk.round)

    def _open_if_due(self) -> None:
        desk, now = self._desk, self._read()
        patience = 2.0 + 4 * max(_SOON, len(self._here) / _ASKS)
        self._here = {name: then for name, then in self._here.items() if now - then <= patience}
        if len(self._here) < self._quorum:
            self._enough_since = None
            self._few_since = now if self._few_since is None else self._few_since
            if now - self._few_since > _LONELY:
                self._say(f"a round needs {self._quorum} devices; the server waits until so many are there")
            return
        self._enough_since = now if self._enough_since is None else self._enough_since
        if len(self._here) < len(desk.members) and now - self._enough_since < _GATHERING:
            return
        for name in self._cohort():
            self._note("offer", name, turn=len(desk.recorder.client), round=desk.round)
        self._here, self._enough_since, self._few_since = {}, None, None

    def _cohort(self) -> list[str]:
        """Those who work in this round: the recipe's fraction of those who are there, and no fewer than the quorum."""
        there = sorted(self._here)
        size = min(max(self._quorum, self._schedule.cohort(len(there))), self._most, len(there))
        drawn = np.random.default_rng([self._seed, self._desk.round]).permutation(len(there))[:size]
        return [there[place] for place in sorted(drawn)]

    def _say(self, sentence: str) -> None:
        """Say something once in a round."""
        if self._told != (self._desk.round, sentence):
            self._told = (self._desk.round, sentence)
            self._notice(sentence)


def _some(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def round_status(desk: Desk) -> dict[str, Any]:
    """What an operator sees of rounds; nothing where there are none."""
    if not desk.schedule.rounds:
        return {}
    return {"round": {"number": desk.round, "updates": desk.came, "waits_for": desk.awaited}}
