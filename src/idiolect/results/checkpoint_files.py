"""Checkpoint files of unfinished cells: a run that is killed at any moment goes on from here, to the same results.

Two checkpoints are kept, and written in turns, so that there is always one that nobody was writing. Each is a file of
tensors with facts in its header and a digest over all of it; nothing is ever unpickled. One that is damaged, or that
belongs to another recipe or another timeline, is named and passed over. So is one that was made from other data or by
another JAX, since what it would come to is neither this run nor that one.
"""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from idiolect.contracts import PyTree
from idiolect.engines.checkpointing import Checkpoint, Checkpointer
from idiolect.engines.tree_store import MemoryBudget
from idiolect.errors import Interrupted
from idiolect.experiments.recording import Cell
from idiolect.files import write_atomically
from idiolect.sealed_tensors import Unusable, sealed_tensors, unsealed_tensors

FORMAT, VERSION = "idiolect checkpoint", "4"


class Pace(NamedTuple):
    """When to save: after so many seconds or so many moments, but never for more than a small share of the time."""

    seconds: float = 30.0
    moments: int = 20_000
    share: float = 0.01


class _Origin(NamedTuple):
    """What a checkpoint was made of and by: the cells it is of, their data, and the JAX that computed it."""

    owner: str
    data: str
    jax: str


def checkpoints(
    folder: Path,
    recipe: str,
    label: str,
    cells: Sequence[Cell],
    *,
    pace: Pace = Pace(),
    memory: int = MemoryBudget().bytes,
    stop: Callable[[], bool] = lambda: False,
    notice: Callable[[str], None] = lambda sentence: None,
) -> Checkpointer:
    """A checkpointer in this folder for cells that run side by side; `recipe` is the experiment as it was written.

    If `stop` says so, the run is saved and `Interrupted`. `notice` hears of checkpoints that cannot be used. What
    clients keep goes to this folder as well, beyond so many bytes of `memory`.
    """
    name, whose = f"{label}-seed{cells[0].seed}", _origin(recipe, label, cells)
    files = [folder / f"{name}.{turn}.safetensors" for turn in "ab"]
    state = _Clock(pace)

    def load() -> Checkpoint | None:
        found = []
        for file in files:
            try:
                found += [_read(file, whose)] if file.exists() else []
            except Unusable as reason:
                notice(f"checkpoint {file} {reason}; it is passed over")
        if not found:
            return None
        state.serial, saved = max(found, key=lambda pair: pair[0])
        return saved

    def tick(save_now: Callable[[], Checkpoint]) -> None:
        stopping = stop()
        if stopping or state.due():
            with state:
                state.serial += 1
                write_atomically(files[state.serial % 2], _written(save_now(), whose, state.serial))
        if stopping:
            raise Interrupted

    def clear() -> None:
        for file in files:
            with suppress(OSError):  # all results are there; what is in the way can stay
                file.unlink(missing_ok=True)

    return Checkpointer(load, tick, clear, MemoryBudget(memory, folder))


class _Clock:
    """Decides when the next checkpoint is due, by what the last one cost."""

    def __init__(self, pace: Pace) -> None:
        self.serial = 0
        self._pace, self._moments, self._last, self._cost = pace, 0, time.perf_counter(), 0.0

    def due(self) -> bool:
        self._moments += 1
        waited = time.perf_counter() - self._last
        enough = waited >= self._pace.seconds or self._moments >= self._pace.moments
        return enough and waited >= self._cost / self._pace.share

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._last = time.perf_counter()
        self._moments, self._cost = 0, self._last - self._began


def _origin(recipe: str, label: str, cells: Sequence[Cell]) -> _Origin:
    """What tells the checkpoints of these cells from all others: version, recipe, algorithm, seeds and timelines."""
    texts = [version("idiolect"), recipe, label, [cell.seed for cell in cells]]
    owner = hashlib.sha256(json.dumps(texts).encode())
    _add_arrays(owner, [cell.table for cell in cells])
    data, rows = hashlib.sha256(), [part for cell in cells if cell.clients for part in cell.clients[:4]]
    _add_arrays(data, list({id(leaf): leaf for leaf in jax.tree.leaves(rows)}.values()))  # parts share their rows
    return _Origin(owner.hexdigest(), data.hexdigest(), jax.__version__)


def _add_arrays(found: "hashlib._Hash", tree: PyTree) -> None:
    for column in jax.tree.leaves(tree):
        found.update(np.asarray(column, order="C").reshape(-1).view(np.uint8).data)  # a copy would hold the data twice


def _written(saved: Checkpoint, whose: _Origin, serial: int) -> bytes:
    texts = {**whose._asdict(), "serial": str(serial), "facts": json.dumps(saved.facts)}
    return sealed_tensors(FORMAT, VERSION, texts, saved.tensors)


def _read(file: Path, whose: _Origin) -> tuple[int, Checkpoint]:
    texts, tensors = unsealed_tensors(file, FORMAT, VERSION)
    if texts["owner"] != whose.owner:
        raise Unusable("belongs to another recipe, timeline or version")
    if texts["data"] != whose.data:
        raise Unusable("was made from other data")
    if texts["jax"] != whose.jax:
        raise Unusable(f"was made by JAX {texts['jax']}, and this is JAX {whose.jax}")
    return int(texts["serial"]), Checkpoint(json.loads(texts["facts"]), tensors)
