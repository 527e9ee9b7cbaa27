"""Differences between two sides, on numbers made by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from idiolect.comparison.contrasts import contrast, holm, over_clients

FIRST = {0: {0: 0.5, 1: 0.6, 2: 0.1}, 1: {0: 0.4, 1: 0.8, 2: 0.3}, 2: {0: 0.2, 1: 0.9, 2: 0.4}}
GAINS = {0: [0.1, 0.0, 0.2], 1: [0.2, -0.1, 0.3], 2: [0.3, 0.1, 0.1]}
SECOND = {seed: {c: FIRST[seed][c] + gain for c, gain in enumerate(GAINS[seed])} for seed in FIRST}


def test_over_seeds_it_is_the_paired_test_of_means_over_clients():
    found = contrast(FIRST, SECOND, higher_is_better=True)
    means = [np.mean(list(side[seed].values())) for side in (FIRST, SECOND) for seed in FIRST]
    expected = stats.ttest_rel(means[3:], means[:3])
    assert found.seeds == [0, 1, 2]
    assert found.over_seeds.mean == pytest.approx((0.1 + 0.4 / 3 + 0.5 / 3) / 3)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.over_seeds.low, found.over_seeds.high) == pytest.approx(expected.confidence_interval(0.95))
    # worst decile of three clients is the worst: 0.1, 0.3, 0.2 against 0.3, 0.6, 0.5
    assert found.worst_decile.mean == pytest.approx((0.2 + 0.3 + 0.3) / 3)


def test_turned_round_everything_changes_its_sign_and_p_stays():
    forth, back = (contrast(*sides, higher_is_better=True) for sides in ((FIRST, SECOND), (SECOND, FIRST)))
    assert back.over_seeds.mean == pytest.approx(-forth.over_seeds.mean)
    assert (back.over_seeds.low, back.over_seeds.high) == pytest.approx((-forth.over_seeds.high, -forth.over_seeds.low))
    assert back.p == pytest.approx(forth.p)
    assert back.over_clients.better == forth.over_clients.worse == pytest.approx(1 / 9)
    assert back.over_clients.worse == forth.over_clients.better == pytest.approx(7 / 9)
    assert back.over_clients.p == pytest.approx(forth.over_clients.p)


def test_where_lower_is_better_fewer_is_better_and_the_worst_are_the_highest():
    found = contrast(FIRST, SECOND, higher_is_better=False)
    assert found.over_clients.better == pytest.approx(1 / 9)
    # the highest: 0.6, 0.8, 0.9 against 0.6, 0.7, 1.0
    assert found.worst_decile.mean == pytest.approx((0.0 - 0.1 + 0.1) / 3)


def test_wilcoxon_counts_ranks():
    # no ties and nothing negative: all 2^5 signs are equally likely, two of them as extreme
    found = over_clients([np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0])], higher_is_better=True)
    assert found.p == pytest.approx(2 / 2**5)
    assert found.pairs == 5
    assert found.mean == pytest.approx((2 + 4.5) / 2)


def test_what_clients_of_a_seed_have_in_common_is_no_evidence():
    seeds = [np.full(1000, value) for value in (-1.0, 1.0, -1.0, 1.0)]
    found = over_clients(seeds, higher_is_better=True)
    assert found.low <= -0.5
    assert found.high >= 0.5
    same = over_clients([np.full(10, 0.25)] * 3, higher_is_better=True)
    assert (same.low, same.high) == (0.25, 0.25)


def test_nothing_differs():
    found = contrast(FIRST, FIRST, higher_is_better=True)
    assert (found.p, found.over_clients.p, found.over_seeds.mean) == (1, 1, 0)
    assert (found.over_clients.better, found.over_clients.worse) == (0, 0)


def test_only_what_both_have_counts():
    second = {1: {0: 0.5, 7: 9.0}, 5: {0: 1.0}}
    found = contrast(FIRST, second, higher_is_better=True)
    assert found.seeds == [1]
    assert found.over_clients.pairs == 1
    assert found.over_seeds.mean == pytest.approx(0.1)
    assert math.isnan(found.p)


def test_holm_by_hand():
    # 0.01 x 4, 0.02 x 3, 0.03 x 2 raised to 0.06, 0.04 x 1 raised to 0.06
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    found = holm([math.nan, 0.02, 0.03])
    assert math.isnan(found[0])
    assert found[1:] == pytest.approx([0.04, 0.04])
    assert holm([]) == []
