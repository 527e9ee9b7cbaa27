"""Label counts: which classes clients hold, and how far that is from what everybody holds."""

import numpy as np

from idiolect.contracts import Clients

_LABEL = "label"  # the row that says a sample's class, where a problem is classification


def label_counts(clients: Clients) -> np.ndarray | None:
    """How many samples of each class every client holds, in all parts together; None where samples have no classes."""
    rows = clients.train.rows
    if not isinstance(rows, dict) or _LABEL not in rows:
        return None
    labels = np.asarray(rows[_LABEL])
    counts = np.zeros((clients.total, int(labels.max()) + 1), np.int64)
    for part in (clients.train, clients.adapt, clients.validation, clients.test):
        for client, (start, size) in enumerate(zip(part.starts, part.sizes, strict=True)):
            counts[client] += np.bincount(labels[start : start + size], minlength=counts.shape[1])
    return counts


def label_skew(counts: np.ndarray) -> np.ndarray:
    """For each client, the total variation distance of its classes from everybody's together: 0 alike, 1 disjoint."""
    mine = counts / counts.sum(axis=1, keepdims=True)
    everybody = counts.sum(axis=0) / counts.sum()
    return 0.5 * np.abs(mine - everybody).sum(axis=1)
