"""A partition of your own: who holds which sample.

idiolect run demo --with examples/skeletons/partition.py --set 'problem.partition={name="odd_and_even"}'
"""

import numpy as np

import idiolect
from idiolect.problems.data.partitions import Deal


@idiolect.partition
def odd_and_even() -> Deal:
    """Half of the clients hold odd classes, the others even ones."""

    def deal(labels: np.ndarray, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        hands: list[np.ndarray] = [np.empty(0, int)] * clients
        for parity in (0, 1):
            holders = [client for client in range(clients) if client % 2 == parity]
            samples = rng.permutation(np.flatnonzero(labels % 2 == parity))
            for holder, hand in zip(holders, np.array_split(samples, max(len(holders), 1)), strict=False):
                hands[holder] = hand
        return hands

    return deal
