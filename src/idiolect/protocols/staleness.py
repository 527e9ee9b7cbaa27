"""How much an update counts that was computed from an old model.

C. Xie, S. Koyejo, I. Gupta. Asynchronous federated optimization (FedAsync). 2019, Section 5.2: s(t - tau), constant,
hinge and polynomial. Every function is 1 for a fresh update.
"""

from collections.abc import Callable
from typing import Literal

import jax.numpy as jnp

from idiolect.contracts import Scalar

Staleness = Literal["constant", "hinge", "polynomial"]


def staleness_weight(kind: Staleness, a: float, b: float) -> Callable[[Scalar], Scalar]:
    """The weight s(staleness): 1; 1 until `b` and then 1 / (a (staleness - b) + 1); or (staleness + 1)^-a."""
    if kind == "constant":
        return lambda staleness: jnp.ones_like(staleness)
    if kind == "hinge":
        return lambda staleness: 1 / (a * jnp.maximum(staleness - b, 0) + 1)
    return lambda staleness: (staleness + 1) ** -a
