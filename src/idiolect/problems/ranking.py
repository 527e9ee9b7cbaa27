"""Search ranking: clients are users, a sample is a query with its list of candidates, one of which was clicked.

Metrics and losses take `scores` (..., place), a `mask` of the places that hold a candidate, and `clicked` (...), the
place of the click; they give one number per list.

Metrics, on a list of k candidates of which g score above the clicked one and m score the same as it, itself included:

- Ties are broken at random, and a metric is its expected value: no order of the candidates can help or harm, and a
  model that scores all alike gets what chance gets.
- `top1` is the chance that the click comes first: 1/m if g = 0, else 0.
- `normalized_mrr` takes the reciprocal rank of the click, 1, 1/2, ..., 1/k (the seminar's "weighted accuracy based on
  the location"), and maps it to [0, 1] for every k: (1/rank - 1/k) / (1 - 1/k). Its mean over queries is the
  normalized mean reciprocal rank.
- A list of one candidate scores 1: it cannot be ranked wrong. A list that does not hold the click, such as an empty
  one, scores 0, and its loss is 0.
- A score that is not a number ranks below all numbers, so that a model that diverged gains nothing by it.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from annotated_types import Ge, Gt, Le, Lt

from idiolect.contracts import Batch, Metric, Params, Problem, Scalar
from idiolect.errors import UserMistake
from idiolect.problems.click_tables import read_clicks
from idiolect.problems.clients import Shares, split_clients
from idiolect.problems.scorers import Scorer, mlp_cnn_scorer, mlp_scorer
from idiolect.problems.search_data import Crowd, Searches, draw_searches
from idiolect.problems.supervised import supervised_problem, with_key

Judge = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]  # (scores, mask, clicked) -> one number per list
SEMINAR = Crowd()


def top1(scores: jax.Array, mask: jax.Array, clicked: jax.Array) -> jax.Array:
    """The chance that the clicked candidate comes first."""
    above, level, found = _around(scores, mask, clicked)
    return jnp.where(found & (above == 0), 1 / level, 0)


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


def click_entropy(scores: jax.Array, mask: jax.Array, clicked: jax.Array, balance: bool = True) -> jax.Array:
    """Binary cross-entropy of the candidates' chances to be clicked, whose log-odds are the scores."""
    hit, weights = _weights(mask, clicked, balance)
    losses = optax.losses.sigmoid_binary_cross_entropy(jnp.where(mask, scores, 0), hit.astype(jnp.float32))
    return (weights * losses).sum(-1)


def click_error(scores: jax.Array, mask: jax.Array, clicked: jax.Array, balance: bool = True) -> jax.Array:
    """Squared distance of the scores from 1 for the click and from 0 for the other candidates."""
    hit, weights = _weights(mask, clicked, balance)
    return (weights * (jnp.where(mask, scores, 0) - hit) ** 2).sum(-1)


def _weights(mask: jax.Array, clicked: jax.Array, balance: bool) -> tuple[jax.Array, jax.Array]:
    """Where the click is, and what each candidate counts: in all 1, or 0 for a list without its click.

    Balanced, the click counts as much as all others together; otherwise a long list hardly counts its click.
    """
    hit = (jnp.arange(mask.shape[-1]) == clicked[..., None]) & mask
    others = jnp.maximum((mask & ~hit).sum(-1, keepdims=True), 1)
    counts = jnp.where(hit, 1, 1 / others if balance else 1) * (mask & hit.any(-1, keepdims=True))
    total = counts.sum(-1, keepdims=True)
    return hit, counts / jnp.where(total > 0, total, 1)


MODELS = {"mlp": mlp_scorer, "mlp_cnn": mlp_cnn_scorer}
LOSSES = {"bce": click_entropy, "mse": click_error}
METRICS = {"mrr": ("normalized reciprocal rank", normalized_mrr), "top1": ("top-1 accuracy", top1)}


def ranking(
    *,
    clients: Annotated[int, Ge(1)] = SEMINAR.clients,
    queries: tuple[Annotated[int, Ge(3)], Annotated[int, Ge(3)]] = SEMINAR.queries,
    suggestions: tuple[Annotated[int, Ge(1)], Annotated[int, Ge(1)]] = SEMINAR.suggestions,
    candidates: Annotated[int, Ge(1)] = SEMINAR.candidates,
    dimension: Annotated[int, Ge(1)] = SEMINAR.dimension,
    extremes: Annotated[float, Ge(0), Le(1)] = SEMINAR.extremes,
    personal: Annotated[float, Ge(0)] = SEMINAR.personal,
    noise: Annotated[float, Ge(0)] = SEMINAR.noise,
    table: str | None = None,
    model: Literal["mlp", "mlp_cnn"] = "mlp",
    hidden: tuple[Annotated[int, Gt(0)], ...] = (32, 16),
    loss: Literal["bce", "mse"] = "bce",
    balance: bool = True,
    scale: Annotated[float, Gt(0)] = 1.0,
    metric: Literal["mrr", "top1"] = "mrr",
    unseen: Annotated[float, Ge(0), Lt(1)] = 0.0,
    shares: Shares = Shares(),
    seed: int = 0,
) -> Problem:
    """Users who click one candidate of a list: a crowd drawn at random, or those in the file `table`.

    The options up to `noise` are the crowd's (`idiolect.problems.search_data`); a table takes its place
    (`idiolect.problems.click_tables`). `balance` lets a click count as much in the loss as all others of its list.
    The loss is a mean over candidates, times `scale`: step sizes and lambda, as papers give them, belong to a scale.
    """
    crowd = Crowd(clients, queries, suggestions, candidates, dimension, extremes, personal, noise)
    data = draw_searches(crowd, seed=seed) if table is None else _from_table(table, crowd)
    scorer = MODELS[model](data[0]["features"].shape[-1], hidden)
    name, judge = METRICS[metric]
    mean_loss = over_queries(scorer, partial(LOSSES[loss], balance=balance))
    descended = with_key(lambda params, batch: scale * mean_loss(params, batch))
    split = split_clients(data, shares=shares, unseen=unseen, rng=np.random.default_rng([seed, 1]))
    return supervised_problem(
        "ranking", scorer.init, descended, Metric(name, over_queries(scorer, judge), higher_is_better=True), split
    )


def over_queries(scorer: Scorer, judge: Judge) -> Callable[[Params, Batch], Scalar]:
    """The mean of a metric or a loss over a batch of queries, as a function of a model's parameters."""

    def mean(params: Params, batch: Batch) -> Scalar:
        scores = scorer.apply(params, batch["features"], batch["mask"])
        return judge(scores, batch["mask"], batch["clicked"]).mean()

    return mean


def _from_table(table: str, crowd: Crowd) -> list[Searches]:
    """The searches in a file; options that only a generated crowd has are refused, rather than passed over."""
    for name, value, default in zip(Crowd._fields, crowd, SEMINAR, strict=True):
        if value != default:
            raise UserMistake(f"problem.{name} is {value}, but problem.table has users of its own; leave {name} out")
    return read_clicks(table).searches
