"""Client data records: every client's rows, in one store for all clients and four parts that never overlap."""

from typing import Annotated, NamedTuple

import jax
import numpy as np
from annotated_types import Gt

from idiolect.contracts.aliases import PyTree


class Shard(NamedTuple):
    """One client's share of a split: `size` rows from `start` on, in a store that holds the rows of all clients.

    Clients share one store so that a compiled function serves every client, whatever the size of its data.
    """

    rows: PyTree
    start: jax.Array | np.int32
    size: jax.Array | np.int32


class Scaling(NamedTuple):
    """How inputs were shifted and scaled before a model saw them: (input - mean) / deviation, channel by channel.

    Args:
        mean: One number for each channel of images, or for each feature.
        deviation: The same.

    Example:
        >>> from idiolect.contracts import Scaling
        >>> Scaling(mean=(0.1307,), deviation=(0.3081,)).deviation
        (0.3081,)
    """

    mean: tuple[float, ...]
    deviation: tuple[Annotated[float, Gt(0)], ...]


class Split(NamedTuple):
    """One part of everybody's data (say, all test rows), stored client after client."""

    rows: PyTree
    starts: np.ndarray
    sizes: np.ndarray

    def shard(self, client: int) -> Shard:
        """The rows of one client."""
        return Shard(self.rows, self.starts[client], self.sizes[client])


class Clients(NamedTuple):
    """Every client's data in four parts that never overlap, and which clients take no part in training.

    `start_models`, a pytree of arrays with a row for each client, is for agents without a server that start apart.
    `names` are the clients' own, in the order of their numbers, where the data has any.
    """

    train: Split
    adapt: Split
    validation: Split
    test: Split
    unseen: frozenset[int] = frozenset()
    start_models: PyTree | None = None
    names: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """How many clients there are, unseen ones included."""
        return len(self.train.sizes)

    @property
    def participating(self) -> list[int]:
        """The clients that take part in training."""
        everybody = range(self.total)
        return [client for client in everybody if client not in self.unseen] if self.unseen else list(everybody)
