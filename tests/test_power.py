"""How many pairs a decision takes, against published tables, a simulation, and the limit of many pairs."""

import math

import numpy as np
import pytest
from scipy import stats

from idiolect.comparison.power import pairs_for, power_of


@pytest.mark.parametrize(
    ("effect", "level", "pairs"),
    [(0.5, 0.05, 27), (0.8, 0.05, 12), (1.0, 0.05, 8), (0.5, 0.025, 34), (0.2, 0.025, 199)],  # as G*Power prints them
)
def test_the_fewest_pairs_are_those_of_the_tables(effect, level, pairs):
    assert pairs_for(effect, 1.0, level) == pairs
    assert pairs_for(3 * effect, 3.0, level) == pairs, "only the ratio counts"
    assert power_of(effect, pairs, level) >= 0.8 > power_of(effect, pairs - 1, level)


def test_the_power_is_how_often_the_test_passes():
    draws = np.random.default_rng(0).normal(0.7, 1.0, (20_000, 9))
    passed = stats.ttest_1samp(draws, 0.0, axis=1, alternative="greater").pvalue < 0.05
    assert power_of(0.7, 9) == pytest.approx(passed.mean(), abs=0.01)
    assert power_of(0.0, 9) == pytest.approx(0.05)


def test_many_pairs_follow_the_normal_law():
    assert power_of(0.1, 500) == pytest.approx(power_of(0.1, 501), abs=0.005)
    quantiles = stats.norm.ppf(0.95) + stats.norm.ppf(0.8)
    assert pairs_for(0.02, 1.0) == math.ceil((quantiles / 0.02) ** 2)


def test_what_cannot_be_shown_takes_infinitely_many():
    assert pairs_for(0.0, 1.0) == pairs_for(-1.0, 1.0) == math.inf
    assert pairs_for(1.0, 0.0) == 2
    assert power_of(1.0, 1) == 0.0
