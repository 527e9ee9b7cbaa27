"""The hatch and the mailbox behind it: who is let in, what is taken, and what waits."""

import json
import socket
import threading

import numpy as np
import pytest

from idiolect.deploy.flower.envelopes import (
    Answers,
    Question,
    Questions,
    pack_answers,
    pack_questions,
    unpack_answers,
    unpack_questions,
)
from idiolect.deploy.flower.hatch import HATCH, Hatch, pass_through
from idiolect.deploy.flower.mailbox import Mailbox
from idiolect.deploy.flower.serving_settings import read_settings
from idiolect.deploy.wire import WireError, pack
from idiolect.errors import Interrupted, UserMistake
from tests.deploy.small_world import small_work


@pytest.fixture
def hatch(tmp_path):
    found = Hatch(tmp_path, lambda letter: letter[::-1])
    yield found
    found.close()


def test_a_courier_with_the_secret_gets_its_answer_and_a_large_one_too(tmp_path, hatch):
    assert pass_through(tmp_path, b"abc", 5) == b"cba"
    large = np.arange(2**20, dtype=np.uint32).tobytes()
    assert pass_through(tmp_path, large, 5) == large[::-1]


def test_a_stranger_is_not_let_in_and_holds_up_nobody(tmp_path, hatch):
    told = json.loads((tmp_path / HATCH).read_text())
    with socket.create_connection(("127.0.0.1", told["port"])) as silent:  # says nothing at all
        (tmp_path / HATCH).write_text(json.dumps({**told, "secret": "00" * 32}))
        with pytest.raises(UserMistake, match="does not answer"):
            pass_through(tmp_path, b"abc", 5)
        (tmp_path / HATCH).write_text(json.dumps(told))
        assert pass_through(tmp_path, b"abc", 5) == b"cba"
        assert len(silent.recv(100)) == 32  # all that it ever hears


def test_who_only_listens_where_the_device_did_is_given_no_letter(tmp_path):
    heard = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def listen() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"n" * 32)
                connection.recv(2**16)
                connection.sendall(b"p" * 32)
                heard.extend(connection.recv(2**16))

        impostor = threading.Thread(target=listen)
        impostor.start()
        told = {"port": listening.getsockname()[1], "secret": "11" * 32}
        (tmp_path / HATCH).write_text(json.dumps(told))
        with pytest.raises(UserMistake, match="is not the device"):
            pass_through(tmp_path, b"the letter", 5)
        impostor.join(5)
    assert not heard


def test_nobody_at_home_and_a_damaged_file_are_one_sentence(tmp_path):
    with pytest.raises(UserMistake, match="nobody is at home"):
        pass_through(tmp_path, b"", 5)
    for content in (b"{", b"[]", b'{"port": 1, "secret": "x"}'):
        (tmp_path / HATCH).write_bytes(content)
        with pytest.raises(UserMistake, match="damaged"):
            pass_through(tmp_path, b"", 5)


def test_the_file_goes_when_the_hatch_closes(tmp_path):
    Hatch(tmp_path, bytes).close()
    assert not (tmp_path / HATCH).exists()


def test_envelopes_come_out_as_they_went_in_and_others_are_refused():
    asked = [Question("chunk", b"\x00\x01"), Question("upload", b"xyz")]
    assert unpack_questions(pack_questions(Questions(asked)), 2**20) == Questions(asked)
    answers = Answers({"format": 1}, {asked[0].label: b"a", asked[1].label: b"bc"})
    assert unpack_answers(pack_answers(answers), 2**20) == answers
    one = {"0": np.zeros(1, np.uint8)}
    for wrong in (
        pack({"verbs": ["a"], "why": ""}),
        pack({"verbs": [], "why": ""}, one),
        pack({"verbs": [1], "why": ""}, one),
        pack_questions(Questions([Question("offer", b"1"), Question("offer", b"2")])),
        pack_questions(Questions([Question("score", b"1")] * 2 + [Question("upload", b"2")])),
        pack({"verbs": ["a"], "why": 1}, one),
        pack({"verbs": ["a"], "why": ""}, {"1": np.zeros(1, np.uint8)}),
        pack({"about": [], "to": ["a"]}, one),
        pack({"about": {}, "to": "a"}, one),
    ):
        for unpacked in (unpack_questions, unpack_answers):
            with pytest.raises(WireError, match="malformed"):
                unpacked(wrong, 2**20)
    with pytest.raises(WireError, match="too long"):
        unpack_questions(pack_questions(Questions(asked)), 50)


class Asking:
    """A device that asks, on a thread, by a mailbox whose hatch stays shut."""

    def __init__(self, folder) -> None:
        self.said, self.heard, self.stopped = list[str](), list[object](), False
        self.mailbox = Mailbox(folder, stop=lambda: self.stopped, notice=self.said.append)
        self.mailbox.greet(small_work())

    def ask(self, *questions: Question) -> threading.Thread:
        def run() -> None:
            try:
                for question in questions:
                    self.heard.append(self.mailbox.ask(*question).header)
            except Interrupted:
                self.heard.append("interrupted")

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def deliver(self, *answered: tuple[Question, bytes], **about) -> Questions:
        found = {question.label: content for question, content in answered}
        letter = pack_answers(Answers({**small_work().about(), **about}, found))
        return unpack_questions(self.mailbox.deliver(letter), 2**20)


def test_what_waits_for_an_answer_waits_and_what_needs_none_travels_with_it(tmp_path):
    device = Asking(tmp_path)
    score, upload, offer = Question("score", b"1"), Question("upload", b"2"), Question("offer", b"3")
    thread = device.ask(score, upload, offer)
    assert device.deliver() == Questions([score, upload])
    other = (Question("upload", b"another"), pack({"answer": "no"}))
    assert device.deliver(other) == Questions([score, upload])  # not what it asks; so it asks again
    broken = (upload, b"no message")
    assert device.deliver(broken) == Questions([score, upload])
    # The next question is answered ahead, so that nothing is left to ask until the device has left.
    last = threading.Thread(
        target=device.deliver, args=((upload, pack({"answer": "u"})), (offer, pack({"answer": "o"})))
    )
    last.start()
    thread.join(10)
    assert device.heard == [{"answer": "on its way"}, {"answer": "u"}, {"answer": "o"}]
    device.mailbox.close()
    last.join(10)
    assert device.deliver() == Questions([], "this device has left")


def test_another_recipes_letter_and_garbage_are_refused_and_the_device_goes_on(tmp_path):
    device = Asking(tmp_path)
    offer = Question("offer", b"3")
    thread = device.ask(offer)
    assert "not as this recipe has it" in device.deliver(identity="0" * 64).why
    assert "another version of messages" in device.deliver(format=99).why
    assert unpack_questions(device.mailbox.deliver(b"\x80\x04K\x01."), 2**20) == Questions([], "malformed")
    assert len(device.said) == 4  # where it waits, and each refusal once
    device.stopped = True
    thread.join(10)
    assert device.heard == ["interrupted"]
    device.mailbox.close()


def test_settings_of_a_run_are_checked(tmp_path):
    found = read_settings({"recipe": "demo", "out": str(tmp_path), "updates": 9, "score-every": 3})
    assert (found.recipe, found.out, found.algorithm, found.updates) == ("demo", tmp_path, None, 9)
    assert (found.rules.score_every, found.rules.stale_after, found.patience) == (3, 10_000, 3600.0)
    good = {"recipe": "demo", "out": str(tmp_path)}
    for wrong, said in [
        ({"recipe": "demo"}, "lacks 'out'"),
        ({**good, "out": "here"}, "from the root on"),
        ({**good, "update": 3}, "has 'update', but may have recipe"),
        ({**good, "updates": -1}, "updates = -1"),
        ({**good, "updates": True}, "whole number"),
        ({**good, "recipe": 3}, "must have a text"),
        ({**good, "patience": 0.5}, "at least 1"),
    ]:
        with pytest.raises(UserMistake, match=said):
            read_settings(wrong)
