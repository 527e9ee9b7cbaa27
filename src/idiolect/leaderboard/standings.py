"""The table of a problem under one budget: scores, what they cost, and who loses against the best.

A number is a mean over clients and then over seeds; its spread is the standard deviation over seeds. The best has the
highest mean. Everyone else is compared with it on the same clients of the same seeds, by the mixed model of clients
that are nested in seeds, corrected after Holm for all comparisons of the table: who is below it with p < 5 % loses, and
the others cannot be told apart from it. The best is chosen on the same numbers.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from idiolect.comparison.contrasts import Scores, holm, two_sided
from idiolect.comparison.nesting import nested_difference
from idiolect.comparison.pairing import LEVEL
from idiolect.evaluation.scores import spread
from idiolect.leaderboard.board_cells import Outcome, not_seen, taking_part
from idiolect.leaderboard.board_tuning import Tuned
from idiolect.leaderboard.contest import Entry
from idiolect.leaderboard.duels import Duel, duels
from idiolect.results.statistics import MeanStd, mean_std


class Row(NamedTuple):
    """One algorithm in a table."""

    name: str
    source: str
    own: MeanStd  # after the adaptation that its objective prescribes
    over_clients: float  # the standard deviation over clients, averaged over seeds
    worst: MeanStd  # the mean of the worst tenth of clients
    received: float  # the model as it was received
    common: float  # after the adaptation that everyone gets alike
    unseen: MeanStd | None  # clients that took no part, after their own adaptation
    evaluations: float
    bytes: float
    steps: float
    time: float
    tuned: Tuned
    verdict: str
    p: float  # against the best, corrected; NaN for the best itself, and with one seed


class Standing(NamedTuple):
    """A table, the best first; who is not in it, with the reason; and the duels."""

    problem: str
    budget: str
    rows: list[Row]
    out: dict[str, str]
    duels: list[Duel]


def standing(problem: str, budget: str, entries: Sequence[Entry]) -> Standing:
    """Rank the entries of a problem under one budget."""
    out = {entry.name: entry.refused for entry in entries if entry.refused}
    scored: dict[str, tuple[Entry, dict[int, Outcome]]] = {}
    for entry in entries:
        if entry.refused:
            continue
        found = entry.outcomes[budget]
        lost = [str(seed) for seed, outcome in found.items() if outcome is None]
        if lost:
            out[entry.name] = f"diverged on seed {', '.join(lost)} with the settings that were best in its trials"
        else:
            scored[entry.name] = entry, {seed: outcome for seed, outcome in found.items() if outcome is not None}
    if not scored:
        return Standing(problem, budget, [], out, [])
    means = {name: _mean(outcomes) for name, (_, outcomes) in scored.items()}
    best = max(means, key=lambda name: means[name])
    sides = {name: {s: taking_part(one) for s, one in outcomes.items()} for name, (_, outcomes) in scored.items()}
    tests = _tests(best, sides)
    rows = [_row(entry, outcomes, budget, best, *tests[name]) for name, (entry, outcomes) in scored.items()]
    return Standing(problem, budget, sorted(rows, key=lambda row: -row.own.mean), out, duels(sides))


def _tests(best: str, sides: Mapping[str, Scores]) -> dict[str, tuple[float, float]]:
    """For everyone, how far behind the best, and the corrected p of that."""
    others = [name for name in sides if name != best]
    found = [nested_difference(sides[best], sides[name]) for name in others]
    ps = holm([two_sided(one.mean, one.p) for one in found])
    behind = {name: (one.mean, p) for name, one, p in zip(others, found, ps, strict=True)}
    return {best: (0.0, math.nan), **behind}


def _row(entry: Entry, outcomes: Mapping[int, Outcome], budget: str, best: str, behind: float, p: float) -> Row:
    ends = list(outcomes.values())
    each = [spread(list(taking_part(outcome).values()), True) for outcome in ends]
    unseen = [list(not_seen(outcome).values()) for outcome in ends]
    spent = [outcome.spent for outcome in ends]
    return Row(
        entry.name,
        entry.source,
        mean_std([one.mean for one in each]),
        float(np.mean([one.std for one in each])),
        mean_std([one.worst_decile for one in each]),
        float(np.mean([_over(outcome, "received") for outcome in ends])),
        float(np.mean([_over(outcome, "common") for outcome in ends])),
        mean_std([float(np.mean(scores)) for scores in unseen]) if all(unseen) else None,
        float(np.mean([one.evaluations for one in spent])),
        float(np.mean([one.bytes for one in spent])),
        float(np.mean([one.steps for one in spent])),
        float(np.mean([one.time for one in spent])),
        entry.tuned[budget],
        _verdict(entry.name == best, behind, p),
        p,
    )


def _verdict(best: bool, behind: float, p: float) -> str:
    if best:
        return "best"
    if math.isnan(p):
        return f"{100 * behind:.1f} behind; one seed is no test"
    return f"loses by {100 * behind:.1f}" if p < LEVEL and behind > 0 else f"{100 * behind:.1f} behind, not told apart"


def _mean(outcomes: Mapping[int, Outcome]) -> float:
    return float(np.mean([_over(outcome, "own") for outcome in outcomes.values()]))


def _over(outcome: Outcome, column: str) -> float:
    return float(np.mean(list(taking_part(outcome, column).values())))
