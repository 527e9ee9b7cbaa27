"""Live peers in threads on a network in memory: mistreated mail, garbage, full disks, lost power, skewed clocks."""

import errno
import functools
import os
import pickle
import threading
import time

import jax
import numpy as np
import pytest

from idiolect.deploy import wire
from idiolect.deploy.peers import live_peer
from idiolect.deploy.peers.agent_disk import AgentDisk, log_line
from idiolect.deploy.peers.agent_state import say_again
from idiolect.deploy.peers.impairment import Impairment, Mistreatment, read_impairment
from idiolect.deploy.peers.letters import Stamp
from idiolect.deploy.peers.live_peer import Habits, LivePeer
from idiolect.deploy.peers.network_ledger import take_peer_stock
from idiolect.deploy.peers.parcels import Unpacker, packed
from idiolect.deploy.peers.peer_inbox import PeerInbox
from idiolect.deploy.peers.peer_setup import PeerSetup
from idiolect.errors import UserMistake
from idiolect.network.topologies import ring
from idiolect.protocols import running_sum
from idiolect.testing.small_clients import N
from tests.deploy.storm import Storm, agents_on, neighbours
from tests.survival.losing_disk import LosingDisk, PowerLoss

RING = ring(directed=False)(N, np.random.default_rng(0))
HABITS = Habits(repeat=0.05, patience=0.3)
ENOUGH = 40  # rounds


@functools.cache
def compiled():
    return agents_on(RING, running_sum())


def setup_of(name: str) -> PeerSetup:
    place = neighbours(RING)[int(name[1:])]
    return PeerSetup(place, compiled()[name], f"owner of {name}", 100_000, None, lambda state: {})


class MemorySession:
    """A session as peers see it, between inboxes of this process."""

    def __init__(self, name: str, hub: dict) -> None:
        self.name, self.hub, self.sent = name, hub, []
        hub[name] = self

    def open(self) -> None:
        """Nothing has to be opened."""

    def close(self) -> None:
        """Nor closed."""

    def reopen(self) -> None:
        """Nor opened again."""

    def publish(self, parcels: list[bytes]) -> None:
        self.sent += parcels
        for other in neighbours(RING)[int(self.name[1:])].tells:
            if other in self.hub:
                for parcel in parcels:
                    self.hub[other].hear(self.name, parcel)

    def ask(self, other: str) -> list[bytes] | None:
        return self.hub[other].peer.recall(self.name) if other in self.hub else None


def peer_in(tmp_path, name: str, hub: dict, impairment: Impairment = Impairment(), say=lambda text: None) -> LivePeer:
    inbox, session = PeerInbox(1), MemorySession(name, hub)
    session.hear = Mistreatment(impairment, inbox.put_parcel)
    session.peer = LivePeer(setup_of(name), AgentDisk(tmp_path / name, f"owner of {name}"), inbox, session, HABITS, say)
    return session.peer


def stock(states: dict):
    agents = compiled()
    return take_peer_stock(agents["a0"].peer, states, {name: agent.start for name, agent in agents.items()})


# --- Mistreated mail -------------------------------------------------------------------------------------------------


def test_mail_that_is_lost_late_doubled_and_out_of_order_loses_no_mass_and_no_wall_clock_is_read(tmp_path, monkeypatch):
    hub, read = {}, time.time
    peers = [
        peer_in(tmp_path, name, hub, Impairment(loss=0.3, doubles=0.3, delay=0.02, seed=seed))
        for seed, name in enumerate(compiled())
    ]

    class Monotonic:
        monotonic, sleep = staticmethod(time.monotonic), staticmethod(time.sleep)  # and no time()

    monkeypatch.setattr(live_peer, "time", Monotonic)
    end = read() + 60

    def enough() -> bool:
        return all(peer.state.clock >= ENOUGH for peer in peers) or read() > end

    threads = [threading.Thread(target=peer.run, args=(enough, lambda peer: None)) for peer in peers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(peer.state.clock >= ENOUGH for peer in peers)
    found = stock({peer.setup.place.name: peer.state for peer in peers})
    np.testing.assert_allclose(float(found.leaked.y), 0, atol=1e-9)
    np.testing.assert_allclose(np.asarray(found.leaked.x), 0, atol=1e-9)
    assert all(peer.setup.agent.weight(peer.state) > 0 for peer in peers)
    disks = {name: AgentDisk(tmp_path / name, f"owner of {name}").load(compiled()[name].begin()) for name in compiled()}
    assert [disks[peer.setup.place.name].stamp for peer in peers] == [peer.state.stamp for peer in peers]


def test_the_filter_does_what_it_is_told():
    came = []
    filtered = Mistreatment(Impairment(loss=0.5, doubles=0.25, delay=0.05, seed=1), lambda who, what: came.append(what))
    for number in range(400):
        filtered("a0", bytes([number % 256, number // 256]))
    end = time.monotonic() + 10
    rng = np.random.default_rng(1)
    wanted = 0
    for _ in range(400):
        copies = int(rng.random() >= 0.5) + int(rng.random() < 0.25)
        wanted += copies
        rng.random(copies)
    while len(came) < wanted and time.monotonic() < end:
        time.sleep(0.01)
    assert len(came) == wanted
    assert came != sorted(came, key=lambda two: two[::-1]), "some overtook others"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lost=1", "knows loss, doubles"),
        ("loss=2", "must be 0 to 1"),
        ("delay=x", "is no number"),
        ("seed=1.5", "no number"),
    ],
)
def test_a_filter_that_cannot_be_is_one_sentence(text, said):
    with pytest.raises(UserMistake, match=said):
        read_impairment(text)


# --- Garbage ---------------------------------------------------------------------------------------------------------


@functools.cache
def garbage() -> dict[str, list[bytes]]:
    storm = Storm(RING, compiled(), 0)
    state, _ = storm.agents["a1"].wake(storm.states["a1"], False)
    letter = say_again(state, "a1")
    (good,) = packed(letter)
    wide = np.asarray(letter.content.x, np.float64)
    header, _ = wire.unpack(good, limit=2**20)
    return {
        "pickle": [pickle.dumps({"a": 1})],
        "nothing": [b""],
        "cut": [good[:-3]],
        "flipped": [good[:-1] + bytes([good[-1] ^ 1])],
        "oversized": [wire.pack({**header, "size": 2**40}, {"bytes": np.zeros(5, np.uint8)})],
        "long": [b"IDL1" + bytes(3 * 2**20)],
        "shape": packed(letter._replace(content=letter.content._replace(x=wide[:2]))),
        "type": packed(letter._replace(content=letter.content._replace(x=wide.astype(np.float32)))),
        "nan": packed(letter._replace(content=letter.content._replace(x=wide * np.nan))),
        "far future": packed(letter._replace(stamp=Stamp(0, 10**9))),
    }


KINDS = ["pickle", "nothing", "cut", "flipped", "oversized", "long", "shape", "type", "nan", "far future"]


@pytest.mark.parametrize("kind", KINDS)
def test_garbage_is_refused_counted_and_named_and_changes_nothing(tmp_path, kind):
    said, hub = [], {}
    peer = peer_in(tmp_path, "a0", hub, say=said.append)
    before = peer.state
    for parcel in garbage()[kind]:
        peer._inbox.put_parcel("a1", parcel)
        peer._hear(0.0)
        peer._inbox.put_parcel("a1", parcel)
        peer._hear(0.0)
    assert peer.state is before
    assert sum(peer.refused.values()) == 2
    assert len(said) == 1, "it is named once and counted after that"
    assert "a letter of a1 is refused" in said[0]


def test_a_letter_larger_than_a_message_travels_in_chunks_in_any_order(monkeypatch):
    monkeypatch.setattr(wire, "CHUNK_BYTES", 100)
    storm = Storm(RING, compiled(), 0)
    state, _ = storm.agents["a1"].wake(storm.states["a1"], False)
    letter = say_again(state, "a1")
    parcels = packed(letter)
    assert len(parcels) > 2
    unpacker = Unpacker("a1", state.said)
    found = [unpacker.add(parcel) for parcel in [*parcels[::-1][:-1], parcels[-1], parcels[0]]]
    assert found[:-1] == [None] * len(parcels)
    assert found[-1].stamp == letter.stamp
    for ours, theirs in zip(jax.tree.leaves(found[-1].content), jax.tree.leaves(letter.content), strict=True):
        np.testing.assert_array_equal(ours, theirs)


# --- Disks -----------------------------------------------------------------------------------------------------------


def test_nothing_is_sent_of_a_waking_that_a_full_disk_did_not_keep(tmp_path, monkeypatch):
    hub = {}
    peer = peer_in(tmp_path, "a0", hub)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(UserMistake, match=r"cannot be written: No space left on device"):
            peer._wake()
    assert peer.state.stamp.round == -1
    assert peer._wake(), "and when there is room, it goes on"
    deadline = time.monotonic() + 5
    while not hub["a0"].sent and time.monotonic() < deadline:
        time.sleep(0.01)
    assert Unpacker("a0", peer.state.said).add(hub["a0"].sent[0]).stamp == Stamp(0, 0)
    peer._postman.stop()


def test_wherever_the_power_goes_the_agent_is_as_before_its_waking_or_after_it(tmp_path, monkeypatch):
    storm, name = Storm(RING, compiled(), 0), "a0"
    first, wakings, states = storm.states[name], [], []
    for _ in range(3):
        storm.states[name], waking = storm.agents[name].wake(storm.states[name], True)
        wakings.append(waking)
        states.append(storm.states[name])
        storm.states[name] = storm.states[name]._replace(node=first.node)
    seen = set()
    for fails_at in range(1, 20):
        root = tmp_path / str(fails_at)
        root.mkdir()
        with monkeypatch.context() as patched:
            disk = LosingDisk(root, patched)
            kept = AgentDisk(root / name, "owner")
            disk.fails_at, saved = fails_at, -1
            try:
                for state, waking in zip(states, wakings, strict=True):
                    kept.save(state, log_line(waking))
                    saved += 1
            except PowerLoss:
                disk.lose()
            disk.fails_at = -1
            again = AgentDisk(root / name, "owner").load(first)
        wakings_kept = 0 if again is None else again.wakings
        assert wakings_kept in (saved + 1, saved + 2), "all that was kept before it was told, and at most one more"
        seen.add(wakings_kept)
    assert seen == {0, 1, 2, 3}
