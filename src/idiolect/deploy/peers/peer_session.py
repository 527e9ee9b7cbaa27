"""A peer's session on Zenoh: it publishes its letters, hears its in-neighbours, asks and answers what was heard.

What was measured and is minded here: messages that may be dropped are lost nine times of ten in a burst, so senders
BLOCK, in a thread of their own; only the newest sum counts, so a ring keeps as many parcels as a letter has; tokens of
liveliness come through a FIFO, as none of them may be missed; endpoints are explicit, and connecting is tried for ever.
After an unclean loss of a peer a session may stay deaf to it, and is opened again (`reopen`).
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from idiolect.deploy.access import needs_zenoh
from idiolect.deploy.peers import peer_access
from idiolect.deploy.peers.letters import Neighbours

if TYPE_CHECKING:
    from zenoh import Config

_ANSWER_SECONDS = 5.0
_CLOSING_SECONDS = 2.0


class PeerSession:
    """The transport of one peer. Callbacks come from threads of this session.

    Args:
        config: Makes the configuration; called again whenever the session is opened again.
        network: The network's name.
        place: Who this peer hears and tells.
        deep: How many parcels of one sender wait at most.
        on_parcel: Hears every parcel: (sender, bytes).
        answer: The parcels of what was last heard of an in-neighbour; empty if nothing was.
        on_alive: Hears who came, and who went.
    """

    def __init__(
        self,
        config: Callable[[], "Config"],
        network: str,
        place: Neighbours,
        *,
        deep: int,
        on_parcel: Callable[[str, bytes], None],
        answer: Callable[[str], list[bytes]],
        on_alive: Callable[[str, bool], None],
    ) -> None:
        self._zenoh = needs_zenoh()
        self._config, self._network, self._place, self._deep = config, network, place, deep
        self._on_parcel, self._answer, self._on_alive = on_parcel, answer, on_alive
        self._session: Any = None
        self._lock = threading.Lock()  # over opening and closing

    def open(self) -> None:
        """Listen, connect, and declare what this peer says, hears and answers."""
        zenoh, net, place = self._zenoh, self._network, self._place
        with self._lock:
            session = zenoh.open(self._config())
            self._kept: list[Any] = []
            for other in place.hears:
                ring = zenoh.handlers.RingChannel(self._deep)
                others = zenoh.Locality.REMOTE
                mail = session.declare_subscriber(peer_access.says(net, other), ring, allowed_origin=others)
                self._follow(mail, other, self._heard_parcel)
                key = peer_access.heard(net, place.name, other)
                self._kept.append(session.declare_queryable(key, lambda query, of=other: self._answered(query, of)))
            for other in dict.fromkeys([*place.hears, *place.tells]):
                fifo = zenoh.handlers.FifoChannel(1000)
                tokens = session.liveliness().declare_subscriber(peer_access.alive(net, other), fifo, history=True)
                self._follow(tokens, other, self._heard_token)
            self._kept.append(session.liveliness().declare_token(peer_access.alive(net, place.name)))
            self._session = session

    def close(self) -> None:
        """End the session; a session that hangs is left to itself."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            closing = threading.Thread(target=_close, args=(session,), daemon=True)
            closing.start()
            closing.join(_CLOSING_SECONDS)

    def reopen(self) -> None:
        """Open a new session in place of one that may have gone deaf."""
        self.close()
        self.open()

    def publish(self, parcels: list[bytes]) -> None:
        """Tell the out-neighbours; waits while a link is full."""
        block = self._zenoh.CongestionControl.BLOCK
        for number, parcel in enumerate(parcels):
            session = self._session
            if session is not None:
                with contextlib.suppress(self._zenoh.ZError):  # it was closed meanwhile; the letter is said again
                    key = peer_access.says(self._network, self._place.name, number)
                    session.put(key, parcel, congestion_control=block)

    def ask(self, other: str, timeout: float = _ANSWER_SECONDS) -> list[bytes] | None:
        """The parcels of what an out-neighbour last heard of this peer; None if it does not answer."""
        session = self._session
        if session is None:
            return None
        parcels: list[bytes] = []
        key, total = peer_access.heard(self._network, other, self._place.name), 1
        while len(parcels) < total:
            try:
                replies = [reply for reply in session.get(f"{key}?part={len(parcels)}", timeout=timeout) if reply.ok]
            except self._zenoh.ZError:
                return None
            if not replies or replies[0].ok.attachment is None:
                return None
            attached = replies[0].ok.attachment.to_bytes()
            total = int.from_bytes(attached[:4], "little")
            if total > self._deep:
                return None  # no letter has so many, and one that never ends is not asked for
            if total:
                parcels.append(replies[0].ok.payload.to_bytes())
        return parcels

    def _follow(self, subscriber: Any, other: str, hear: Callable[[str, Any], None]) -> None:
        """Read a channel in a thread, until it is closed."""

        def read() -> None:
            with contextlib.suppress(self._zenoh.ZError, StopIteration):
                for sample in subscriber:
                    hear(other, sample)

        self._kept.append(subscriber)
        threading.Thread(target=read, daemon=True).start()

    def _heard_parcel(self, other: str, sample: Any) -> None:
        self._on_parcel(other, sample.payload.to_bytes())

    def _heard_token(self, other: str, sample: Any) -> None:
        self._on_alive(other, sample.kind == self._zenoh.SampleKind.PUT)

    def _answered(self, query: Any, of: str) -> None:
        with query:
            parcels, wanted = self._answer(of), query.parameters.get("part") or "0"
            part = int(wanted) if wanted.isdecimal() and int(wanted) < len(parcels) else 0
            payload = parcels[part] if parcels else b""
            query.reply(query.key_expr, payload, attachment=len(parcels).to_bytes(4, "little"))


def _close(session: Any) -> None:
    with contextlib.suppress(Exception):  # whatever state it is in
        session.close()


class Postman:
    """Sends the newest letter, and again every so often; a link that is full stops nobody but this thread.

    A newer sum or copy replaces one that has not been sent; every share is sent.
    """

    def __init__(self, publish: Callable[[list[bytes]], None], again: float, keep_all: bool) -> None:
        self._publish, self._again = publish, again
        self._waiting: deque[list[bytes]] = deque(maxlen=None if keep_all else 1)
        self._last: list[bytes] = []
        self._news, self._stopping = threading.Condition(), False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def give(self, parcels: list[bytes]) -> None:
        """Have a letter sent."""
        with self._news:
            self._waiting.append(parcels)
            self._news.notify()

    def stop(self) -> None:
        """Send no more."""
        with self._news:
            self._stopping = True
            self._news.notify()

    def _work(self) -> None:
        while True:
            with self._news:
                if not self._waiting and not self._stopping:
                    self._news.wait(self._again)
                if self._stopping:
                    return
                if self._waiting:
                    self._last = self._waiting.popleft()
            if self._last:
                self._publish(self._last)
