"""How claims are decided: by the numbers, seed by seed, with a test that is named beside the verdict.

*A is above B* is Student's paired one-sided test over seeds. It holds if the mean difference is above zero with
p < 0.05; it is not shown if the mean difference is above zero and p is not that small; otherwise it fails. *A is above
each of several* holds if every one of these tests does, and is as weak as the weakest of them: asking for all of them
needs no correction for asking often. *In every case* holds if it is so in every case, is not shown if it is so for the
mean over cases, and fails otherwise.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from idiolect.comparison.pairing import LEVEL, Paired, paired
from idiolect.papers.exhibit import Claim, Verdict

_ORDER: tuple[Verdict, ...] = ("holds", "not shown", "fails")
PAIRED = "paired one-sided Student test over seeds, 5 %"


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation over seeds."""
    mean = float(np.mean(values))
    if not math.isfinite(mean):
        return f"{mean}"
    if len(values) < 2:
        return _number(mean)
    return f"{_number(mean)} ± {_number(float(np.std(values, ddof=1)))}"


def decide(difference: Paired) -> Verdict:
    """The verdict on a paired difference that is claimed to be above zero."""
    if not difference.mean > 0:
        return "fails"
    return "holds" if difference.p < LEVEL else "not shown"


def above(
    statement: str,
    first: Sequence[float],
    second: Sequence[float],
    seeds: Sequence[int],
    *,
    paper: str = "",
    finding: str = "",
    margin: float = 0.0,
    lower: bool = False,
) -> Claim:
    """The claim that the first is above the second (below it, if `lower` is better) or less than `margin` behind."""
    return above_all(statement, first, {"": second}, seeds, paper=paper, finding=finding, margin=margin, lower=lower)


def above_all(
    statement: str,
    first: Sequence[float],
    rivals: Mapping[str, Sequence[float]],
    seeds: Sequence[int],
    *,
    paper: str = "",
    finding: str = "",
    margin: float = 0.0,
    lower: bool = False,
) -> Claim:
    """The claim that the first is above each of its rivals."""
    sign = -1.0 if lower else 1.0
    mine = sign * np.asarray(first, float)
    differences = {name: paired(list(mine + margin), list(sign * np.asarray(them))) for name, them in rivals.items()}
    verdict = _ORDER[max(_ORDER.index(decide(difference)) for difference in differences.values())]
    nearest = min(differences, key=lambda name: differences[name].mean)
    ours = f"{spread(first)} against {spread(rivals[nearest])}{_called(nearest, rivals)}; "
    return Claim(
        statement,
        paper,
        ours + _gap(differences[nearest], margin),
        PAIRED + (", each of the others; the weakest counts" if len(rivals) > 1 else "") + _margin(margin),
        verdict,
        list(seeds),
        finding if verdict != "holds" else "",
        {
            "ours": list(map(float, first)),
            "others": {name or "other": list(map(float, them)) for name, them in rivals.items()},
            "differences": {name or "other": difference._asdict() for name, difference in differences.items()},
        },
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
    """The claim that in each of some cases, and on every seed, `what` lies within these bounds."""
    flat = np.concatenate([np.asarray(case, float) for case in values.values()])
    so, mean = (flat >= least) & (flat <= most), float(flat.mean())
    verdict: Verdict = "holds" if so.all() else "not shown" if least <= mean <= most else "fails"
    bounds = [f"at least {least:g}"] if math.isfinite(least) else []
    bounds += [f"at most {most:g}"] if math.isfinite(most) else []
    return Claim(
        statement,
        paper,
        f"{_number(flat.min())} to {_number(flat.max())}, mean {_number(mean)}; so in {int(so.sum())} of {len(flat)}",
        f"{what}: {' and '.join(bounds)} in every case and seed; not shown if only in the mean",
        verdict,
        list(seeds),
        finding if verdict != "holds" else "",
        {"cases": {name: list(map(float, case)) for name, case in values.items()}},
    )


def steadier(
    statement: str, first: Sequence[float], second: Sequence[float], seeds: Sequence[int], *, finding: str = ""
) -> Claim:
    """The claim that the first spreads less over seeds than the second.

    The F test of two variances. That both ran on the same seeds makes it more careful, not less: correlation draws the
    ratio of the variances to one.
    """
    from scipy import stats

    few = len(first) < 2
    small, large = (0.0, 0.0) if few else (float(np.var(values, ddof=1)) for values in (first, second))
    p = math.nan if few else float(stats.f.sf(large / small, len(second) - 1, len(first) - 1)) if small else 0.0
    verdict: Verdict = "fails" if not large > small else "holds" if p < LEVEL else "not shown"
    ours = f"standard deviation over seeds {math.sqrt(small):.4f} against {math.sqrt(large):.4f}; p = {p:.2g}"
    return Claim(
        statement,
        "",
        ours,
        "one-sided F test of the variances over seeds, 5 %",
        verdict,
        list(seeds),
        finding if verdict != "holds" else "",
        {"ours": list(map(float, first)), "others": {"other": list(map(float, second))}, "p": p},
    )


def _gap(difference: Paired, margin: float) -> str:
    ahead = _number(difference.mean - margin)
    if difference.pairs < 2:
        return f"ahead by {ahead} on one seed"
    return f"ahead by {ahead} ± {_number(difference.std)}, p = {difference.p:.2g}"


def _called(name: str, rivals: Mapping[str, Sequence[float]]) -> str:
    return f" ({name}, the nearest)" if len(rivals) > 1 else f" ({name})" if name else ""


def _margin(margin: float) -> str:
    return f", with {margin:g} to spare for the second" if margin else ""


def _number(value: float) -> str:
    if value and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.2e}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.4f}" if 0 < abs(value) < 1e-2 else f"{value:.3f}"
