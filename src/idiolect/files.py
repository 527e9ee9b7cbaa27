"""Files that are there whole or not at all, also after a power loss; and reading of nothing but files."""

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from idiolect.errors import UserMistake

UNFINISHED = ".unfinished"  # ends the name of a file while it is written; a dot begins it


def write_atomically(path: Path, content: bytes | Callable[[IO[bytes]], object]) -> None:
    """Write a file so that it is there whole or not at all, or say why it cannot be written.

    What does not fit into memory is given as a function that writes it.
    """
    try:
        _write_aside_and_rename(path, content if callable(content) else lambda file: file.write(content))
    except OSError as reason:  # a full disk, say
        raise UserMistake(f"{path} cannot be written: {reason.strerror or reason}") from None


def read_whole(path: Path, what: str = "") -> bytes:
    """The content of a file, or one sentence on why there is none; a device or a pipe would never end.

    The sentence begins with `what` the file is to be.
    """
    named = f"{what} {path}".lstrip()
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UserMistake(f"{named} cannot be read: it is no file")
        return path.read_bytes()
    except OSError as reason:
        raise UserMistake(f"{named} cannot be read: {reason.strerror or reason}") from None


def digest_of_file(path: Path) -> str:
    """SHA-256 of a file, which may be larger than memory."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UserMistake(f"{path} cannot be read: it is no file")
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as reason:
        raise UserMistake(f"{path} cannot be read: {reason.strerror or reason}") from None


def make_folder(path: Path) -> None:
    """Make a folder, and those it lies in; one that is there already will do."""
    if path.is_dir():
        return
    if path.parent != path:
        make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Have the names in a folder outlive a power loss; the content of a file does not say what it is called."""
    if not hasattr(os, "O_DIRECTORY"):
        return  # Windows has no handles of folders to sync
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_unfinished(path: Path) -> bool:
    """Was this file being written when its writer was killed (or is it being written now)?"""
    return path.name.startswith(".") and path.name.endswith(UNFINISHED)


def sweep(folder: Path) -> None:
    """Remove what a killed writer has left in a folder, but not in those within. Nobody may be writing there."""
    for path in filter(is_unfinished, folder.iterdir()):
        path.unlink()


def _write_aside_and_rename(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
