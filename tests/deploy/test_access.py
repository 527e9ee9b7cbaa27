"""Real sessions on this machine: a valid device cannot speak for another, and nobody else is heard at all."""

import shutil
from pathlib import Path

import pytest

from idiolect.deploy import keys
from idiolect.deploy.access import MESSAGE_BYTES, checked_endpoint, device_config, server_config
from idiolect.deploy.roster import Roster, read_roster
from idiolect.errors import UserMistake
from tests.deploy.loopback import ask, free_endpoint, issue_all, session, until

zenoh = pytest.importorskip("zenoh")
RUN = "0123"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = issue_all(tmp_path_factory.mktemp("keys"), ["alice", "bob", "eve"])
    shutil.copytree(folder / "eve", folder / "eve-before")
    keys.revoke(folder, "eve")
    return folder


@pytest.fixture(scope="module")
def where() -> str:
    return free_endpoint()


@pytest.fixture(scope="module")
def heard(folder, where):
    """A server that answers everything it hears with the key it heard it on."""
    identity = keys.read_identity(folder / "server")
    heard = []

    def answer(query):
        heard.append((str(query.key_expr), len(query.payload.to_bytes())))
        with query:
            query.reply(query.key_expr, str(query.key_expr).encode())

    with session(server_config(identity, read_roster(identity.roster, identity.ca), where, RUN)) as server:
        for key in (f"idiolect/{RUN}/*/*", "idiolect/hello/*"):
            server.declare_queryable(key, answer)
        yield heard


@pytest.fixture(scope="module")
def devices(folder, where, heard):
    with (
        session(device_config(keys.read_identity(folder / "alice"), where, "alice")) as alice,
        session(device_config(keys.read_identity(folder / "bob"), where, "bob")) as bob,
    ):
        until(lambda: ask(alice, "idiolect/hello/alice"))
        until(lambda: ask(bob, "idiolect/hello/bob"))
        yield alice, bob


def as_stranger(folder: Path, where: str, name: str, key_of: str = ""):
    """A device without rules of its own, such as somebody else's program: only the server's rules hold."""
    identity = keys.read_identity(folder / (key_of or name))
    config = device_config(identity, where, name)
    config.insert_json5("access_control", '{"enabled": false}')
    return session(config)


def can_connect(folder: Path, name: str, where: str, milliseconds: int = 500) -> bool:
    config = device_config(keys.read_identity(folder / name), where, name)
    config.insert_json5("connect/timeout_ms", str(milliseconds))
    try:
        with session(config):
            return True
    except zenoh.ZError:
        return False


def test_a_device_is_heard_on_its_own_keys(devices):
    alice, bob = devices
    assert ask(alice, f"idiolect/{RUN}/alice/offer") == [f"idiolect/{RUN}/alice/offer".encode()]
    assert ask(bob, f"idiolect/{RUN}/bob/offer") == [f"idiolect/{RUN}/bob/offer".encode()]


@pytest.mark.parametrize(
    "key", ["0123/bob/offer", "0123/*/offer", "**", "*/alice/offer", "hello/bob", "0124/alice/offer"]
)
def test_a_valid_device_cannot_speak_for_another_nor_in_another_run(folder, where, heard, devices, key):
    with as_stranger(folder, where, "alice") as mallory:
        until(lambda: ask(mallory, "idiolect/hello/alice"))
        before = len(heard)
        assert ask(mallory, key if key == "**" else f"idiolect/{key}", seconds=0.3) == []
        assert len(heard) == before


def test_a_device_can_neither_answer_for_the_server_nor_read_what_others_are_told(folder, where, devices):
    _, bob = devices
    seen = []

    def pretend(query):
        seen.append(str(query.key_expr))
        with query:
            query.reply(query.key_expr, b"from mallory")

    with as_stranger(folder, where, "alice") as mallory:
        mallory.declare_queryable("idiolect/**", pretend, complete=True)
        mallory.declare_subscriber("**", lambda sample: seen.append(str(sample.key_expr)))
        until(lambda: ask(bob, "idiolect/hello/bob"))
        for _ in range(5):
            assert ask(bob, f"idiolect/{RUN}/bob/offer") == [f"idiolect/{RUN}/bob/offer".encode()]
        bob.put(f"idiolect/{RUN}/bob/offer", b"secret")
        assert ask(bob, f"idiolect/{RUN}/bob/offer")
    assert seen == []


def test_a_revoked_certificate_is_not_heard_and_its_successor_is(folder, where, heard):
    before = len(heard)
    shutil.copytree(folder / "eve-before", folder / "mallory", dirs_exist_ok=True)
    with as_stranger(folder, where, "eve", key_of="mallory") as eve:
        assert ask(eve, "idiolect/hello/eve", seconds=0.5) == []
    assert len(heard) == before


def test_a_foreign_authority_gets_no_connection(folder, where, heard, tmp_path):
    other = issue_all(tmp_path, ["alice"])
    assert can_connect(folder, "alice", where, 10_000)
    before = len(heard)
    assert not can_connect(other, "alice", where)
    assert len(heard) == before


def test_a_device_with_a_certificate_of_a_device_cannot_be_the_server(folder):
    """What listens with alice's certificate is not connected to, even by bob, who trusts the same authority."""
    where, alice = free_endpoint(), keys.read_identity(folder / "alice")
    roster = read_roster(alice.roster, alice.ca)
    with session(server_config(alice, roster, where, RUN)) as fake:
        fake.declare_queryable("idiolect/hello/*", lambda query: query.reply(query.key_expr, b"from alice"))
        assert not can_connect(folder, "bob", where)


def test_a_message_that_is_too_long_is_dropped_and_the_next_is_heard(heard, devices):
    alice, bob = devices
    before = len(heard)
    assert ask(alice, f"idiolect/{RUN}/alice/upload", b"x" * (MESSAGE_BYTES + 1), seconds=0.5) == []
    assert len(heard) == before
    assert ask(alice, f"idiolect/{RUN}/alice/upload", b"x" * (MESSAGE_BYTES - 100))
    assert ask(bob, f"idiolect/{RUN}/bob/offer")


@pytest.mark.parametrize(
    ("endpoint", "insecure", "said"),
    [
        ("tcp/127.0.0.1:7447", False, "without TLS"),
        ("tcp/192.0.2.7:7447", True, "only taken on this machine"),
        ("tcp/0.0.0.0:7447", True, "only taken on this machine"),
        ("tls/127.0.0.1:7447", True, "leave it out"),
        ("127.0.0.1:7447", False, "must be like"),
        ("tls/127.0.0.1", False, "must be like"),
        ("tls/127.0.0.1:99999", False, "must be like"),
        ("tls/127.0.0.1:1#enable_mtls=false", False, "must be like"),
    ],
)
def test_an_endpoint_that_is_none_or_not_safe_is_one_sentence(endpoint, insecure, said):
    with pytest.raises(UserMistake, match=said):
        checked_endpoint(endpoint, insecure=insecure)


def test_sound_endpoints():
    for endpoint, insecure in [("tls/[::1]:7447", False), ("tls/learn.example.org:7447", False), ("tcp/[::1]:1", True)]:
        assert checked_endpoint(endpoint, insecure=insecure) == endpoint


def test_nothing_lies_in_shared_memory(devices):
    """Zenoh's default is 16 MB for every session, on both sides, where what TLS protects could be read."""
    for _ in range(3):
        assert ask(devices[0], f"idiolect/{RUN}/alice/upload", b"x" * 100_000)
    mapped = Path("/proc/self/maps")
    assert not mapped.exists() or ".zenoh" not in mapped.read_text()
    for config in (
        device_config(None, "tcp/127.0.0.1:1", "alice"),
        server_config(None, Roster({}), "tcp/[::1]:1", RUN),
    ):
        assert config.get_json("transport/shared_memory/enabled") == "false"
