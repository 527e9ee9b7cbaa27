"""How claims are decided: by the numbers, seed by seed, with a test that is named beside the verdict.

*A is above B* is Student's paired one-sided test over seeds, or the mixed model of clients nested in seeds where seeds
are few and the claim says so; `idiolect.papers.decisions` has what holds, fails, is excluded or not shown. *A is above
each of several* holds if every one of these tests does, and is as weak as the weakest of them: asking for all of them
needs no correction for asking often. *A is as good as B* is two one-sided tests against a margin. *In every case* holds
if it is so in every case, and one counterexample decides that it fails. Every claim states a 95 % interval, and what is
not decided says how many seeds a decision would take.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from idiolect.comparison.nesting import nested
from idiolect.comparison.pairing import LEVEL, paired
from idiolect.papers.decisions import Difference, decide, equivalence, weakest
from idiolect.papers.exhibit import Claim, Verdict
from idiolect.papers.wording import interval, number, spread

__all__ = ["above", "above_all", "as_good", "everywhere", "spread"]

OfClients: TypeAlias = Sequence[Mapping[int, float]]
Scores: TypeAlias = Sequence[float] | OfClients
"""One number for each seed; or for each seed one for each client, and then clients are nested in seeds."""

PAIRED = "paired one-sided Student test over seeds, 5 %"
NESTED = "one-sided test of the mixed model of clients nested in seeds, 5 %"


def judged(passed: bool, points_that_way: bool) -> Verdict:
    """The verdict of a test of one's own: passed; not passed, though the numbers point that way; or neither."""
    return "holds" if passed else "not shown" if points_that_way else "fails"


def surely_above(first: np.ndarray, second: np.ndarray | None = None) -> bool:
    """Whether the first (a number for each seed) is above the second, or above zero, with p < 0.05."""
    other = np.zeros_like(first) if second is None else second
    return paired(first.tolist(), other.tolist()).p < LEVEL


def above(
    statement: str,
    first: Scores,
    second: Scores,
    seeds: Sequence[int],
    *,
    paper: str = "",
    finding: str = "",
    margin: float = 0.0,
    size: float | None = None,
    lower: bool = False,
) -> Claim:
    """The claim that the first is above the second (below it, if `lower` is better) or less than `margin` behind.

    `size` is how far: the paper's number, or the smallest advantage that would matter, fixed before the numbers are
    seen. With it a claim can be excluded.
    """
    return above_all(
        statement, first, {"": second}, seeds, paper=paper, finding=finding, margin=margin, size=size, lower=lower
    )


def above_all(
    statement: str,
    first: Scores,
    rivals: Mapping[str, Scores],
    seeds: Sequence[int],
    *,
    paper: str = "",
    finding: str = "",
    margin: float = 0.0,
    size: float | None = None,
    lower: bool = False,
) -> Claim:
    """The claim that the first is above each of its rivals."""
    differences = {name: _difference(first, them, margin, lower) for name, them in rivals.items()}
    least = None if size is None else size + margin
    decisions = {name: decide(difference, least) for name, difference in differences.items()}
    verdict, needs = decisions[weakest(decisions)]
    nearest = min(differences, key=lambda name: differences[name].mean)
    ours = f"{_told(first)} against {_told(rivals[nearest])}{_called(nearest, rivals)}; "
    return Claim(
        statement,
        paper,
        ours + _gap(differences[nearest], margin) + _outside(differences[nearest], least, margin),
        (NESTED if isinstance(first[0], Mapping) else PAIRED)
        + (", each of the others; the weakest counts" if len(rivals) > 1 else "")
        + _margin(margin)
        + ("" if size is None else f"; excluded if the interval ends below {number(size)}"),
        verdict,
        list(seeds),
        finding if verdict != "holds" else "",
        _values(first, rivals, differences),
        needs,
    )


def as_good(
    statement: str,
    first: Scores,
    second: Scores,
    seeds: Sequence[int],
    *,
    margin: float,
    paper: str = "",
    finding: str = "",
) -> Claim:
    """The claim that two are equivalent: less than `margin` apart, whichever is ahead."""
    difference = _difference(first, second, 0.0, False)
    verdict, needs = equivalence(difference, margin)
    return Claim(
        statement,
        paper,
        f"{_told(first)} against {_told(second)}; {_gap(difference, 0.0)}",
        f"two one-sided tests, 5 % each, of a difference within {number(margin)} on both sides",
        verdict,
        list(seeds),
        finding if verdict != "holds" else "",
        _values(first, {"": second}, {"": difference}),
        needs,
    )


def everywhere(
    statement: str,
    values: Mapping[str, Sequence[float]],
    seeds: Sequence[int],
    *,
    what: str,
    least: float = -math.inf,
    most: float = math.inf,
    paper: str = "",
    finding: str = "",
) -> Claim:
    """The claim that in each of some cases, and on every seed, `what` lies within these bounds.

    One case where it does not is a counterexample, so this is always decided.
    """
    flat = np.concatenate([np.asarray(case, float) for case in values.values()])
    so, mean = (flat >= least) & (flat <= most), float(flat.mean())
    paired_up = all(len(case) == len(seeds) for case in values.values())
    by_seed = list(map(float, np.mean(list(values.values()), axis=0) if paired_up else flat))
    over_seeds = paired(by_seed, [0.0] * len(by_seed))
    verdict: Verdict = "holds" if so.all() else "fails"
    bounds = [f"at least {least:g}"] if math.isfinite(least) else []
    bounds += [f"at most {most:g}"] if math.isfinite(most) else []
    return Claim(
        statement,
        paper,
        f"{number(flat.min())} to {number(flat.max())}, mean {number(mean)}"
        f"{interval(over_seeds.low, over_seeds.high)}; so in {int(so.sum())} of {len(flat)}",
        f"{what}: {' and '.join(bounds)} in every case and seed",
        verdict,
        list(seeds),
        finding if verdict != "holds" else "",
        {"cases": {name: list(map(float, case)) for name, case in values.items()}},
    )


def _difference(first: Scores, second: Scores, margin: float, lower: bool) -> Difference:
    sign = -1.0 if lower else 1.0
    ours, others = ([_array(score) for score in side] for side in (first, second))
    gaps = [sign * (mine - theirs) + margin for mine, theirs in zip(ours, others, strict=True)]
    if isinstance(first[0], Mapping):
        return nested(gaps)
    return paired(list(map(float, gaps)), [0.0] * len(gaps))


def _array(score: float | Mapping[int, float]) -> np.ndarray:
    """A seed's number, or those of its clients in the order of the clients."""
    return np.array([score[client] for client in sorted(score)] if isinstance(score, Mapping) else score, float)


def _by_seed(scores: Scores) -> list[float]:
    return [float(np.mean(list(each.values()))) if isinstance(each, Mapping) else float(each) for each in scores]


def _told(scores: Scores) -> str:
    return spread(_by_seed(scores))


def _values(first: Scores, rivals: Mapping[str, Scores], differences: Mapping[str, Difference]) -> dict[str, Any]:
    return {
        "ours": _by_seed(first),
        "others": {name or "other": _by_seed(them) for name, them in rivals.items()},
        "differences": {name or "other": difference._asdict() for name, difference in differences.items()},
    }


def _gap(difference: Difference, margin: float) -> str:
    ahead = number(difference.mean - margin)
    if difference.pairs < 2:
        return f"ahead by {ahead} on one seed"
    ends = interval(difference.low - margin, difference.high - margin)
    return f"ahead by {ahead} ± {number(difference.std)}{ends}, p = {difference.p:.2g}"


def _outside(difference: Difference, least: float | None, margin: float) -> str:
    """A word where even a difference that is there has another size than is claimed."""
    if least is None or difference.pairs < 2 or difference.low <= least <= difference.high:
        return ""
    return f"; {number(least - margin)} lies outside"


def _called(name: str, rivals: Mapping[str, Scores]) -> str:
    return f" ({name}, the nearest)" if len(rivals) > 1 else f" ({name})" if name else ""


def _margin(margin: float) -> str:
    return f", with {margin:g} to spare for the second" if margin else ""
