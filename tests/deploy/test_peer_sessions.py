"""Real sessions of peers with TLS: who hears whom, who may ask what, and who is not heard at all."""

import time

import pytest

from idiolect.deploy.access import Grant, peer_config
from idiolect.deploy.keys import read_identity
from idiolect.deploy.peers import peer_access
from idiolect.deploy.peers.graph_files import PeerGraph
from idiolect.deploy.peers.letters import Neighbours
from idiolect.deploy.peers.peer_session import PeerSession, Postman
from idiolect.deploy.roster import read_roster
from tests.deploy import loopback

pytest.importorskip("zenoh")

LINKS = {"a0": ("a1",), "a1": ("a2",), "a2": ("a0", "a1")}  # a1 hears both others


def outspoken(network: str, place: Neighbours) -> list[Grant]:
    """The rules, but everybody is told what everybody listens to: only what comes in is checked, as a forger would."""
    others = dict.fromkeys([*place.hears, *place.tells])
    listening = [Grant(other, "egress", ("declare_subscriber",), (f"idiolect/{network}/**",)) for other in others]
    return [*peer_access.grants(network, place), *listening]


class Heard:
    """One peer's session, and what came to it."""

    def __init__(self, graph: PeerGraph, name: str, folder) -> None:
        identity = read_identity(folder / name)
        roster = read_roster(identity.roster, identity.ca)
        rules = outspoken(graph.name, graph.place(name))
        others = [graph.endpoints[other] for other in graph.names if other != name]
        self.name = name
        self.config = lambda: peer_config(identity, roster, [graph.endpoints[name]], others, rules)
        self.parcels, self.alive = [], {}
        self.session = PeerSession(
            self.config,
            graph.name,
            graph.place(name),
            deep=4,
            on_parcel=lambda sender, parcel: self.parcels.append((sender, parcel)),
            answer=lambda other: [b"one of " + other.encode(), b"two"] if name != "a2" else [],
            on_alive=lambda other, there: self.alive.update({other: there}),
        )


@pytest.fixture(scope="module")
def peers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    from idiolect.deploy import keys

    keys.init(folder / "keys")
    for name in LINKS:
        keys.issue(folder / "keys", name, hosts=["127.0.0.1"])
    graph = PeerGraph("ring", {name: loopback.free_endpoint() for name in LINKS}, LINKS)
    found = {name: Heard(graph, name, folder / "keys") for name in LINKS}
    for one in found.values():
        one.session.open()
    loopback.until(lambda: all(all(one.alive.values()) and len(one.alive) == 2 for one in found.values()), 60)
    yield found
    for one in found.values():
        one.session.close()


def test_a_peer_hears_those_it_should_and_nobody_else(peers):
    def told() -> bool:
        peers["a0"].session.publish([b"hello"])
        time.sleep(0.05)
        return ("a0", b"hello") in peers["a1"].parcels

    loopback.until(told)
    assert not any(sender == "a0" for sender, _ in peers["a2"].parcels), "a2 does not hear a0"


@pytest.fixture(scope="module")
def lawless(peers):
    """A session of a2's, with its certificate, that minds no rules of its own."""
    config = peers["a2"].config()
    config.insert_json5("access_control/enabled", "false")
    config.insert_json5("listen/endpoints", "[]")
    with loopback.session(config) as found:
        loopback.until(lambda: len(list(found.info.peers_zid())) == 2, 60)
        yield found


def test_a_peer_cannot_speak_for_another(peers, lawless):
    def told() -> bool:
        lawless.put(peer_access.says("ring", "a2", 0), b"my own")
        time.sleep(0.05)
        return ("a2", b"my own") in peers["a0"].parcels

    loopback.until(told, 60)
    for _ in range(3):
        lawless.put(peer_access.says("ring", "a0", 0), b"forged")  # a1 would hear it
        lawless.put(peer_access.says("ring", "a1", 0), b"forged")
    time.sleep(0.5)
    assert not any(parcel == b"forged" for one in peers.values() for _, parcel in one.parcels)


def test_a_peer_cannot_read_what_is_meant_for_another_nor_ask_in_its_name(peers, lawless):
    read = []
    eavesdropping = lawless.declare_subscriber("idiolect/ring/**", lambda sample: read.append(str(sample.key_expr)))
    for _ in range(5):
        peers["a0"].session.publish([b"for a1"])
        peers["a1"].session.publish([b"for a2"])
        time.sleep(0.1)
    eavesdropping.undeclare()
    assert not any("a0" in key for key in read)
    asked = [reply for reply in lawless.get(peer_access.heard("ring", "a1", "a0"), timeout=1.0) if reply.ok]
    assert asked == [], "only a0 may ask a1 what it heard of a0"


def test_who_asks_is_told_what_was_heard_of_it_in_parts_and_of_nobody_else(peers):
    assert loopback.until(lambda: peers["a0"].session.ask("a1", timeout=1.0)) == [b"one of a0", b"two"]
    assert peers["a1"].session.ask("a2", timeout=1.0) == [], "a2 has heard nothing yet"
    curious = peers["a0"].session._session
    for key in (peer_access.heard("ring", "a1", "a2"), peer_access.heard("ring", "a2", "a1")):
        assert [reply for reply in curious.get(key, timeout=1.0) if reply.ok] == []


def test_an_answer_that_never_ends_is_not_asked_for(peers):
    loopback.until(lambda: peers["a0"].session.ask("a1", timeout=1.0))
    honest, peers["a1"].session._answer = peers["a1"].session._answer, lambda of: [b"more"] * 1000
    try:
        assert peers["a0"].session.ask("a1", timeout=5.0) is None
    finally:
        peers["a1"].session._answer = honest


def test_a_session_that_was_opened_again_hears_as_before_and_others_see_it_go_and_come(peers):
    peers["a1"].session.reopen()
    peers["a1"].parcels.clear()

    def told() -> bool:
        peers["a0"].session.publish([b"again"])
        time.sleep(0.05)
        return ("a0", b"again") in peers["a1"].parcels

    loopback.until(told, 60)
    loopback.until(lambda: peers["a0"].alive["a1"] and peers["a2"].alive["a1"], 60)


def test_the_postman_sends_the_newest_and_again_and_every_share_where_each_counts():
    sent = []
    for keep_all, wanted in ((False, [[b"3"]]), (True, [[b"1"], [b"2"], [b"3"]])):
        sent.clear()
        slow = Postman(lambda parcels: (sent.append(parcels), time.sleep(0.05)), 0.1, keep_all)
        slow.give([b"0"])
        loopback.until(lambda: sent)
        for text in (b"1", b"2", b"3"):
            slow.give([text])
        loopback.until(lambda count=len(wanted): len(sent) >= count + 2)
        slow.stop()
        assert sent[1 : len(wanted) + 2] == [*wanted, [b"3"]]
