"""When a claim is decided, and how many seeds it takes where it is not.

A difference that is claimed to be above zero

- *holds* if its test passes (one-sided, 5 %);
- *fails* if its mean is not above zero; it is decided if the 95 % interval lies below zero: the opposite is shown;
- is *excluded* if the interval, which may reach beyond zero, ends below the size that is claimed: the paper's number,
  or the smallest difference of practical size, stated beforehand;
- is *not shown* otherwise: the mean is above zero, and could be by chance.

What is not decided takes more seeds: as many as tell a difference as large as the measured one from chance with a power
of 0.8 at the measured spread (`idiolect.comparison.power`), in the way that takes the fewest.
"""

import math
from typing import NamedTuple, TypeAlias

from idiolect.comparison.nesting import Nested
from idiolect.comparison.pairing import LEVEL, Paired
from idiolect.comparison.power import POWER, pairs_for
from idiolect.papers.exhibit import Verdict
from idiolect.papers.wording import number

Difference: TypeAlias = Paired | Nested
DECIDED = ""  # what a claim needs that is decided


class Decision(NamedTuple):
    """A verdict, and what a decision takes if this is none."""

    verdict: Verdict
    needs: str = DECIDED


def decide(difference: Difference, size: float | None = None) -> Decision:
    """The verdict on a difference that is claimed to be above zero, and `size` large if that is said."""
    if difference.pairs > 1 and difference.mean > 0 and difference.p < LEVEL:
        return Decision("holds")
    if difference.high < 0:
        return Decision("fails")
    if size is not None and difference.high < size:
        return Decision("excluded")
    verdict: Verdict = "not shown" if difference.mean > 0 else "fails"
    return Decision(verdict, _seeds_to_decide(difference, size))


def weakest(decisions: dict[str, Decision]) -> str:
    """The name of the decision that counts where all must hold: a decision against it before one that is open."""
    open_or_not = [("holds", True), ("not shown", False), ("fails", False), ("excluded", True), ("fails", True)]

    def place(name: str) -> int:
        verdict, needs = decisions[name]
        return open_or_not.index((verdict, needs == DECIDED))

    return max(decisions, key=place)


def equivalence(difference: Difference, margin: float) -> Decision:
    """Two one-sided tests at 5 %: is the difference within the margin on both sides?

    D. J. Schuirmann. A comparison of the two one-sided tests procedure and the power approach for assessing the
    equivalence of average bioavailability. 1987. It fails if the 95 % interval lies beyond the margin.
    """
    from scipy import stats

    if difference.pairs < 2:
        return Decision("not shown" if abs(difference.mean) < margin else "fails", _ONE_SEED)
    freedom = difference.freedom if isinstance(difference, Nested) else difference.pairs - 1
    error = difference.std / math.sqrt(difference.pairs)
    half = float(stats.t.ppf(1 - LEVEL, freedom)) * error
    if difference.mean - half > -margin and difference.mean + half < margin:
        return Decision("holds")
    if difference.low > margin or difference.high < -margin:
        return Decision("fails")
    inside = margin - abs(difference.mean)
    way = ("to show that it is within", LEVEL) if inside > 0 else ("to show that it is beyond", LEVEL / 2)
    needs = _so_many(pairs_for(abs(inside), difference.std, way[1]), f"{way[0]} {number(margin)}")
    return Decision("not shown" if inside > 0 else "fails", needs)


_ONE_SEED = "unknown: one seed has no spread"


def _seeds_to_decide(difference: Difference, size: float | None) -> str:
    if difference.pairs < 2 or not math.isfinite(difference.mean):
        return _ONE_SEED if difference.pairs < 2 else "unknown: the mean is not finite"
    mean, std = difference.mean, difference.std
    ways = {"to show it": pairs_for(mean, std), "to show the opposite": pairs_for(-mean, std, LEVEL / 2)}
    if size is not None:
        ways[f"to exclude {number(size)}"] = pairs_for(size - mean, std, LEVEL / 2)
    way = min(ways, key=lambda name: ways[name])
    return _so_many(ways[way], way)


def _so_many(seeds: float, what_for: str) -> str:
    if not math.isfinite(seeds):
        return "no number of seeds: the mean difference is zero"
    return f"about {seeds:,.0f} seeds {what_for} (power {POWER:g} at this spread)"
