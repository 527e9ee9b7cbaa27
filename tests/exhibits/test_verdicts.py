"""Verdicts, against SciPy's own paired test, a closed form of the F test, and cases that can be read off."""

import numpy as np
import pytest
from scipy import stats

from idiolect.papers.verdicts import above, above_all, everywhere, spread

SEEDS = [0, 1, 2, 3]
LOW = [0.50, 0.60, 0.55, 0.52]


def shifted(by):
    return [value + difference for value, difference in zip(LOW, by, strict=True)]


@pytest.mark.parametrize(
    ("by", "verdict"),
    [
        ([0.02, 0.03, 0.02, 0.03], "holds"),
        ([0.10, -0.05, 0.02, -0.03], "not shown"),
        ([-0.02, -0.03, 0.01, -0.03], "fails"),
        ([0.0, 0.0, 0.0, 0.0], "fails"),
        ([float("nan"), 0.1, 0.1, 0.1], "fails"),
    ],
)
def test_above_is_the_paired_test_over_seeds(by, verdict):
    claim = above("A is above B", shifted(by), LOW, SEEDS, finding="why not")
    assert claim.verdict == verdict
    assert claim.finding == ("" if verdict == "holds" else "why not")
    assert claim.seeds == SEEDS
    if np.any(by) and np.all(np.isfinite(by)):
        p = stats.ttest_rel(shifted(by), LOW, alternative="greater").pvalue
        assert claim.values["differences"]["other"]["p"] == pytest.approx(p)


def test_one_seed_shows_nothing_but_may_fail():
    assert above("", [0.6], [0.5], [0]).verdict == "not shown"
    assert above("", [0.4], [0.5], [0]).verdict == "fails"


def test_where_lower_is_better_the_verdict_turns_round():
    better = shifted([0.02, 0.03, 0.02, 0.03])
    assert above("", LOW, better, SEEDS, lower=True).verdict == "holds"
    assert above("", better, LOW, SEEDS, lower=True).verdict == "fails"


def test_a_margin_lets_the_first_be_a_little_behind():
    behind = shifted([-0.004, -0.006, -0.005, -0.003])
    assert above("", behind, LOW, SEEDS).verdict == "fails"
    claim = above("", behind, LOW, SEEDS, margin=0.01)
    assert claim.verdict == "holds"
    assert "by -0.0045 ±" in claim.ours, "what is told is the difference itself"
    assert above("", behind, LOW, SEEDS, margin=0.004).verdict == "fails"


def test_above_all_is_as_weak_as_the_weakest_and_tells_of_the_nearest():
    mine, far = shifted([0.02, 0.03, 0.02, 0.03]), [0.1, 0.1, 0.1, 0.1]
    near = shifted([0.025, 0.02, 0.02, 0.02])
    assert above_all("", mine, {"far": far, "low": LOW}, SEEDS).verdict == "holds"
    claim = above_all("", mine, {"far": far, "near": near, "low": LOW}, SEEDS)
    assert claim.verdict == "not shown"
    assert "near, the nearest" in claim.ours
    assert above_all("", LOW, {"far": far, "mine": mine}, SEEDS).verdict == "fails"


def test_everywhere_asks_for_every_case_and_every_seed():
    def verdict(values, **bounds):
        return everywhere("", values, [0, 1], what="it", **bounds).verdict

    assert verdict({"a": [0.96, 0.97], "b": [0.95, 1.0]}, least=0.95) == "holds"
    assert verdict({"a": [0.96, 0.97], "b": [0.94, 1.0]}, least=0.95) == "fails", "one counterexample is enough"
    assert verdict({"a": [0.5, 0.97], "b": [0.94, 1.0]}, least=0.95) == "fails"
    assert verdict({"a": [0.5, 0.6]}, most=0.6) == "holds"
    assert verdict({"a": [0.5, 0.6]}, most=0.4) == "fails"
    assert verdict({"a": [float("nan"), 0.97]}, least=0.95) == "fails"


def test_a_spread_is_told_with_the_sample_standard_deviation():
    assert spread([0.5, 0.7]) == "0.600 ± 0.141"
    assert spread([0.5]) == "0.500"
    assert spread([2e-5, 4e-5]) == "3.00e-05 ± 1.41e-05"
