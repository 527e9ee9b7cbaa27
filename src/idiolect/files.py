"""Atomic file writes: a file is there whole or not at all."""

import os
import tempfile
from pathlib import Path

from idiolect.errors import UserMistake

_UNFINISHED = ".unfinished"  # ends the name of a file while it is written; a dot begins it


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, or say why it cannot be written."""
    try:
        _write_aside_and_rename(path, content)
    except OSError as reason:  # a full disk, say
        raise UserMistake(f"{path} cannot be written: {reason.strerror or reason}") from None


def is_unfinished(path: Path) -> bool:
    """Was this file being written when its writer was killed (or is it being written now)?"""
    return path.name.startswith(".") and path.name.endswith(_UNFINISHED)


def sweep(folder: Path) -> None:
    """Remove what a killed writer has left in a folder, but not in those within. Nobody may be writing there."""
    for path in filter(is_unfinished, folder.iterdir()):
        path.unlink()


def _write_aside_and_rename(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
