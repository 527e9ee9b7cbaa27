"""The roster of a deployment: which certificates are in force, signed by the authority.

A certificate's common name is the machine's name and a serial number, `alice.2`, and no number is given twice. So a
certificate that was taken back never speaks for the one that came after it.
"""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from idiolect.deploy.certificates import load_certificate, needs_cryptography, now
from idiolect.errors import UserMistake
from idiolect.files import read_whole

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

ROSTER = "roster.json"
RESERVED = ("authority", "hello")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_FORMAT = 1


class Entry(NamedTuple):
    """A certificate that was issued: its common name, when it ends (ISO 8601), and whether it was taken back."""

    common_name: str
    until: str
    revoked: bool = False


class Roster(NamedTuple):
    """Which certificates there are, by the names of machines."""

    entries: dict[str, tuple[Entry, ...]]

    def common_names(self, name: str) -> list[str]:
        """The common names that speak for a machine now."""
        today = now().isoformat()
        return [one.common_name for one in self.entries.get(name, ()) if not one.revoked and one.until > today]

    @property
    def names(self) -> list[str]:
        """The machines that have a certificate in force."""
        return [name for name in self.entries if self.common_names(name)]


def checked_name(name: str) -> str:
    """A machine's name, if it can be one: it becomes part of keys and, where an operator says so, of paths."""
    if not _NAME.fullmatch(name) or name in RESERVED:
        raise UserMistake(
            f"name is '{name}', but must be small letters, digits, '-' and '_', at most 63, such as alice, and none of "
            f"{', '.join(RESERVED)}"
        )
    return name


def read_roster(path: Path, ca: Path) -> Roster:
    """A roster, if the authority has signed it as it is."""
    needs_cryptography()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    content, authority = read_whole(path, "roster"), load_certificate(ca).public_key()
    try:
        record = json.loads(content)
        told, signature = record["told"], bytes.fromhex(record["signature"])
        assert isinstance(authority, ec.EllipticCurvePublicKey)
        authority.verify(signature, _canonical(told), ec.ECDSA(hashes.SHA256()))
        version, names = told["format"], told["names"]
        entries = {checked_name(name): tuple(Entry(**one) for one in issued) for name, issued in names.items()}
    except InvalidSignature:
        raise UserMistake(f"roster {path} is not signed by the authority of {ca}") from None
    except (ValueError, TypeError, KeyError, AttributeError, AssertionError, RecursionError):
        raise UserMistake(f"roster {path} is damaged: it is no signed table") from None
    if version != _FORMAT:
        raise UserMistake(f"roster {path} was written by another version of idiolect")
    return Roster(entries)


def signed_roster(roster: Roster, key: "EllipticCurvePrivateKey") -> bytes:
    """A roster as it is written."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    names = {name: [entry._asdict() for entry in entries] for name, entries in roster.entries.items()}
    told = {"format": _FORMAT, "names": names}
    signature = key.sign(_canonical(told), ec.ECDSA(hashes.SHA256()))
    return json.dumps({"told": told, "signature": signature.hex()}, indent=1).encode()


def _canonical(told: Any) -> bytes:
    return json.dumps(told, sort_keys=True, separators=(",", ":")).encode()
