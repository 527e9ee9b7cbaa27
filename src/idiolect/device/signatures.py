"""Signatures by Ed25519: an operator signs the digest of a bundle, and a device holds it against the operator's key.

Needs `cryptography`, which a reader that is given no key does without.
"""

from typing import Any

_MEANT = b"idiolect bundle\n"  # a signature means a bundle, and nothing else that the same key may sign


class SignatureError(ValueError):
    """A key is none, or `cryptography` is not there."""


def sign(private: bytes, digest: str) -> bytes:
    """The signature of a digest by a private key in PEM (`openssl genpkey -algorithm ed25519`)."""
    keys, serialization = _libraries()
    try:
        key = serialization.load_pem_private_key(private, password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, keys.Ed25519PrivateKey):
        raise SignatureError("is no private key of Ed25519 in PEM without a password")
    return key.sign(_MEANT + digest.encode())


def is_signed_by(public: bytes, digest: str, signature: bytes) -> bool:
    """Did the owner of this public key (PEM, or 32 bytes) sign this digest?"""
    from_library = _libraries()
    key = _public(public, *from_library)
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, _MEANT + digest.encode())
    except InvalidSignature:
        return False
    return True


def _public(public: bytes, keys: Any, serialization: Any) -> Any:
    try:
        if len(public) == 32:
            return keys.Ed25519PublicKey.from_public_bytes(public)
        key = serialization.load_pem_public_key(public)
    except ValueError:
        key = None
    if not isinstance(key, keys.Ed25519PublicKey):
        raise SignatureError("is no public key of Ed25519 in PEM, nor 32 bytes")
    return key


def _libraries() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise SignatureError(
            "cannot be used: signatures need cryptography; install it by: pip install 'idiolect[signed]'"
        ) from None
    return ed25519, serialization
