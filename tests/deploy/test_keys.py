"""The authority, what it issues, and its roster."""

import json
import stat
from pathlib import Path

import pytest

from idiolect.cli import main
from idiolect.deploy import keys
from idiolect.deploy.certificates import common_name_of, load_certificate
from idiolect.deploy.roster import ROSTER, read_roster
from idiolect.errors import UserMistake

x509 = pytest.importorskip("cryptography.x509")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    keys.init(tmp_path)
    return tmp_path


def roster(folder: Path):
    return read_roster(folder / ROSTER, folder / "authority" / "ca.pem")


def test_what_is_issued_is_complete_signed_and_readable_by_its_owner_alone(folder):
    place = keys.issue(folder, "alice")
    identity = keys.read_identity(place)
    assert identity.name == "alice"
    load_certificate(identity.cert).verify_directly_issued_by(load_certificate(folder / "authority" / "ca.pem"))
    for secret in (place / "key.pem", folder / "authority" / "ca-key.pem"):
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert roster(folder).common_names("alice") == ["alice.1"]
    assert read_roster(identity.roster, identity.ca) == roster(folder)


def test_only_a_certificate_with_hosts_can_be_listened_with(folder):
    def usages(name):
        found = load_certificate(folder / name / "cert.pem")
        return {one._name for one in found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value}

    keys.issue(folder, "alice")
    keys.issue(folder, "server", hosts=["127.0.0.1", "learn.example.org"])
    assert usages("alice") == {"clientAuth"}
    assert usages("server") == {"clientAuth", "serverAuth"}


def test_a_revoked_common_name_never_comes_back(folder):
    keys.issue(folder, "alice")
    keys.issue(folder, "alice")
    assert roster(folder).common_names("alice") == ["alice.1", "alice.2"]  # both, while keys are rotated
    assert keys.revoke(folder, "alice") == ["alice.1", "alice.2"]
    assert roster(folder).common_names("alice") == []
    assert roster(folder).names == []
    place = keys.issue(folder, "alice")
    assert common_name_of(load_certificate(place / "cert.pem")) == "alice.3"
    assert roster(folder).common_names("alice") == ["alice.3"]


def test_the_roster_in_every_folder_that_is_still_here_is_the_newest(folder):
    alice = keys.issue(folder, "alice")
    keys.issue(folder, "bob")
    assert (alice / ROSTER).read_bytes() == (folder / ROSTER).read_bytes()


def test_a_roster_that_somebody_changed_or_signed_himself_is_refused(folder, tmp_path_factory):
    keys.issue(folder, "alice")
    keys.revoke(folder, "alice")
    record = json.loads((folder / ROSTER).read_text())
    record["told"]["names"]["alice"][0]["revoked"] = False
    (folder / ROSTER).write_text(json.dumps(record))
    with pytest.raises(UserMistake, match="not signed by the authority"):
        roster(folder)
    other = tmp_path_factory.mktemp("other")
    keys.init(other)
    with pytest.raises(UserMistake, match="not signed by the authority"):
        read_roster(other / ROSTER, folder / "authority" / "ca.pem")
    (folder / ROSTER).write_text("{}")
    with pytest.raises(UserMistake, match="no signed table"):
        roster(folder)


def test_an_identity_that_does_not_fit_together_or_has_ended_is_one_sentence(folder, monkeypatch):
    alice, bob = keys.issue(folder, "alice"), keys.issue(folder, "bob", days=1)
    (alice / "cert.pem").write_bytes((bob / "cert.pem").read_bytes())
    with pytest.raises(UserMistake, match="does not belong to"):
        keys.read_identity(alice)
    later = keys.now() + keys.dt.timedelta(days=2)
    monkeypatch.setattr(keys, "now", lambda: later)
    with pytest.raises(UserMistake, match="have a new one issued"):
        keys.read_identity(bob)
    (bob / "cert.pem").write_text("no")
    with pytest.raises(UserMistake, match="is no certificate"):
        keys.read_identity(bob)


@pytest.mark.parametrize("name", ["", "Alice", "../alice", "a/b", "a.b", "*", "$*", "authority", "hello", "a" * 64])
def test_a_name_that_could_be_a_path_or_a_wildcard_is_refused(folder, name):
    with pytest.raises(UserMistake, match="but must be small letters"):
        keys.issue(folder, name)


def test_mistakes_of_an_operator_are_one_sentence(folder, tmp_path):
    with pytest.raises(UserMistake, match="is there already"):
        keys.init(folder)
    with pytest.raises(UserMistake, match="has no authority; make one with"):
        keys.issue(tmp_path / "elsewhere", "alice")
    with pytest.raises(UserMistake, match="no certificate in force"):
        keys.revoke(folder, "nobody")
    with pytest.raises(UserMistake, match="host is 'a b'"):
        keys.issue(folder, "server", hosts=["a b"])
    with pytest.raises(UserMistake, match="days is 0"):
        keys.issue(folder, "server", days=0)


def test_the_command_line_makes_issues_and_revokes(tmp_path, capsys):
    where = ["--folder", str(tmp_path / "keys")]
    assert main(["keys", "init", *where]) == 0
    assert main(["keys", "issue", "alice", *where, "--host", "127.0.0.1", "--days", "3"]) == 0
    assert main(["keys", "revoke", "alice", *where]) == 0
    assert "Revoked: alice.1" in capsys.readouterr().out
    assert main(["keys", "issue", "../x", *where]) == 2
    assert capsys.readouterr().err.startswith("idiolect: name is '../x', but must be small letters")
