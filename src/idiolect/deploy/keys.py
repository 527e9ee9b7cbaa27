"""A certificate authority for the machines of one deployment, and what each of them is given.

`init` makes the authority's folder, `issue` a folder for one machine, to be copied there, `revoke` takes it back:

    keys/authority/   the authority: ca.pem, and its private key, which belongs nowhere else
    keys/roster.json  which certificates are in force, signed by the authority
    keys/alice/       what alice needs: ca.pem, cert.pem, key.pem and the roster

Only a certificate with hosts can be listened with: a device cannot pass for the server.
"""

import datetime as dt
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from idiolect.deploy.certificates import (
    authority_certificate,
    common_name_of,
    key_text,
    load_certificate,
    load_key,
    machine_certificate,
    needs_cryptography,
    new_key,
    now,
)
from idiolect.deploy.roster import ROSTER, Entry, Roster, checked_name, read_roster, signed_roster
from idiolect.errors import UserMistake
from idiolect.files import make_folder, read_whole, write_atomically


class Identity(NamedTuple):
    """What a machine proves itself with: its name, and the files in its folder."""

    name: str
    ca: Path
    cert: Path
    key: Path
    roster: Path


def init(folder: Path, *, days: int = 3650) -> Path:
    """Make an authority; its folder, which must not be there yet."""
    needs_cryptography()
    authority = folder / "authority"
    if authority.exists():
        raise UserMistake(f"{authority} is there already; another authority needs another folder")
    key = new_key()
    content = authority_certificate(key, days)
    make_folder(authority)
    os.chmod(authority, 0o700)
    _write_private(authority / "ca-key.pem", key_text(key))
    write_atomically(authority / "ca.pem", content)
    _write_roster(folder, Roster({}))
    return authority


def issue(folder: Path, name: str, *, hosts: Sequence[str] = (), days: int = 90) -> Path:
    """Make a new key and certificate for a machine, into its folder. With `hosts`, others can connect to it there."""
    roster, key = _roster(folder), new_key()
    issued = roster.entries.get(checked_name(name), ())
    entry = Entry(f"{name}.{len(issued) + 1}", (now() + dt.timedelta(days=days)).isoformat())
    ca = folder / "authority" / "ca.pem"
    signing = load_key(folder / "authority" / "ca-key.pem")
    content = machine_certificate(entry.common_name, key, hosts, days, load_certificate(ca), signing)
    # The roster first: a number that it has is never given again, whatever happens to the files.
    _write_roster(folder, Roster({**roster.entries, name: (*issued, entry)}))
    place = folder / name
    make_folder(place)
    os.chmod(place, 0o700)
    _write_private(place / "key.pem", key_text(key))
    write_atomically(place / "cert.pem", content)
    write_atomically(place / "ca.pem", read_whole(ca))
    write_atomically(place / ROSTER, read_whole(folder / ROSTER))
    return place


def revoke(folder: Path, name: str) -> list[str]:
    """Take back all certificates of a machine; their common names. The new roster must reach those who listen."""
    roster = _roster(folder)
    gone = roster.common_names(checked_name(name))
    if not gone:
        having = ", ".join(roster.names) or "nobody"
        raise UserMistake(f"name is '{name}', which has no certificate in force; in {folder}, {having} has")
    revoked = tuple(entry._replace(revoked=True) for entry in roster.entries[name])
    _write_roster(folder, Roster({**roster.entries, name: revoked}))
    return gone


def read_identity(folder: Path) -> Identity:
    """What lies in a machine's folder, if it fits together and is in force."""
    needs_cryptography()
    ca, cert, key = (folder / name for name in ("ca.pem", "cert.pem", "key.pem"))
    mine, authority = load_certificate(cert), load_certificate(ca)
    if load_key(key).public_key() != mine.public_key():
        raise UserMistake(f"key {key} does not belong to {cert}")
    try:
        mine.verify_directly_issued_by(authority)
    except Exception:  # one of several, as the ways in which it is wrong
        raise UserMistake(f"certificate {cert} was not issued by the authority of {ca}") from None
    if mine.not_valid_after_utc < now():
        raise UserMistake(f"certificate {cert} ended on {mine.not_valid_after_utc:%Y-%m-%d}; have a new one issued")
    return Identity(checked_name(common_name_of(mine).rpartition(".")[0]), ca, cert, key, folder / ROSTER)


def _roster(folder: Path) -> Roster:
    needs_cryptography()
    if not (folder / "authority").is_dir():
        raise UserMistake(f"{folder} has no authority; make one with: idiolect keys init --folder {folder}")
    return read_roster(folder / ROSTER, folder / "authority" / "ca.pem")


def _write_private(path: Path, content: bytes) -> None:
    """Write a file that nobody else can read at any moment: it is made so, not changed to be so."""
    aside = path.with_name(f".{path.name}.unfinished")
    aside.unlink(missing_ok=True)
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)


def _write_roster(folder: Path, roster: Roster) -> None:
    """Sign the roster and write it, also into the folders of machines that are still here."""
    content = signed_roster(roster, load_key(folder / "authority" / "ca-key.pem"))
    for place in [folder, *(folder / name for name in roster.entries if (folder / name).is_dir())]:
        write_atomically(place / ROSTER, content)
