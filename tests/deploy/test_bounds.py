"""What one device cannot do to the others: fill the line, hold up the answers, take all room, or fill the disk."""

import os
import threading

import pytest

from idiolect.deploy.serving.incoming_parts import IncomingParts
from idiolect.deploy.serving.outbox import Outbox
from idiolect.deploy.serving.turned_away import FORGIVEN, Rules
from idiolect.deploy.serving.waiting_line import Waiting, WaitingLine
from idiolect.deploy.wire import CHUNK_BYTES, WireError, digest_of, pack
from tests.deploy.loopback import until
from tests.deploy.small_world import World, ask_raw

SMALL = b"x" * 10


def message(name: str, content: bytes = SMALL, verb: str = "offer") -> Waiting:
    return Waiting(name, verb, content, None)


def test_a_device_has_few_places_in_the_line_and_takes_nobody_elses():
    line = WaitingLine(most=6, each=2)
    assert [line.put(message("eve")) for _ in range(4)] == [True, True, False, False]
    assert line.put(message("bob"))
    assert [one.name for one in line.some(0)] == ["eve", "eve", "bob"]
    assert line.put(message("eve")), "those that were taken out make room"


def test_the_line_is_bounded_in_messages_and_in_bytes():
    line = WaitingLine(most=3, most_bytes=25)
    assert [line.put(message(name)) for name in "abc"] == [True, True, False], "30 bytes are too many"
    assert [line.put(message(name, b"")) for name in "de"] == [True, False], "and so are 4 messages"
    assert len(line.some(0)) == 3
    assert line.put(message("a", b"x" * 100)), "whatever its length, one that is alone has room"


def test_messages_are_answered_together_up_to_a_number_and_in_their_order():
    line = WaitingLine()
    for number in range(300):
        line.put(message(f"c{number}"))
    assert [one.name for one in line.some(0)] == [f"c{number}" for number in range(256)]
    assert len(line.some(0)) == 44
    assert line.some(0.01) == []


def test_whoever_does_not_read_holds_up_nobody_and_is_told_on():
    read, sent, told = threading.Event(), [], []

    def send(query, answer):
        if query == "eve":
            assert read.wait(60)
        sent.append((query, answer))

    outbox = Outbox(send, told.append, too_long=0.1)
    for number in range(9):
        outbox.put("eve", "eve", b"%d" % number)
    for number in range(3):
        outbox.put("bob", "bob", b"%d" % number)
    until(lambda: outbox.look() or len(sent) == 3)
    assert sent == [("bob", b"0"), ("bob", b"1"), ("bob", b"2")]
    read.set()
    until(lambda: len(sent) == 8)
    outbox.put("eve", "eve", b"later")
    outbox.put("bob", "bob", b"last")
    outbox.close()
    assert told == ["eve"]
    assert [answer for query, answer in sent if query == "eve"][:5] == [b"0", b"1", b"2", b"3", b"4"], "a few wait"
    assert {("eve", b"later"), ("bob", b"last")} == set(sent[8:]), "and when she reads, she is told as before"


def test_uploads_that_have_begun_share_some_room_and_the_silent_ones_make_place():
    now = [0.0]
    parts = IncomingParts(limit=5 * CHUNK_BYTES, room=4 * CHUNK_BYTES, read=lambda: now[0])
    whole = os.urandom(2 * CHUNK_BYTES)
    first, second = whole[:CHUNK_BYTES], whole[CHUNK_BYTES:]
    assert parts.add("alice", digest_of(whole), len(whole), 0, first)
    assert parts.add("bob", digest_of(whole), len(whole), 0, first)
    assert not parts.add("carol", digest_of(whole), len(whole), 0, first)
    now[0] = 50.0
    assert parts.add("bob", digest_of(whole), len(whole), 1, second)
    assert not parts.add("carol", digest_of(whole), len(whole), 0, first)
    now[0] = 70.0
    assert parts.add("carol", digest_of(whole), len(whole), 0, first), "alice has not gone on for a minute"
    assert parts.take("alice", digest_of(whole)) is None
    assert parts.take("carol", digest_of(whole)) is None
    assert parts.take("bob", digest_of(whole)) == whole
    with pytest.raises(WireError, match="too long"):
        parts.add("bob", digest_of(whole), 6 * CHUNK_BYTES, 0, first)


def test_who_changes_its_incarnation_again_and_again_is_put_off(tmp_path):
    world = World(tmp_path)
    server = world.open_server()
    for number in range(FORGIVEN + 1):
        ask_raw(world, "alice", "offer", {"incarnation": f"{number:016x}"})
        assert server.patience.wait("alice") == 0, "a disk may be lost now and then"
    ask_raw(world, "alice", "offer", {"incarnation": f"{99:016x}"})
    assert server.patience.wait("alice") > 0
    assert server.patience.wait("bob") == 0


def test_scores_that_nobody_asked_for_or_that_come_twice_are_not_kept(tmp_path):
    world = World(tmp_path, rules=Rules(score_every=1))
    said = ask_raw(world, "alice", "offer", {"incarnation": "0" * 16})
    assert said["score"]
    columns = world.open_server()._columns
    told = {"turn": said["turn"], "scores": dict.fromkeys(columns, 0.5)}
    assert [ask_raw(world, "alice", "score", told)["answer"] for _ in range(3)] == ["noted"] * 3
    assert len(world.open_server().desk.scores) == 1
    world.rules = Rules()
    world.server = None
    assert ask_raw(world, "alice", "score", told)["answer"] in ("noted", "lost")
    assert len(world.open_server().desk.scores) == 1


def test_a_message_is_no_longer_than_what_it_may_say(tmp_path):
    world = World(tmp_path)
    server = world.open_server()
    for verb in ("offer", "model", "score"):
        server.answer("alice", verb, pack({"incarnation": "0" * 16}) + b"x" * 2**17)
    server.answer("alice", "upload", b"x" * (server.desk.upload_bytes + 2**18))
    assert server.turned_away["alice"] == {"too long": 4}
