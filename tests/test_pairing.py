import math

import numpy as np
import pytest
from scipy import stats

from idiolect.comparison.pairing import paired


def test_it_is_the_paired_test_of_the_textbook():
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.3, 1, 8), rng.normal(0, 1, 8)
    found = paired(first, second)
    theirs = stats.ttest_rel(first, second, alternative="greater")
    assert found.p == pytest.approx(theirs.pvalue)
    both = stats.ttest_rel(first, second).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((both.low, both.high))
    assert found.std == pytest.approx(np.std(first - second, ddof=1))
    assert found.pairs == 8


def test_one_pair_says_nothing():
    found = paired([0.9], [0.5])
    assert found.mean == pytest.approx(0.4)
    assert math.isnan(found.p)
    assert (found.low, found.high) == (-math.inf, math.inf)


@pytest.mark.parametrize(("shift", "p"), [(1.0, 0.0), (-1.0, 1.0), (0.0, 1.0)])
def test_differences_without_spread_speak_for_themselves(shift, p):
    assert paired([1 + shift, 2 + shift], [1, 2]).p == p
