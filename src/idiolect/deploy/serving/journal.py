"""What a server decides, in its log before anybody hears of it; and how it comes back from there.

A decision changes the desk at once and waits as a record; `sync` writes all that wait, and only then may anybody be
told. A checkpoint and the log behind it give the desk back to the byte.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from idiolect.deploy.serving.desk import Desk
from idiolect.deploy.serving.server_checkpoints import read_checkpoint, write_checkpoint
from idiolect.deploy.serving.write_ahead_log import WriteAheadLog
from idiolect.deploy.wire import Message, PackedArrays, pack, unpack
from idiolect.files import make_folder, sweep
from idiolect.network.recorder import Clock

_LOG_BYTES = 2**30  # of the log since a checkpoint, after which there is another one
_LARGEST = 2**31
_NOTHING = PackedArrays(b"", "")


class Journal:
    """The desk's log and checkpoints in a folder. `identity` is that of what is served."""

    def __init__(
        self,
        desk: Desk,
        folder: Path,
        identity: str,
        checkpoint_every: int,
        *,
        moment: Callable[[str], None] = lambda name: None,
        notice: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._desk, self._folder, self._identity = desk, folder, identity
        self._every, self._moment = checkpoint_every, moment
        make_folder(folder)
        sweep(folder)
        saved, wrong = read_checkpoint(folder, identity)
        for sentence in wrong:
            notice(sentence)
        if saved is not None:
            desk.restore(saved.content)
        self._log, self._saved_at = WriteAheadLog(folder), 0 if saved is None else saved.number
        for record in self._log.records(self._saved_at):
            desk.apply(unpack(record.content, limit=_LARGEST))
        desk.settle()
        self.clock = Clock(desk.time)
        self._pending: list[bytes] = []

    def note(
        self,
        kind: str,
        name: str,
        tensors: dict[str, np.ndarray] | None = None,
        packed: PackedArrays = _NOTHING,
        **facts: Any,
    ) -> None:
        """Decide something; `packed` are the tensors as the log has them."""
        said = {"kind": kind, "name": name, "time": self.clock.now(), **facts}
        self._pending.append(pack(said, packed))
        try:
            self._desk.apply(Message(said, tensors or {}))
        except (KeyError, TypeError, ValueError, OverflowError) as fault:
            raise RuntimeError("a record cannot be applied") from fault  # which is no fault of whoever sent a message

    def sync(self) -> None:
        """Write what was decided since the last time, and save a checkpoint if it is due."""
        if not self._pending:
            return
        self._moment("before log")
        self._log.append(self._pending)
        self._pending = []
        self._moment("after log")
        if self._is_due():
            self.save()

    def save(self) -> None:
        """Write a checkpoint, and forget the log that nobody needs any more."""
        assert not self._pending
        if self._log.last == self._saved_at:
            return
        self._moment("before checkpoint")
        needless = write_checkpoint(self._folder, self._identity, self._log.last, self._desk.saved())
        self._saved_at = self._log.last
        self._moment("after checkpoint")
        self._log.rotate(needless)

    def close(self) -> None:
        """Save, and let go of the files."""
        self.sync()
        self.save()
        self._log.close()

    def _is_due(self) -> bool:
        """A checkpoint has all turns, so there are fewer as the run grows; and more while the log grows fast."""
        since, turns = self._log.last - self._saved_at, len(self._desk.recorder.client)
        return since >= max(self._every, turns // 10) or self._log.length > _LOG_BYTES
