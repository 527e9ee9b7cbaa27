"""A disk that loses what was not synced: what is left of a folder when the power goes.

A file's content is safe once it was synced itself; its name, once its folder was. A name that is safe before its
content leads to an empty file, as journaling file systems may leave it.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest


class PowerLoss(BaseException):
    """The power goes; nothing can catch that."""


class LosingDisk:
    """Watches what is synced under a folder; `lose` puts the folder into the state that a power loss would leave."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.syncs, self.fails_at = root, 0, -1
        self._contents: dict[int, bytes] = {}  # by inode: what was synced of it
        self._names: dict[Path, dict[str, int | None]] = {}  # by folder: what was synced in it; None is a folder
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, handle: int) -> None:
        """Note what is safe from now on; or fail, if it is time for that."""
        self._fsync(handle)
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        if not path.is_relative_to(self.root):
            return
        self.syncs += 1
        if self.syncs == self.fails_at:
            raise PowerLoss
        if path.is_dir():
            self._names[path] = {one.name: None if one.is_dir() else one.stat().st_ino for one in path.iterdir()}
        else:
            self._contents[path.stat().st_ino] = path.read_bytes()

    def lose(self) -> None:
        """Only what was synced is left."""
        left: list[tuple[Path, bytes | None]] = []
        self._collect(self.root, left)
        shutil.rmtree(self.root)
        self.root.mkdir()
        for path, content in left:
            path.mkdir() if content is None else path.write_bytes(content)
        self._contents, self._names = {}, {}
        for folder in [self.root, *(path for path in self.root.rglob("*") if path.is_dir())]:
            self._names[folder] = {one.name: None if one.is_dir() else one.stat().st_ino for one in folder.iterdir()}
        for file in filter(Path.is_file, self.root.rglob("*")):
            self._contents[file.stat().st_ino] = file.read_bytes()

    def _collect(self, folder: Path, left: list[Any]) -> None:
        for name, inode in self._names.get(folder, {}).items():
            if inode is None:
                left.append((folder / name, None))
                self._collect(folder / name, left)
            else:
                left.append((folder / name, self._contents.get(inode, b"")))
