"""How to combine updates some of which may be lies: by medians, trimmed means, and with bounded lengths.

D. Yin, Y. Chen, K. Ramchandran, P. Bartlett. Byzantine-robust distributed learning: towards optimal statistical rates.
2018, Definitions 1 (coordinate-wise median) and 2 (coordinate-wise trimmed mean), in Algorithm 1. Z. Sun, P. Kairouz,
A. T. Suresh, H. B. McMahan. Can you really backdoor federated learning? 2019, Section 5 (norm clipping).
`idiolect.protocols.whole_updates` has combinations of whole updates, which look at their direction as well.

| paper | code |
| --- | --- |
| Yin et al., Def. 1: in each coordinate, the median of the updates | `combine="median"` |
| Yin et al., Def. 2: in each coordinate, the mean without the largest and the smallest share beta | `"trimmed_mean"` |
| Sun et al., Sec. 5: w_k / max(1, |w_k| / M) | `clip` |

Deviations: updates of local steps are combined, where Yin et al. combine gradients. Of a round with few updates the
trimmed share is rounded down to a whole number of them.

Laws: the order of the updates does not matter; trimming nothing gives the mean; the median of equal updates is that
update; with fewer than half of them arbitrary, every coordinate stays within the range of the honest ones.
"""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from idiolect.contracts import Params, PyTree, Scalar
from idiolect.protocols.whole_updates import WHOLE, whole_combination
from idiolect.trees import norm as length_of

Combine = Literal["mean", "median", "trimmed_mean", "geometric_median", "centered_clipping", "krum"]


class Held(NamedTuple):
    """The model, and the updates that wait for the next step, one by one: as many rows as fit."""

    params: Params
    rows: PyTree
    filled: Scalar


def hold(params: Params, capacity: int) -> Held:
    """Nothing has arrived yet."""
    rows = jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), params)
    return Held(params, rows, jnp.int32(0))


def add(held: Held, delta: Params) -> Held:
    """One more update; a row must be free."""
    rows = jax.tree.map(lambda rows, leaf: rows.at[held.filled].set(leaf), held.rows, delta)
    return held._replace(rows=rows, filled=held.filled + 1)


def combination(kind: Combine, trim: float) -> Callable[[PyTree, Scalar], Params]:
    """(rows, how many of them count) -> what they come to; nothing, if none counts. `trim` is the share of liars."""
    if kind in WHOLE:
        return whole_combination(kind, trim)
    assert kind in ("median", "trimmed_mean")  # coordinate by coordinate

    def weights(capacity: int, filled: Scalar) -> jax.Array:
        """How much each place in the order counts."""
        place = jnp.arange(capacity)
        if kind == "median":
            middle = (place >= (filled - 1) // 2) & (place <= filled // 2) & (place < filled)
        else:
            # Counted here, in exact numbers, for every number of updates there can be.
            cut = jnp.array([math.floor(trim * count + 1e-9) for count in range(capacity + 1)])[filled]
            middle = (place >= cut) & (place < filled - cut)
        return middle / jnp.maximum(middle.sum(), 1)

    def combined(rows: jax.Array, filled: Scalar) -> jax.Array:
        capacity = len(rows)
        counts = (jnp.arange(capacity) < filled).reshape(-1, *[1] * (rows.ndim - 1))
        order = jnp.sort(jnp.where(counts, rows, jnp.inf), axis=0)
        share = weights(capacity, filled).astype(rows.dtype).reshape(counts.shape)
        return (share * jnp.where(share > 0, order, 0)).sum(0)  # what has no weight may be infinite

    return lambda rows, filled: jax.tree.map(lambda leaf: combined(leaf, filled), rows)


def clip(delta: Params, norm: float | None) -> Params:
    """The update, shortened to `norm` if it is longer."""
    if norm is None:
        return delta
    long = length_of(delta)
    share = jnp.where(long > norm, norm / long, 1)
    return jax.tree.map(lambda leaf: share.astype(leaf.dtype) * leaf, delta)
