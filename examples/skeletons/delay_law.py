"""A law of delays of your own, by its mean and its coefficient of variation.

idiolect run demo --with examples/skeletons/delay_law.py --set 'network.download={law="two_speeds",mean=1.0}'
"""

import numpy as np

import idiolect


@idiolect.delay_law
def two_speeds(mean: float, variation: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """Fast or slow, each half of the time; `variation` says how far apart."""
    slow = rng.random(count) < 0.5
    return mean * np.where(slow, 1 + min(variation, 1.0), 1 - min(variation, 1.0))
