"""Clients nested in seeds: the analysis of variance in closed form, known variances, and how often the test errs."""

import math

import numpy as np
import pytest
from scipy import stats

from idiolect.comparison.nesting import nested
from idiolect.comparison.pairing import paired


def drawn(rng, seeds, clients, common, own, mean=0.0):
    return [rng.normal(mean + rng.normal(0, common), own, clients) for _ in range(seeds)]


def anova(differences):
    """The mean squares between and within seeds, with as many clients in each."""
    count, means = len(differences[0]), [mine.mean() for mine in differences]
    return count * np.var(means, ddof=1), np.mean([mine.var(ddof=1) for mine in differences])


def test_where_seeds_differ_it_is_the_test_over_seeds_and_the_components_are_those_of_anova():
    differences = drawn(np.random.default_rng(3), 6, 20, 0.5, 1.0, mean=0.3)
    between, within = anova(differences)
    assert between > within
    found, plain = nested(differences), paired([mine.mean() for mine in differences], [0.0] * 6)
    assert (found.mean, found.low, found.high, found.p) == pytest.approx((plain.mean, plain.low, plain.high, plain.p))
    assert found.std == pytest.approx(plain.std)
    assert found.seeds_std == pytest.approx(math.sqrt((between - within) / 20), rel=1e-5)
    assert found.clients_std == pytest.approx(math.sqrt(within))
    assert (found.pairs, found.clients, found.freedom) == (6, 120, 5)


def test_where_they_do_not_every_client_counts():
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 1, (6, 20))
    differences = list(noise - noise.mean(1, keepdims=True) + 0.1 * rng.normal(0, 1, (6, 1)) + 0.2)
    between, within = anova(differences)
    assert between < within
    found, every = nested(differences), np.concatenate(differences)
    expected = stats.ttest_1samp(every, 0.0, alternative="greater")
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx(stats.ttest_1samp(every, 0.0).confidence_interval(0.95))
    assert (found.seeds_std, found.freedom) == (0.0, 119)
    few = nested(differences[:4])  # too few seeds for clients to count
    plain = paired([mine.mean() for mine in differences[:4]], [0.0] * 4)
    assert few.p == pytest.approx(plain.p)
    assert few.freedom == 3


def test_known_variances_are_found_with_unequal_numbers_of_clients():
    rng = np.random.default_rng(0)
    differences = [rng.normal(2 + rng.normal(0, 0.7), 1.5, count) for count in rng.integers(2, 40, 300)]
    found = nested(differences)
    assert found.seeds_std == pytest.approx(0.7, rel=0.1)
    assert found.clients_std == pytest.approx(1.5, rel=0.03)
    assert found.mean == pytest.approx(2.0, abs=3 * found.std / math.sqrt(300))


@pytest.mark.parametrize("common", [0.0, 0.2, 0.5])
def test_at_5_percent_it_errs_in_no_more_than_5_of_100_cases(common):
    """500 draws: a rate of 5 % has a standard error of 1 %; 8 % would be three of them above."""
    rng = np.random.default_rng(7)
    found = [nested(drawn(rng, 5, 12, common, 1.0)) for _ in range(500)]
    assert np.mean([one.p < 0.05 for one in found]) < 0.08
    assert np.mean([not one.low <= 0 <= one.high for one in found]) < 0.08


def test_it_is_no_better_with_what_clients_of_a_seed_have_in_common():
    same = [np.full(50, value) for value in (0.1, -0.1, 0.2, 0.3, -0.2)]
    plain = paired([0.1, -0.1, 0.2, 0.3, -0.2], [0.0] * 5)
    assert nested(same).p == pytest.approx(plain.p)


def test_one_seed_says_nothing():
    found = nested([np.array([0.1, 0.3])])
    assert found.mean == pytest.approx(0.2)
    assert math.isnan(found.p)
    assert (found.low, found.high) == (-math.inf, math.inf)
