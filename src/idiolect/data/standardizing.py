"""Features and targets of about the same scale: means and deviations come from training parts alone."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Clients, Split

Standardize: TypeAlias = Literal["together", "each", "none"]
NOTES = {
    "together": "are standardized by the mean and deviation of all participating clients' training parts together",
    "each": "are standardized by the mean and deviation of each client's own training part",
}


def standardized(clients: Clients, names: Sequence[str], how: Standardize) -> Clients:
    """The same clients with some of their rows shifted and scaled, in every part.

    What is constant in training is shifted only. The rows themselves are changed, so that no function of the problem
    depends on the seed.
    """
    if how == "none":
        return clients
    rows = {name: np.array(store) for name, store in clients.train.rows.items()}
    for name in names:
        values = rows[name].astype(np.float64)
        shared = _fit(values[_members(clients.train, clients.participating)])
        for client in range(clients.total):
            mean, deviation = shared if how == "together" else _fit(values[_members(clients.train, [client])])
            for part in (clients.train, clients.adapt, clients.validation, clients.test):
                mine = _members(part, [client])
                rows[name][mine] = (values[mine] - mean) / deviation
    store = {name: jnp.asarray(cells) for name, cells in rows.items()}
    parts = {name: getattr(clients, name)._replace(rows=store) for name in ("train", "adapt", "validation", "test")}
    return clients._replace(**parts)


def _members(split: Split, clients: Sequence[int]) -> np.ndarray:
    """The row numbers of some clients in a part."""
    return np.concatenate([np.arange(split.starts[k], split.starts[k] + split.sizes[k]) for k in clients])


def _fit(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    # What is constant may differ from its mean by rounding, which is not to be blown up.
    return mean, np.where(deviation > 1e-6 * np.maximum(1.0, np.abs(mean)), deviation, 1.0)
