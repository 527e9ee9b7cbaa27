"""Signatures: a bundle by the operator is read, one by anybody else is not."""

import sys

import pytest

from idiolect.device import BundleError, read_bundle
from idiolect.device.signatures import SignatureError
from idiolect.errors import UserMistake
from idiolect.export.bundle import write_bundle
from tests.device.small_nets import built, small

serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
PEM = serialization.Encoding.PEM


def keys():
    """A private key and its public one, in PEM."""
    made = ed25519.Ed25519PrivateKey.generate()
    private = made.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private, made.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture(scope="module")
def compressed():
    return small(built({"name": "mlp"}), 4)


def test_a_signed_bundle_is_read_with_its_key_and_without_one(compressed, tmp_path):
    private, public = keys()
    write_bundle(tmp_path / "model", compressed, {"client": 3}, key=private)
    assert read_bundle(tmp_path / "model", public).signed
    raw = serialization.load_pem_public_key(public).public_bytes_raw()
    assert read_bundle(tmp_path / "model", raw).signed
    assert not read_bundle(tmp_path / "model").signed


def test_another_key_no_signature_and_a_changed_bundle_are_refused(compressed, tmp_path):
    (private, public), (_, other) = keys(), keys()
    write_bundle(tmp_path / "model", compressed, {"client": 3}, key=private)
    with pytest.raises(BundleError, match="is not signed by the given key"):
        read_bundle(tmp_path / "model", other)
    signed = (tmp_path / "model").read_bytes()
    write_bundle(tmp_path / "unsigned", compressed, {"client": 3})
    with pytest.raises(BundleError, match="is not signed by the given key"):
        read_bundle(tmp_path / "unsigned", public)
    # The signature of one bundle under another, whose digest is its own.
    write_bundle(tmp_path / "other", compressed, {"client": 4}, key=keys()[0])
    mark = b'"signature":"'
    taken = signed[signed.index(mark) + len(mark) :][:88]
    forged = (tmp_path / "other").read_bytes()
    place = forged.index(mark) + len(mark)
    (tmp_path / "other").write_bytes(forged[:place] + taken + forged[place + 88 :])
    assert read_bundle(tmp_path / "other").about == {"client": 4}
    with pytest.raises(BundleError, match="is not signed by the given key"):
        read_bundle(tmp_path / "other", public)


def test_keys_that_are_none_get_a_sentence(compressed, tmp_path):
    with pytest.raises(UserMistake, match="the operator's key is no private key of Ed25519 in PEM"):
        write_bundle(tmp_path / "model", compressed, {}, key=b"nonsense")
    write_bundle(tmp_path / "model", compressed, {})
    with pytest.raises(SignatureError, match="is no public key of Ed25519"):
        read_bundle(tmp_path / "model", b"nonsense")


def test_without_cryptography_the_reader_says_so(compressed, tmp_path, monkeypatch):
    write_bundle(tmp_path / "model", compressed, {})
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(SignatureError, match=r"pip install 'idiolect\[signed\]'"):
        read_bundle(tmp_path / "model", b"key")
    assert not read_bundle(tmp_path / "model").signed
