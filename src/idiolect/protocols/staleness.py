"""How much an update counts that was computed from an old model.

C. Xie, S. Koyejo, I. Gupta. Asynchronous federated optimization (FedAsync). 2019, Section 5.2: s(t - tau), constant,
hinge and polynomial. A. Koloskova, S. U. Stich, M. Jaggi. Sharper convergence guarantees for asynchronous SGD. 2022:
step sizes that fall like 1 / delay once the delay is above the number of clients that work at a time. Every function is
1 for a fresh update.
"""

from collections.abc import Callable
from typing import Literal

import jax.numpy as jnp

from idiolect.contracts import Scalar

Staleness = Literal["constant", "hinge", "polynomial", "delay_adaptive"]


def staleness_weight(kind: Staleness, a: float, b: float) -> Callable[[Scalar], Scalar]:
    """The weight s: 1; 1 until `b` and then 1 / (a (staleness - b) + 1) or b / staleness; or (staleness + 1)^-a."""
    if kind == "constant":
        return lambda staleness: jnp.ones_like(staleness)
    if kind == "hinge":
        return lambda staleness: 1 / (a * jnp.maximum(staleness - b, 0) + 1)
    if kind == "delay_adaptive":
        return lambda staleness: jnp.minimum(1, b / jnp.maximum(staleness, 1))
    return lambda staleness: (staleness + 1) ** -a
