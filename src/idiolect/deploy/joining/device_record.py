"""What a device keeps on its disk: one record, written whole or not at all.

It goes through three stages. *Idle*: what the client keeps, as it was settled. *Committed*: a turn was taken; what the
client kept before and after it, and what is to be sent, in one record, so that they can never part. *Taken*: the server
has it in its log; what was to be sent is forgotten, and both versions stay until the server tells which of them counts.
"""

import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from idiolect.deploy.wire import WireError, pack, unpack
from idiolect.errors import UserMistake
from idiolect.files import make_folder, read_whole, sweep, write_atomically
from idiolect.trees import as_tensors, fill, names_of

PyTree = Any
Stage = Literal["idle", "committed", "taken"]
_FORMAT = 1
_LARGEST = 2**40


class DeviceRecord(NamedTuple):
    """A device between two of its moments.

    Args:
        identity: Of what it works on.
        incarnation: New if the disk was lost, or is older than what the server has heard.
        client: Its number, once the server has given it one.
        last: The number of its last turn that the server has in its log.
        stage: How far the turn is.
        turn: The turn's number, unless it is idle.
        before: What the client kept before the turn; None if it never had anything.
        after: What it keeps if its update counts.
        upload: The message to be sent, while it is committed.
    """

    identity: str
    incarnation: str
    client: int | None = None
    last: int | None = None
    stage: Stage = "idle"
    turn: int | None = None
    before: PyTree = None
    after: PyTree = None
    upload: bytes = b""

    def reborn(self) -> "DeviceRecord":
        """The same as a new incarnation, which has sent nothing yet."""
        kept = self.before if self.stage == "idle" else self.after
        return DeviceRecord(self.identity, new_incarnation(), self.client, before=kept)


def new_incarnation() -> str:
    """A name that nobody has had."""
    return os.urandom(8).hex()


class RecordFile:
    """Where the record lies. Whoever reads or writes it holds the folder's lock."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        os.chmod(folder, 0o700)
        self._path = folder / "record"

    def read(self, identity: str, like: PyTree) -> DeviceRecord:
        """The record; a new one if there is none. `like` is a tree as the client would keep."""
        sweep(self._path.parent)  # not before: another process that has the lock may be writing
        if not self._path.exists():
            return DeviceRecord(identity, new_incarnation())
        try:
            said, tensors = unpack(read_whole(self._path), limit=_LARGEST)
        except WireError as reason:
            raise UserMistake(f"{self._path} is damaged ({reason}); remove it to join as a new incarnation") from None
        if said.get("format") != _FORMAT:
            raise UserMistake(f"{self._path} was written by another version of idiolect; name a new --state")
        if said["identity"] != identity:
            raise UserMistake(f"{self._path} is of another experiment, algorithm or seed; name a new --state")
        kept: dict[str, Any] = {name: fill(name, like, tensors) if said[name] else None for name in ("before", "after")}
        facts = {name: said[name] for name in ("incarnation", "client", "last", "stage", "turn")}
        return DeviceRecord(identity, **facts, **kept, upload=tensors["upload"].tobytes())

    def write(self, record: DeviceRecord) -> None:
        """Keep the record; when this returns, it is there for good."""
        leaves = {"upload": np.frombuffer(record.upload, np.uint8)}
        for name in ("before", "after"):
            leaves |= as_tensors(names_of(name, getattr(record, name)))
        facts = {name: getattr(record, name) for name in ("identity", "incarnation", "client", "last", "stage", "turn")}
        there = {name: getattr(record, name) is not None for name in ("before", "after")}
        write_atomically(self._path, pack({"format": _FORMAT, **facts, **there}, leaves))
