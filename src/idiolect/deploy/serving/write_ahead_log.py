"""A write-ahead log: what was said to be taken is in it, whatever happens to the process or the power.

    IDWL | number of the first record, 8 bytes | length, 4 bytes | digest of both and of the content, 16 bytes | content

Records are numbered from 1; those that are synced together stand in one frame, each with its length. Files are
`log-<number of the first record>.wal`; a new one begins with each checkpoint, so that old ones can go. A frame that a
killed process or a power loss has cut short at the very end was never synced, so nobody was told of it: it is dropped.
Damage anywhere else is not.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO, NamedTuple

from idiolect.errors import UserMistake
from idiolect.files import read_whole, sync_folder

MAGIC = b"IDWL"
_HEAD = 4 + 8 + 4 + 16


class LogRecord(NamedTuple):
    """A record: its number, and what it says."""

    number: int
    content: bytes


class WriteAheadLog:
    """The log in a folder, open at its end. One process may write to it at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.last = 0  # the number of the last record
        files = self._files()
        for place, file in enumerate(files):
            self._read(file, is_last=place == len(files) - 1)
        self._file = self._open(files[-1] if files else self._name(1))

    def records(self, after: int) -> Iterator[LogRecord]:
        """The records behind a number, in order."""
        expected = after + 1
        for file in self._files():
            for record in _records(read_whole(file))[0]:
                if record.number > after:
                    if record.number != expected:
                        raise UserMistake(
                            f"the log in {self._folder} lacks record {expected}; restore it from a backup"
                        )
                    expected += 1
                    yield record

    @property
    def length(self) -> int:
        """How many bytes the file has that is being written."""
        return self._file.tell()

    def append(self, contents: Sequence[bytes]) -> None:
        """Write records and sync them: when this returns, they are there for good."""
        try:
            self._file.write(_framed(self.last + 1, contents))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as reason:
            raise UserMistake(f"the log in {self._folder} cannot be written: {reason.strerror or reason}") from None
        self.last += len(contents)

    def rotate(self, keep_after: int) -> None:
        """Begin a new file, and remove those whose records are all up to this number."""
        if self._file.tell():
            self._file.close()
            self._file = self._open(self._name(self.last + 1))
        files = self._files()
        for file, following in pairwise(files):
            if _first(following) <= keep_after + 1:
                file.unlink()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _read(self, file: Path, *, is_last: bool) -> None:
        content = read_whole(file)
        found, whole = _records(content)
        if self.last and _first(file) != self.last + 1:
            raise self._lacking(self.last + 1)
        if found and found[0].number != _first(file):
            raise UserMistake(f"{file} begins with record {found[0].number}, which its name does not say")
        if whole < len(content) and (not is_last or _goes_on(content, whole)):
            raise UserMistake(f"{file} is damaged at byte {whole}, before its end; restore it from a backup")
        if whole < len(content):
            with open(file, "r+b") as torn:
                torn.truncate(whole)
                os.fsync(torn.fileno())
        self.last = found[-1].number if found else _first(file) - 1

    def _lacking(self, number: int) -> UserMistake:
        return UserMistake(f"the log in {self._folder} lacks record {number}; restore it from a backup")

    def _open(self, file: Path) -> IO[bytes]:
        opened = open(file, "ab")  # noqa: SIM115, it stays open
        sync_folder(self._folder)
        return opened

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("log-*.wal"))

    def _name(self, first: int) -> Path:
        return self._folder / f"log-{first:016d}.wal"


def _first(file: Path) -> int:
    return int(file.stem.removeprefix("log-"))


def _framed(number: int, contents: Sequence[bytes]) -> bytes:
    inside = b"".join(len(content).to_bytes(4, "little") + content for content in contents)
    head = number.to_bytes(8, "little") + len(inside).to_bytes(4, "little")
    return MAGIC + head + _digest(head, inside) + inside


def _digest(head: bytes, inside: bytes) -> bytes:
    return hashlib.sha256(head + inside).digest()[:16]


def _records(content: bytes) -> tuple[list[LogRecord], int]:
    """The records of all whole frames from the beginning on, and where those end."""
    found, at = list[LogRecord](), 0
    while (frame := _frame_at(content, at)) is not None and (not found or frame[0] == found[-1].number + 1):
        number, inside = frame
        at += _HEAD + len(inside)
        place = 0
        while place < len(inside):
            end = place + 4 + int.from_bytes(inside[place : place + 4], "little")
            found.append(LogRecord(number, inside[place + 4 : end]))
            number, place = number + 1, end
    return found, at


def _frame_at(content: bytes, at: int) -> tuple[int, bytes] | None:
    """The number of the first record and the inside of a whole frame."""
    if content[at : at + 4] != MAGIC:
        return None
    head = content[at + 4 : at + 16]
    end = at + _HEAD + int.from_bytes(head[8:], "little")
    inside = content[at + _HEAD : end]
    if end > len(content) or _digest(head, inside) != content[at + 16 : at + _HEAD]:
        return None
    return int.from_bytes(head[:8], "little"), inside


def _goes_on(content: bytes, at: int) -> bool:
    """Does a whole frame come later? Then what is between was not cut short, but damaged."""
    while (at := content.find(MAGIC, at + 1)) >= 0:
        if _frame_at(content, at) is not None:
            return True
    return False
