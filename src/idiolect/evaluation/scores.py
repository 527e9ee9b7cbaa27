"""How models are personalized before they are scored, and what scores of many clients come to."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from idiolect.evaluation.neighbours import NEIGHBOURS, Neighbours

Group = Literal["participating", "unseen"]
OWN = "own"  # the column of the model after what its objective itself prescribes


class Budget(NamedTuple):
    """How models are personalized before they are scored, and who is scored on what.

    Args:
        steps: Numbers of plain gradient steps.
        step_size: Of each.
        batch_size: Of each.
        split: The part of a client's data that is scored.
        at_most: Score a fixed random choice of this many clients of each group.
        tunes: Which layers the steps move, as `private` names them; all of them, if none is named.
        neighbours: Score the model mixed with its client's nearest neighbours as well, and how.

    Example:
        >>> from idiolect import Budget
        >>> Budget(steps=(0, 5)).split
        'test'
    """

    steps: Sequence[int] = (0, 1)
    step_size: float = 0.01
    batch_size: int = 32
    split: Literal["test", "validation"] = "test"
    at_most: int | None = None
    tunes: Sequence[str] = ()
    neighbours: Neighbours | None = None

    @property
    def columns(self) -> list[str]:
        """The names of the scores."""
        return [*map(str, self.steps), OWN, *([] if self.neighbours is None else [NEIGHBOURS])]


class ClientScore(NamedTuple):
    """One client's scores; `scores` maps "0", "1", … (steps) and "own" to the metric on its scored part.

    `also` has the same of the problem's further metrics, by their names.
    """

    client: int
    group: Group
    samples: int
    scores: dict[str, float]
    also: dict[str, dict[str, float]]


class Spread(NamedTuple):
    """A metric over clients: mean, standard deviation, mean of the worst tenth."""

    mean: float
    std: float
    worst_decile: float
    clients: int


def spread(values: Sequence[float], higher_is_better: bool) -> Spread:
    """Summarize one number per client; the worst tenth is the lowest or the highest, as the metric has it."""
    ordered = np.sort(np.asarray(values))[:: 1 if higher_is_better else -1]
    worst = ordered[: max(1, round(len(ordered) / 10))]
    return Spread(float(np.mean(ordered)), float(np.std(ordered)), float(np.mean(worst)), len(ordered))


def spread_over_clients(scored: Sequence[ClientScore], higher_is_better: bool) -> dict[str, dict[str, Spread]]:
    """Spreads over the clients of each group, under every budget."""
    groups: dict[str, dict[str, Spread]] = {}
    for group in ("participating", "unseen"):
        members = [client for client in scored if client.group == group]
        if members:
            budgets = members[0].scores
            groups[group] = {k: spread([m.scores[k] for m in members], higher_is_better) for k in budgets}
    return groups
