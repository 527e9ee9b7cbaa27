"""Search ranking: clients are users, a sample is a query with its list of candidates, one of which was clicked.

Losses take what metrics take (`rank_metrics`): `scores` (..., place), a `mask` of the places that
hold a candidate, and `clicked` (...), the place of the click; they give one number per list.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from annotated_types import Ge, Gt, Le, Lt

from idiolect.contracts import Batch, Metric, Params, Problem, Scalar, Split
from idiolect.errors import UserMistake
from idiolect.options import known
from idiolect.problems.data.client_splits import Shares, split_clients
from idiolect.problems.ranking.click_tables import read_clicks
from idiolect.problems.ranking.forest import Forest, forest_scores
from idiolect.problems.ranking.rank_metrics import Judge, rank_metrics
from idiolect.problems.ranking.scorers import Scorer, mlp_cnn_scorer, mlp_scorer
from idiolect.problems.ranking.search_data import Crowd, Searches, draw_searches
from idiolect.problems.supervised import supervised_problem, with_key

SEMINAR = Crowd()


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
    metric: str = "mrr",
    top: tuple[Annotated[int, Ge(1)], ...] = (1, 3, 5),
    unseen: Annotated[float, Ge(0), Lt(1)] = 0.0,
    shares: Shares = Shares(),
    forest: Forest = Forest(),
    own_forest: Forest = Forest(),
    seed: int = 0,
) -> Problem:
    """Users who click one candidate of a list: a crowd drawn at random, or those in the file `table`.

    The options up to `noise` are the crowd's (`search_data`); a table takes its place (`click_tables`). The other
    metrics are told as well; a random forest on everyone's rows (`forest`), and one for each user (`own_forest`), are
    references.

    Args:
        clients: The number of users.
        queries: How many a user has, at least and at most.
        suggestions: How many a list shows, at least and at most.
        candidates: For every suggestion that is shown.
        dimension: Features of a candidate.
        extremes: The share of |x| in the variance of utilities.
        personal: The size of a user's own part of the preferences; the common part has size 1.
        noise: Of clicks, and of the engine.
        table: A file of users with their searches, as CSV or Parquet.
        model: Scores each candidate by itself, or with a look at its list.
        hidden: Widths of the model's layers.
        loss: Binary cross-entropy, or the squared error.
        balance: Lets a click count as much in the loss as all others of its list.
        scale: The loss is a mean over candidates, times this: step sizes and lambda, as papers give them, belong to a
            scale.
        metric: The headline metric: mrr, or one of the top-k accuracies, such as top1.
        top: The k of the top-k accuracies: how often the click is among the first k of the ranking.
        unseen: The share of users that take no part in training.
        shares: How much of a user's data goes to training, adaptation and validation; the rest is for tests.
        forest: How the reference `forest` is grown.
        own_forest: How the reference `own_forest` is grown.
        seed: Of the crowd, and of who is unseen.

    Returns:
        The problem.

    Example:
        >>> from idiolect.problems.ranking import ranking
        >>> made = ranking(clients=3, queries=(5, 6), suggestions=(2, 3))
        >>> [metric.name for metric in made.metrics]
        ['normalized reciprocal rank', 'top-1 accuracy', 'top-3 accuracy', 'top-5 accuracy']
    """
    crowd = Crowd(clients, queries, suggestions, candidates, dimension, extremes, personal, noise)
    data = draw_searches(crowd, seed=seed) if table is None else _from_table(table, crowd)
    scorer = MODELS[model](data[0]["features"].shape[-1], hidden)
    mean_loss = over_queries(scorer, partial(LOSSES[loss], balance=balance))
    descended = with_key(lambda params, batch: scale * mean_loss(params, batch))
    split = split_clients(data, shares=shares, unseen=unseen, rng=np.random.default_rng([seed, 1]))
    metrics = rank_metrics(top)
    known(metrics, "problem.metric", metric)
    first, *others = sorted(metrics, key=lambda name: name != metric)
    judged = {name: Metric(each.name, over_queries(scorer, each.judge), True) for name, each in metrics.items()}
    problem = supervised_problem("ranking", scorer.init, descended, judged[first], split)

    def grow(split: Split, pooled: bool) -> np.ndarray:
        grown = forest if pooled else own_forest
        scores = forest_scores(problem.clients, split, metrics, pooled=pooled, forest=grown, seed=seed)
        return np.stack([scores[name] for name in (first, *others)])

    references = {"forest": partial(grow, pooled=True), "own_forest": partial(grow, pooled=False)}
    return problem._replace(also=tuple(judged[name] for name in others), references=references)


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
