"""A peer that lives on a network: it hears, wakes, keeps what it is, and only then tells the others.

Before it first wakes, at least one out-neighbour must have said what it last heard of this peer, and the others that
are there get a moment for it. If that is newer than the disk, the peer comes back as a new incarnation. Whoever comes
later is asked as well.
"""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from idiolect.deploy.peers.agent_disk import AgentDisk, log_line
from idiolect.deploy.peers.agent_state import AgentState, Waking, say_again
from idiolect.deploy.peers.letters import Letter
from idiolect.deploy.peers.parcels import Unpacker, packed
from idiolect.deploy.peers.peer_inbox import PeerInbox
from idiolect.deploy.peers.peer_session import PeerSession, Postman
from idiolect.deploy.peers.peer_setup import PeerSetup
from idiolect.deploy.wire import WireError
from idiolect.errors import Diverged

_LOOK_UP = 0.2  # seconds between looks at whether to stop
_ASK_AGAIN = 0.5


class Habits(NamedTuple):
    """How a peer behaves in time. None of it changes what it computes.

    Args:
        repeat: Seconds after which it says its last letter again.
        pace: Seconds between two wakings, at least.
        patience: Seconds without news after which it wakes all the same, if it has weight enough.
        silence: Seconds without a word of an in-neighbour after which the session is opened again.
        leave: Seconds after its last round after which it leaves; without, it stays and repeats.
    """

    repeat: float = 1.0
    pace: float = 0.0
    patience: float = 5.0
    silence: float = 60.0
    leave: float | None = None


class LivePeer:
    """One peer while it lives."""

    def __init__(
        self,
        setup: PeerSetup,
        disk: AgentDisk,
        inbox: PeerInbox,
        session: PeerSession,
        habits: Habits,
        say: Callable[[str], None],
    ) -> None:
        self.setup, self._disk, self._inbox, self._session = setup, disk, inbox, session
        self._habits, self._say = habits, say
        first = setup.agent.begin()
        found = disk.load(first)
        self.state: AgentState = first if found is None else found
        self._unpackers = {name: Unpacker(name, first.said) for name in setup.place.hears}
        self._own_letter = Unpacker(setup.place.name, first.said)
        keep_all = setup.agent.peer.carries == "shares"
        self._postman = Postman(session.publish, habits.repeat, keep_all)
        self._answered_at, self.finished_at = math.inf, math.inf
        self.last_woke, self._reopened = time.monotonic(), time.monotonic()
        self.refused: Counter[str] = Counter()
        self.loss, self.resting = math.nan, False
        self._alive = True

    def run(self, stop: Callable[[], bool], watch: Callable[["LivePeer"], None]) -> None:
        """Live until asked to stop, or until it has left; `watch` looks at it now and then."""
        self._inbox.unanswered |= set(self.setup.place.tells)
        self._session.open()
        asking = threading.Thread(target=self._ask, daemon=True)
        asking.start()
        self._tell()
        try:
            while not stop() and time.monotonic() < self.finished_at + (self._habits.leave or math.inf):
                self._hear(min(_LOOK_UP, self._habits.repeat))
                while self.answered and self._may_wake() and self._wake():
                    watch(self)
                    self._hear(0.0)
                self._mind_silence()
                watch(self)
        finally:
            self._alive = False
            self._postman.stop()
            self._session.close()

    @property
    def answered(self) -> bool:
        """Has somebody said what it last heard of this peer, and everybody who is there, or has it waited for them?"""
        asked = {
            other for other in self._inbox.unanswered & set(self.setup.place.tells) if self._inbox.alive.get(other)
        }
        waited = time.monotonic() - self._answered_at
        return waited > self._habits.patience or (waited >= 0 and not asked)

    def recall(self, other: str) -> list[bytes]:
        """What was last heard of an in-neighbour, and is on the disk, as parcels."""
        letter = self.setup.agent.recall(self.state, other)
        return [] if letter is None else packed(letter)

    def _hear(self, seconds: float) -> None:
        parcels, answers = self._inbox.take(seconds)
        for other, content in answers:
            self._take_answer(other, content)
        for sender, parcel in parcels:
            try:
                letter = self._unpackers[sender].add(parcel)
            except WireError as reason:
                self._refuse(sender, str(reason))
                continue
            if letter is not None:
                self.state, wrong = self.setup.agent.heard(self.state, letter)
                if wrong:
                    self._refuse(sender, wrong)

    def _take_answer(self, other: str, parcels: list[bytes]) -> None:
        self._answered_at = min(self._answered_at, time.monotonic())
        letter: Letter | None = None
        try:
            for parcel in parcels:
                letter = self._own_letter.add(parcel)
        except WireError as reason:
            self._refuse(other, f"{reason} (an answer)")
        if letter is None:
            return
        before, self.state = self.state, self.setup.agent.rejoin(self.state, letter)
        if self.state is not before:
            number, behind = self.state.stamp.incarnation, letter.stamp.round - before.stamp.round
            self._disk.save(self.state, {"incarnation": number, "round": letter.stamp.round})
            self._say(
                f"{other} has heard {behind} rounds more of {self.setup.place.name} than its disk knows; it comes back "
                f"as incarnation {number}, and the steps it took since then are undone"
            )
            self._tell()

    def _may_wake(self) -> bool:
        return time.monotonic() - self.last_woke >= self._habits.pace

    def _wake(self) -> bool:
        patient = time.monotonic() - self.last_woke > self._habits.patience
        found = self.setup.agent.wake(self.state, patient)
        self.resting = found is None and bool(self.state.mail)
        if found is None:
            return False
        state, waking = found
        if waking.spoke and not math.isfinite(waking.loss):
            raise Diverged(f"the loss of {self.setup.place.name} is {waking.loss} in round {waking.round}")
        self._disk.save(state, log_line(waking))  # before anything is sent
        self.state, self.last_woke = state, time.monotonic()
        self._note(waking)
        if waking.spoke:
            self._tell()
        if state.clock >= self.setup.horizon - 1:
            self.finished_at = time.monotonic()
        return True

    def _note(self, waking: Waking) -> None:
        self.loss = waking.loss if waking.spoke else self.loss
        for sender, reason in waking.refused.items():
            self._refuse(sender, reason)
        if waking.slept:
            self._say(f"it slept for so long that the step sizes of {waking.slept} rounds are left out (catch_up)")

    def _tell(self) -> None:
        letter = say_again(self.state, self.setup.place.name)
        if letter is not None:
            self._postman.give(packed(letter))

    def _refuse(self, sender: str, reason: str) -> None:
        what = f"{sender}: {reason}"
        if not self.refused[what]:
            self._say(f"a letter of {sender} is refused: {reason}")
        self.refused[what] += 1

    def _mind_silence(self) -> None:
        """Open the session again if an in-neighbour that spoke has long been silent: it may be ours that is deaf."""
        now = time.monotonic()
        latest = [self._inbox.heard_at.get(name, now) for name in self.setup.place.hears]
        if now - max(self._reopened, min(latest)) > self._habits.silence:
            self._reopened = now
            self._session.reopen()

    def _ask(self) -> None:
        while self._alive:
            for other in sorted(self._inbox.unanswered & set(self.setup.place.tells)):
                parcels = self._session.ask(other)
                if parcels is not None and self._alive:
                    self._inbox.put_answer(other, parcels)
            time.sleep(_ASK_AGAIN)
