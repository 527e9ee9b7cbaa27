"""How a ranking is judged by where it puts the one candidate that was clicked.

Metrics take `scores` (..., place), a `mask` of the places that hold a candidate, and `clicked` (...), the
place of the click; they give one number per list.

Metrics, on a list of k candidates of which g score above the clicked one and m score the same as it, itself included:

- Ties are broken at random, and a metric is its expected value: no order of the candidates can help or harm, and a
  model that scores all alike gets what chance gets.
- `top(k)` is the chance that the click comes among the first k: of its m places, how many are; `top(1)` is 1/m if
  g = 0, else 0. A list of at most k candidates cannot miss.
- `normalized_mrr` takes the reciprocal rank of the click, 1, 1/2, ..., 1/k (the seminar's "weighted accuracy based on
  the location"), and maps it to [0, 1] for every k: (1/rank - 1/k) / (1 - 1/k). Its mean over queries is the
  normalized mean reciprocal rank.
- A list of one candidate scores 1: it cannot be ranked wrong. A list that does not hold the click, such as an empty
  one, scores 0, and its loss is 0.
- A score that is not a number ranks below all numbers, so that a model that diverged gains nothing by it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

Judge = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]  # (scores, mask, clicked) -> one number per list


class RankMetric(NamedTuple):
    """A metric of lists, and what people call it."""

    name: str
    judge: Judge


def top(k: int) -> Judge:
    """The metric that is the chance that the clicked candidate comes among the first k."""

    def judge(scores: jax.Array, mask: jax.Array, clicked: jax.Array) -> jax.Array:
        above, level, found = _around(scores, mask, clicked)
        return jnp.where(found, jnp.clip(k - above, 0, level) / level, 0)

    return judge


def normalized_mrr(scores: jax.Array, mask: jax.Array, clicked: jax.Array) -> jax.Array:
    """The clicked candidate's expected reciprocal rank, on a scale from 0 (it comes last) to 1 (it comes first)."""
    above, level, found = _around(scores, mask, clicked)
    length = jnp.maximum(mask.sum(-1), 2)[..., None]  # a list of one then scores as the first of two, which is 1
    rank = jnp.arange(1, mask.shape[-1] + 1)
    possible = (rank > above[..., None]) & (rank <= (above + level)[..., None])
    values = (length - rank) / (rank * (length - 1))  # (1/rank - 1/k) / (1 - 1/k), exact at both ends
    return jnp.where(found, jnp.where(possible, values, 0).sum(-1) / level, 0)


def _around(scores: jax.Array, mask: jax.Array, clicked: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """How many candidates score above the click, how many as it does, itself included, and whether it is there."""
    at = clicked[..., None]
    scores = jnp.where(jnp.isnan(scores), -jnp.inf, scores)
    own = jnp.take_along_axis(scores, at, axis=-1)
    found = jnp.take_along_axis(mask, at, axis=-1)[..., 0]
    above = ((scores > own) & mask).sum(-1)
    level = ((scores == own) & mask).sum(-1)
    return above, jnp.maximum(level, 1), found


def rank_metrics(first_places: Sequence[int]) -> dict[str, RankMetric]:
    """The normalized mean reciprocal rank, `mrr`, and top-k accuracy, `top1`, `top3`, …, for each of these k."""
    found = {"mrr": RankMetric("normalized reciprocal rank", normalized_mrr)}
    return found | {f"top{k}": RankMetric(f"top-{k} accuracy", top(k)) for k in first_places}
