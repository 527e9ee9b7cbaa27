"""`idiolect peer`: one peer as a process, with a lock on its folder and a status that others can read."""

import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from idiolect.deploy.access import needs_zenoh
from idiolect.deploy.keys import Identity, read_identity
from idiolect.deploy.peers.agent_disk import AgentDisk
from idiolect.deploy.peers.graph_files import PeerGraph
from idiolect.deploy.peers.impairment import Impairment, Mistreatment
from idiolect.deploy.peers.live_peer import Habits, LivePeer
from idiolect.deploy.peers.parcels import largest_letter
from idiolect.deploy.peers.peer_access import config_of
from idiolect.deploy.peers.peer_inbox import PeerInbox
from idiolect.deploy.peers.peer_session import PeerSession
from idiolect.deploy.peers.peer_setup import PeerSetup
from idiolect.deploy.roster import Roster, read_roster
from idiolect.deploy.wire import chunks_of
from idiolect.errors import UserMistake
from idiolect.files import make_folder, write_atomically

STATUS, LOCK = "status.json", ".lock"
_SHARES = 64  # letters of one sender that wait, where every one counts
_EVERY = 1.0  # seconds between two reports of its status


class Where(NamedTuple):
    """Where a peer lives: the graph, its folder, its keys (None without TLS), and what mistreats its mail."""

    graph: PeerGraph
    state: Path
    keys: Path | None
    impairment: Impairment | None = None


def run_peer(
    setup: PeerSetup, where: Where, habits: Habits, *, stop: Callable[[], bool], say: Callable[[str], None]
) -> dict[str, Any]:
    """Live as this peer until asked to stop; its last status."""
    needs_zenoh()
    make_folder(where.state)
    try:
        with FileLock(where.state / LOCK, timeout=0):
            return _live(setup, where, habits, stop, say)
    except Timeout:
        raise UserMistake(f"--state {where.state} is in use by another process, perhaps the same peer") from None


def _live(
    setup: PeerSetup, where: Where, habits: Habits, stop: Callable[[], bool], say: Callable[[str], None]
) -> dict[str, Any]:
    name, (identity, roster) = setup.place.name, _identity(where, setup.place.name)
    deep = chunks_of(largest_letter(setup.agent.begin().said))
    deep *= _SHARES if setup.agent.peer.carries == "shares" else 1
    inbox, holder = PeerInbox(deep), list[LivePeer]()
    hear = inbox.put_parcel if where.impairment is None else Mistreatment(where.impairment, inbox.put_parcel)
    session = PeerSession(
        lambda: config_of(where.graph, name, identity, roster),
        where.graph.name,
        setup.place,
        deep=deep,
        on_parcel=hear,
        answer=lambda other: holder[0].recall(other),
        on_alive=inbox.put_alive,
    )
    peer = LivePeer(setup, AgentDisk(where.state, setup.owner, say), inbox, session, habits, say)
    holder.append(peer)
    report = _Report(setup, where.state / STATUS, inbox, say)
    peer.run(stop, report.watch)
    return report.write(peer, running=False)


def _identity(where: Where, name: str) -> tuple[Identity | None, Roster]:
    if where.keys is None:
        return None, Roster({})
    identity = read_identity(where.keys)
    if identity.name != name:
        raise UserMistake(f"--keys {where.keys} is the identity of {identity.name}, but --as is {name}")
    return identity, read_roster(identity.roster, identity.ca)


class _Report:
    """Writes a peer's status now and then, and scores it when it is time for that."""

    def __init__(self, setup: PeerSetup, path: Path, inbox: PeerInbox, say: Callable[[str], None]) -> None:
        self._setup, self._path, self._inbox, self._say = setup, path, inbox, say
        self._times, self._scores = list(setup.plan.times), dict[str, float]()
        self._written, self._scored_in = 0.0, -1

    def watch(self, peer: LivePeer) -> None:
        due = [moment for moment in self._times if moment <= peer.state.clock + 1]
        if due and peer.state.stamp.round >= 0 and self._setup.agent.weight(peer.state) > 0:
            self._times = self._times[len(due) :]
            self._scores, self._scored_in = self._setup.score(peer.state), peer.state.clock
            column = self._setup.plan.headline
            shown = f"{self._scores.get(column, float('nan')):.4f} ({column})"
            weight = self._setup.agent.weight(peer.state)
            loss = "none yet" if math.isnan(peer.loss) else f"{peer.loss:.4f}"
            self._say(f"round {peer.state.clock}: loss {loss}, score {shown}, y {weight:.4f}")
        if time.monotonic() - self._written > _EVERY:
            self.write(peer, running=True)

    def write(self, peer: LivePeer, *, running: bool) -> dict[str, Any]:
        """Write the status down, for `idiolect network status`; what it says."""
        state, now = peer.state, time.monotonic()
        neighbours = {
            other: {
                "round": state.known[other].round if other in state.known else None,
                "silent": round(now - self._inbox.heard_at[other], 1) if other in self._inbox.heard_at else None,
                "alive": self._inbox.alive.get(other, False),
            }
            for other in self._setup.place.hears
        }
        status = {
            "name": self._setup.place.name,
            "pid": os.getpid(),
            "running": running,
            "written": time.time(),
            "incarnation": state.stamp.incarnation,
            "round": state.clock,
            "horizon": self._setup.horizon,
            "wakings": state.wakings,
            "y": self._setup.agent.weight(state),
            "loss": peer.loss if peer.loss == peer.loss else None,
            "scores": self._scores,
            "scored_in": self._scored_in,
            "resting": peer.resting,
            "waiting": not peer.answered,
            "hears": neighbours,
            "refused": dict(peer.refused),
        }
        write_atomically(self._path, json.dumps(status).encode())
        self._written = now
        return status
