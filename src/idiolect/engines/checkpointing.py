"""Checkpoint format and the checkpointer interface."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from idiolect.engines.tree_store import MemoryBudget


class Checkpoint(NamedTuple):
    """A run at one moment: plain values as JSON has them, and arrays by name."""

    facts: dict[str, Any]
    tensors: dict[str, np.ndarray]


Tick = Callable[[float, Callable[[], Checkpoint]], None]  # (virtual time, what would have to be saved now)


class Checkpointer(NamedTuple):
    """Where a run is kept while it goes on."""

    load: Callable[[], Checkpoint | None]
    tick: Callable[[Callable[[], Checkpoint]], None]  # hears of every moment at which the run could be saved
    clear: Callable[[], None]  # the run is over
    memory: MemoryBudget = MemoryBudget()  # for what clients keep


NO_CHECKPOINTS = Checkpointer(lambda: None, lambda save: None, lambda: None)
