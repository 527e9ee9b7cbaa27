"""Features and targets of about the same scale: means and deviations come from training parts alone."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Clients, Scaling
from idiolect.problems.data.input_scaling import fitted, members

Standardize: TypeAlias = Literal["together", "each", "none"]
_PARTS = ("train", "adapt", "validation", "test")
NOTES = {
    "together": "are standardized by the mean and deviation of all participating clients' training parts together",
    "each": "are standardized by the mean and deviation of each client's own training part",
}


def standardized(clients: Clients, names: Sequence[str], how: Standardize) -> tuple[Clients, dict[str, Scaling]]:
    """The same clients with some of their rows shifted and scaled, in every part; and how, where that is alike for all.

    What is constant in training is shifted only. The rows themselves are changed, so that no function of the problem
    depends on the seed.
    """
    if how == "none":
        return clients, {}
    if how == "each":
        return rescaled(clients, [training_scales(clients, names, [client]) for client in range(clients.total)]), {}
    shared = training_scales(clients, names, clients.participating)
    return rescaled(clients, [shared] * clients.total), shared


def training_scales(clients: Clients, names: Sequence[str], of: Sequence[int]) -> dict[str, Scaling]:
    """The mean and deviation of some rows over the training parts of these clients."""
    mine = members(clients.train, of)
    return {name: fitted(np.asarray(clients.train.rows[name], np.float64)[mine]) for name in names}


def rescaled(clients: Clients, scales: Sequence[Mapping[str, Scaling]]) -> Clients:
    """The same clients with the rows of each, in every part, shifted and scaled by what is given for it."""
    rows = {name: np.array(store) for name, store in clients.train.rows.items()}
    for client, known in enumerate(scales):
        for name, scaling in known.items():
            mean, deviation = (np.reshape(numbers, rows[name].shape[1:]) for numbers in scaling)
            for part in _PARTS:
                mine = members(getattr(clients, part), [client])
                rows[name][mine] = (rows[name][mine].astype(np.float64) - mean) / deviation
    store = {name: jnp.asarray(cells) for name, cells in rows.items()}
    return clients._replace(**{part: getattr(clients, part)._replace(rows=store) for part in _PARTS})
