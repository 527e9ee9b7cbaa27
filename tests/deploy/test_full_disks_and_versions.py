"""Disks without room on either side, and devices of other versions of idiolect, as real processes (`make real`)."""

import pytest

from tests.deploy.loopback import until
from tests.deploy.processes import Deployment
from tests.deploy.test_matrix import finish

pytest.importorskip("zenoh")
pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path):
    with Deployment(tmp_path) as deployment:
        yield deployment


def test_a_server_without_room_ends_with_a_sentence_and_goes_on_when_there_is_some(run):
    run.serve(updates=30, room=40_000, rules={"checkpoint_every": 10_000})
    for name in run.names:
        run.join(name)
    assert run.wait("server") == 2, run.said("server")
    assert "cannot be written: " in run.said("server")
    assert "Traceback" not in run.said("server")
    assert all(run.processes[name].is_alive() for name in run.names), "devices go on trying"
    finish(run, 30)


def test_a_device_without_room_ends_with_a_sentence_and_goes_on_when_there_is_some(run):
    run.serve(updates=30)
    run.join("bob", room=3000)
    assert run.wait("bob") == 2, run.said("bob")
    assert "cannot be written: " in run.said("bob")
    assert run.status()["updates"] <= 0, "nothing is sent that was not kept"
    for name in run.names:
        run.join(name)
    finish(run, 30)


def test_a_device_of_another_version_is_told_and_one_with_other_messages_is_refused(run):
    run.serve(updates=10_000)  # nobody shall come too late
    run.join("alice", line={"FORMAT": 999})
    assert run.wait("alice") == 2
    assert "speaks another version of messages" in run.said("alice")
    run.join("bob", line={"__version__": "0.0.1"})
    until(lambda: "and this device 0.0.1" in run.said("bob"), 300)
    for name in ("alice", "carol"):
        run.join(name)
    run.until_updates(3)
    run.kill("server")
    finish(run, run.status()["updates"] + 20)
