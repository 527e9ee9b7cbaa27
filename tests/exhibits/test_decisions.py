"""When a claim is decided: by its interval, and otherwise by how many seeds that would take."""

import numpy as np
import pytest
from scipy import stats

from idiolect.comparison.power import pairs_for
from idiolect.papers.claims_page import is_decided
from idiolect.papers.verdicts import above, above_all, as_good, everywhere

BASE = np.array([0.50, 0.60, 0.55, 0.52, 0.58, 0.54, 0.57, 0.53])
SEEDS = list(range(8))
# Table 3's control clients: -0.05 points with a 95 % interval of -0.46 to +0.36, where the paper has +0.62.
NOISE = np.array([0.9, -1.1, 0.4, -0.6, 1.3, -0.9, 0.2, -0.2])
TABLE_3 = -0.0005 + NOISE / np.std(NOISE, ddof=1) * 0.0049


def claim(by, **options):
    return above("A is above B", (BASE + by).tolist(), BASE.tolist(), SEEDS, **options)


def test_the_papers_number_is_excluded_by_the_interval():
    half = stats.t.ppf(0.975, 7) * 0.0049 / np.sqrt(8)
    assert half == pytest.approx(0.0041, abs=1e-4)
    found = claim(TABLE_3, size=0.0062)
    assert found.verdict == "excluded"
    assert found.needs == ""
    assert "ahead by -0.0005 ± 0.0049 [-0.0046, 0.0036]" in found.ours
    assert "0.0062 lies outside" in found.ours
    assert "excluded if the interval ends below 0.0062" in found.test
    assert is_decided(found)


def test_without_a_size_or_with_a_small_one_it_is_open():
    for size in (None, 0.002):
        found = claim(TABLE_3, size=size)
        assert found.verdict == "fails"
        assert not is_decided(found)
    assert "to exclude 0.0020" in claim(TABLE_3, size=0.002).needs
    assert claim(-TABLE_3).verdict == "not shown"
    assert claim(-TABLE_3, size=0.0062).verdict == "excluded"


def test_the_opposite_can_be_shown_and_is_a_decision():
    found = claim(-0.01 + TABLE_3, size=0.0062)
    assert found.verdict == "fails"
    assert is_decided(found)


def test_what_holds_may_have_another_size_than_the_papers():
    found = claim(0.02 + TABLE_3, size=0.1)
    assert found.verdict == "holds"
    assert "0.100 lies outside" in found.ours
    assert "outside" not in claim(0.02 + TABLE_3, size=0.02).ours


def test_where_lower_is_better_the_size_turns_round():
    found = above("", BASE.tolist(), (BASE + TABLE_3).tolist(), SEEDS, size=0.0062, lower=True)
    assert found.verdict == "excluded"


def test_a_margin_and_a_size_are_in_the_same_units():
    assert claim(-0.02 + TABLE_3, margin=0.01, size=-0.005).verdict == "fails"
    assert claim(-0.012 + TABLE_3, margin=0.01, size=-0.005).verdict == "excluded"
    assert claim(-0.012 + TABLE_3, margin=0.01, size=-0.011).verdict == "fails", "the interval reaches that far"


def test_an_open_claim_says_how_many_seeds_a_decision_takes():
    by = -TABLE_3
    found = claim(by)
    seeds = pairs_for(float(by.mean()), float(by.std(ddof=1)))
    assert found.needs == f"about {seeds:,.0f} seeds to show it (power 0.8 at this spread)"
    against = claim(TABLE_3)
    seeds = pairs_for(float(-TABLE_3.mean()), float(TABLE_3.std(ddof=1)), 0.025)
    assert against.needs == f"about {seeds:,.0f} seeds to show the opposite (power 0.8 at this spread)"
    assert "one seed has no spread" in above("", [0.6], [0.5], [0]).needs
    assert "the mean difference is zero" in claim(NOISE * 0).needs


def test_of_several_rivals_a_decision_against_one_decides_all():
    near = (BASE - TABLE_3).tolist()  # open
    far = (BASE - 0.1 + TABLE_3).tolist()  # beaten
    better = (BASE + 0.1 + TABLE_3).tolist()  # shown to be above
    mine = BASE.tolist()
    assert above_all("", mine, {"far": far}, SEEDS).verdict == "holds"
    assert not is_decided(above_all("", mine, {"far": far, "near": near}, SEEDS))
    assert is_decided(above_all("", mine, {"far": far, "near": near, "better": better}, SEEDS))


def test_equivalence_is_two_one_sided_tests():
    mine, theirs = (BASE + TABLE_3).tolist(), BASE.tolist()
    p = max(
        stats.ttest_1samp(TABLE_3, -0.005, alternative="greater").pvalue,
        stats.ttest_1samp(TABLE_3, 0.005, alternative="less").pvalue,
    )
    assert p < 0.05
    assert as_good("", mine, theirs, SEEDS, margin=0.005).verdict == "holds"
    open_one = as_good("", mine, theirs, SEEDS, margin=0.002)
    assert open_one.verdict == "not shown"
    assert "to show that it is within 0.0020" in open_one.needs
    assert as_good("", (BASE + 0.1 + TABLE_3).tolist(), theirs, SEEDS, margin=0.005).verdict == "fails"
    assert "one seed" in as_good("", [0.5], [0.5], [0], margin=0.1).needs


def test_clients_nested_in_seeds_are_named_and_used():
    rng = np.random.default_rng(0)
    first = [{k: 0.5 + 0.02 + 0.05 * rng.normal() for k in range(30)} for _ in SEEDS]
    second = [dict.fromkeys(range(30), 0.5) for _ in SEEDS]
    found = above("", first, second, SEEDS, size=0.01)
    assert "mixed model" in found.test
    assert found.verdict == "holds"
    assert found.values["differences"]["other"]["clients"] == 240
    assert found.values["ours"] == pytest.approx([np.mean(list(mine.values())) for mine in first])


@pytest.mark.parametrize("least", [0.5, 0.92, 2.0])
def test_a_claim_on_every_case_is_decided_whatever_the_mean_is(least):
    cases = {"a": [0.9, 0.92, 0.94], "b": [0.96, 0.98, 1.0]}  # means by seed 0.93, 0.95, 0.97
    found = everywhere("", cases, [0, 1, 2], what="it", least=least)
    assert "mean 0.950 [0.900, 1.000]" in found.ours
    assert is_decided(found)
