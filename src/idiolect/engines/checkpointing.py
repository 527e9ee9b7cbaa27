"""What an engine must remember to go on where it stopped, and who keeps it."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import PyTree
from idiolect.engines.tree_store import MemoryBudget
from idiolect.errors import UserMistake


class Checkpoint(NamedTuple):
    """A run at one moment: plain values as JSON has them, and arrays by name."""

    facts: dict[str, Any]
    tensors: dict[str, np.ndarray]


Tick = Callable[[float, Callable[[], Checkpoint]], None]  # (virtual time, what would have to be saved now)


class Checkpointer(NamedTuple):
    """Where a run is kept while it goes on."""

    load: Callable[[], Checkpoint | None]
    beat: Callable[[Callable[[], Checkpoint]], None]  # hears of every moment at which the run could be saved
    clear: Callable[[], None]  # the run is over
    memory: MemoryBudget = MemoryBudget()  # for what clients keep


NO_CHECKPOINTS = Checkpointer(lambda: None, lambda save: None, lambda: None)


def names_of(prefix: str, tree: PyTree) -> dict[str, Any]:
    """The leaves of a tree under the names they have in a file."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {prefix + jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def fill(prefix: str, tree: PyTree, tensors: Mapping[str, np.ndarray]) -> PyTree:
    """The tree with its leaves replaced by the saved ones of the same names."""
    leaves = []
    for name, leaf in names_of(prefix, tree).items():
        if name not in tensors or tensors[name].shape != np.shape(leaf):
            raise UserMistake(f"what was saved of the run lacks '{name}' of shape {tuple(np.shape(leaf))}")
        leaves.append(jnp.asarray(tensors[name]))
    return jax.tree.unflatten(jax.tree.structure(tree), leaves)


def as_tensors(leaves: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Leaves as arrays that can be written to a file."""
    # A number has no axis, and ascontiguousarray would give it one.
    return {name: np.asarray(leaf, order="C") for name, leaf in leaves.items()}
