"""The classic rival of the ranking models: a random forest on candidates, from scikit-learn.

A candidate is a row of features, labelled by whether it was clicked; the forest's chance of a click is its score. It
learns from what a federated method may learn from, the training and adaptation parts, and is scored on the same queries
with the same metrics. Pooled, one forest sees the rows of all participating users, which no federated method
does; alone, every user has a forest, from its own rows only.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, NamedTuple

import jax.numpy as jnp
import numpy as np
from annotated_types import Ge

from idiolect.contracts import Clients, Split
from idiolect.problems.ranking.rank_metrics import RankMetric


class Forest(NamedTuple):
    """How a random forest is grown.

    Args:
        trees: How many.
        leaf: The least number of candidates in a leaf.
        depth: The most questions on the way to a leaf; by default as many as it takes.
        rows: How many candidates a tree sees at most, drawn at random.

    Example:
        >>> from idiolect.problems.ranking import Forest
        >>> Forest(leaf=5).trees
        50
    """

    trees: Annotated[int, Ge(1)] = 50
    leaf: Annotated[int, Ge(1)] = 20
    depth: Annotated[int, Ge(1)] | None = None
    rows: Annotated[int, Ge(1)] = 60_000


def forest_scores(
    clients: Clients,
    scored: Split,
    metrics: Mapping[str, RankMetric],
    *,
    pooled: bool = True,
    forest: Forest = Forest(),
    jobs: int | None = -1,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Every user's mean over its scored queries, for each metric: `{"mrr": (users,), "top1": (users,)}`.

    `jobs` is how many cores are used (-1: all).
    """
    store = {name: np.asarray(values) for name, values in scored.rows.items()}
    scores = np.zeros(store["mask"].shape, np.float32)
    groups = [clients.participating] if pooled else [[user] for user in range(clients.total)]
    for number, group in enumerate(groups):
        known = np.concatenate([_rows(part, user) for user in group for part in (clients.train, clients.adapt)])
        predict = _fit(store, known, forest, jobs, seed + number)
        asked = np.concatenate([_rows(scored, user) for user in (range(clients.total) if pooled else group)])
        scores[asked] = predict(asked)
    return {
        name: np.array([values[_rows(scored, user)].mean() for user in range(clients.total)])
        for name, values in _judged(scores, store, metrics).items()
    }


def _judged(
    scores: np.ndarray, store: dict[str, np.ndarray], metrics: Mapping[str, RankMetric]
) -> dict[str, np.ndarray]:
    # The whole store at once: its one shape compiles once, and rows that were not asked for cost little.
    lists = [jnp.asarray(values) for values in (scores, store["mask"], store["clicked"])]
    return {name: np.asarray(judge(*lists)) for name, (_, judge) in metrics.items()}


def _fit(
    store: dict[str, np.ndarray], rows: np.ndarray, forest: Forest, jobs: int | None, seed: int
) -> Callable[[np.ndarray], np.ndarray]:
    """Fit a forest on the candidates of these queries; it gives the scores of the candidates of others."""
    from sklearn.ensemble import RandomForestClassifier  # slow to import, and few need it

    mask = store["mask"][rows]
    clicked = np.arange(mask.shape[1]) == store["clicked"][rows][:, None]
    grown = RandomForestClassifier(
        forest.trees,
        max_depth=forest.depth,
        min_samples_leaf=forest.leaf,
        max_samples=min(1.0, forest.rows / max(int(mask.sum()), 1)),
        n_jobs=jobs,
        random_state=seed,
    )
    grown.fit(store["features"][rows][mask], clicked[mask])

    def predict(asked: np.ndarray) -> np.ndarray:
        mask = store["mask"][asked]
        scores = np.zeros(mask.shape, np.float32)
        chances = grown.predict_proba(store["features"][asked][mask])
        scores[mask] = chances[:, grown.classes_].sum(1)  # no column of clicks where nothing was clicked, or all was
        return scores

    return predict


def _rows(split: Split, user: int) -> np.ndarray:
    return split.starts[user] + np.arange(split.sizes[user])
