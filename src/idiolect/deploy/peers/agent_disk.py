"""An agent's disk: one record of all that it is, and a log of its wakings, both durable before anything is sent.

The log is written first, then the record: a line more than the record knows is a waking that nobody heard of, and is
cut off. So a peer that is killed at any moment comes back as if it had died before its waking, or after it.

    agent.safetensors   state, memories, sums, counters; written aside, synced and renamed
    wakings.jsonl       a line for each waking: its round, and the rounds of the letters that it took in
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from idiolect.deploy.peers.agent_state import AgentState, Waking
from idiolect.deploy.peers.letters import Stamp
from idiolect.errors import UserMistake
from idiolect.files import make_folder, sweep, sync_folder, write_atomically
from idiolect.sealed_tensors import Unusable, sealed_tensors, unsealed_tensors
from idiolect.trees import as_tensors, fill, names_of

FORMAT, VERSION = "idiolect agent", "1"
RECORD, LOG = "agent.safetensors", "wakings.jsonl"
_ARRAYS = ("node", "own", "memories", "descended", "said")
_COUNTERS = ("clock", "woke", "wakings")


class AgentDisk:
    """The folder of one agent; `owner` tells its experiment, graph and name from all others."""

    def __init__(self, folder: Path, owner: str, notice: Callable[[str], None] = lambda sentence: None) -> None:
        make_folder(folder)
        self.folder, self._owner, self._notice = folder, owner, notice

    def load(self, first: AgentState) -> AgentState | None:
        """The agent as it was last saved, in the shapes of `first`; None if there is no record, or none of use.

        A damaged one is put aside: who comes back without a record is told by others what it had said.
        """
        sweep(self.folder)
        path = self.folder / RECORD
        if not path.exists():
            return None
        try:
            texts, tensors = unsealed_tensors(path, FORMAT, VERSION)
        except Unusable as reason:
            aside = path.with_suffix(".damaged")
            os.replace(path, aside)
            self._notice(f"{path} {reason}; it is put aside as {aside.name}, and the neighbours are asked instead")
            return None
        if texts["owner"] != self._owner:
            raise UserMistake(f"{path} is of another recipe, graph or peer; give --state another folder")
        facts = json.loads(texts["facts"])
        with jax.enable_x64(True):
            arrays = {name: fill(name, getattr(first, name), tensors) for name in _ARRAYS}
        self._cut_log(facts["lines"])
        return first._replace(
            **arrays,
            **{name: facts[name] for name in _COUNTERS},
            stamp=Stamp(*facts["stamp"]),
            known={name: Stamp(*stamp) for name, stamp in facts["known"].items()},
        )

    def save(self, state: AgentState, line: dict[str, Any]) -> None:
        """Keep what happened, then what the agent is now; nothing may be sent before this returns."""
        lines = self._append(line)
        facts = {name: getattr(state, name) for name in _COUNTERS}
        facts |= {"stamp": state.stamp, "known": state.known, "lines": lines}
        leaves = {key: leaf for name in _ARRAYS for key, leaf in names_of(name, getattr(state, name)).items()}
        tensors = as_tensors(leaves)
        texts = {"owner": self._owner, "facts": json.dumps(facts)}
        write_atomically(self.folder / RECORD, sealed_tensors(FORMAT, VERSION, texts, tensors))

    def _append(self, line: dict[str, Any]) -> int:
        """Add a line to the log; how long it then is, in bytes."""
        path = self.folder / LOG
        fresh = not path.exists()
        try:
            with path.open("ab") as log:
                log.write(json.dumps(line).encode() + b"\n")
                log.flush()
                os.fsync(log.fileno())
                length = log.tell()
        except OSError as reason:
            raise UserMistake(f"{path} cannot be written: {reason.strerror or reason}") from None
        if fresh:
            sync_folder(self.folder)
        return length

    def _cut_log(self, length: int) -> None:
        path = self.folder / LOG
        if path.exists() and path.stat().st_size > length:
            os.truncate(path, length)


def log_line(waking: Waking) -> dict[str, Any]:
    """A waking as the log has it."""
    return {"round": waking.round, "heard": waking.heard, "spoke": waking.spoke}
