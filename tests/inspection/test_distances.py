"""Distances between clients against closed forms and brute force."""

from itertools import permutations

import numpy as np
import pytest

from idiolect.inspection.distances import (
    CLIENTS,
    ROWS,
    Points,
    distributions,
    points_of,
    root_mean_square,
    to_average,
    total_variation,
    transport,
    wasserstein,
    wasserstein_to_average,
)
from idiolect.problems.data.client_splits import split_clients
from idiolect.problems.data.label_counts import label_counts
from idiolect.problems.data.partitions import two_worlds


def cloud(numbers=None, names=None):
    size = len(numbers if numbers is not None else names)
    return Points(
        np.zeros((size, 0)) if numbers is None else np.asarray(numbers, float).reshape(size, -1),
        np.zeros((size, 0)) if names is None else np.asarray(names).reshape(size, -1),
    )


def test_two_worlds_is_as_far_apart_as_its_closed_form():
    # Half of the clients hold 1/5 of each class 0-4; the others 1/5 of one of these and 4/5 of one of 5-9, each of
    # these five pairs equally often. So two of the first half are 0 apart, one of each 4/5, and two of the others 1
    # or 0; p has 0.12 of each class 0-4 and 0.08 of 5-9, from which the halves are 2/5 and 4/5 away.
    labels = np.repeat(np.arange(10), 400)
    hands = two_worlds(a=20)(labels, 20, np.random.default_rng(3))
    data = [{"image": np.zeros((len(hand), 1)), "label": labels[hand]} for hand in hands]
    counts = label_counts(split_clients(data, rng=np.random.default_rng(0)))
    shares, second = distributions(counts), counts[:, 5:].any(1)
    between = total_variation(shares)
    np.testing.assert_allclose(between[~second][:, ~second], 0, atol=1e-12)
    np.testing.assert_allclose(between[~second][:, second], 0.8)
    same = counts[second].argmax(1)[:, None] == counts[second].argmax(1)
    np.testing.assert_allclose(between[second][:, second], np.where(same, 0, 1), atol=1e-12)
    np.testing.assert_allclose(to_average(shares), np.where(second, 0.8, 0.4))
    assert root_mean_square(to_average(shares)) == pytest.approx(0.4**0.5)


def test_to_average_counts_clients_and_not_samples():
    # p is half and half, though nearly all samples are of the second class
    np.testing.assert_allclose(to_average(distributions(np.array([[1, 0], [0, 99]]))), [0.5, 0.5])


def test_on_a_line_wasserstein_matches_sorted_samples():
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal(50), 3 + 2 * rng.standard_normal(50)
    expected = np.abs(np.sort(first) - np.sort(second)).mean()
    assert wasserstein(cloud(first), cloud(second)) == pytest.approx(expected)


def test_in_space_wasserstein_is_the_best_of_all_matchings():
    rng = np.random.default_rng(1)
    first, second, names = rng.standard_normal((6, 3)), rng.standard_normal((6, 3)), rng.integers(2, size=(2, 6))
    costs = np.linalg.norm(first[:, None] - second, axis=2) + (names[0][:, None] != names[1])
    best = min(np.mean([costs[i, j] for i, j in enumerate(order)]) for order in permutations(range(6)))
    assert wasserstein(cloud(first, names[0]), cloud(second, names[1])) == pytest.approx(best)


def test_where_samples_are_names_wasserstein_is_total_variation():
    first, second = np.repeat([0, 1, 2], [5, 3, 2]), np.repeat([0, 1, 3], [1, 6, 3])
    shares = np.array([[0.5, 0.3, 0.2, 0], [0.1, 0.6, 0, 0.3]])
    assert wasserstein(cloud(names=first), cloud(names=second)) == pytest.approx(total_variation(shares)[0, 1])


def test_to_the_average_of_all_wasserstein_is_the_area_between_distribution_functions():
    """On a line; clients with different numbers of samples count alike in p."""
    rng = np.random.default_rng(3)
    own = [shift + rng.standard_normal(size) for shift, size in ((0.0, 7), (1.0, 12), (3.0, 5))]
    grid = np.sort(np.concatenate(own))
    steps = np.stack([(sample[:, None] <= grid).mean(0) for sample in own])
    expected = (np.abs(steps - steps.mean(0))[:, :-1] * np.diff(grid)).sum(1)
    np.testing.assert_allclose(wasserstein_to_average([cloud(sample) for sample in own]), expected)


def test_to_the_average_of_all_wasserstein_is_a_matching_of_repeated_samples():
    rng = np.random.default_rng(4)
    clouds = [cloud(rng.standard_normal((5, 2)) + shift) for shift in (0.0, 0.5, 2.0)]
    everybody = cloud(np.concatenate([one.numbers for one in clouds]))
    expected = [wasserstein(one.take(np.repeat(np.arange(5), 3)), everybody) for one in clouds]
    np.testing.assert_allclose(wasserstein_to_average(clouds), expected)


def test_pixels_lie_between_0_and_1_and_whole_numbers_are_names():
    rows = {"image": np.full((4, 2, 2), 255, np.uint8), "label": np.arange(4), "mask": np.ones((4, 1), bool)}
    found = points_of(rows, np.array([1, 3]))
    np.testing.assert_array_equal(found.numbers, np.ones((2, 5)))
    np.testing.assert_array_equal(found.names, [[1], [3]])


def test_clients_that_are_shifted_are_that_far_apart_and_alike_tells_chance():
    rng = np.random.default_rng(2)
    worlds = np.array([[0.0, 0.0], [0.0, 0.0], [100.0, 0.0], [100.0, 0.0]])
    data = [{"x": rng.standard_normal((90 + 10 * k, 2)) + worlds[k]} for k in range(4)]
    clients = split_clients(data, rng=rng)
    found = transport(clients, [0, 1, 2, 3], seed=0)
    np.testing.assert_array_equal(found.between, found.between.T)
    assert found.between[0, 1] < 1  # the same world
    np.testing.assert_allclose(found.between[0, 2], 100, atol=1)
    np.testing.assert_allclose(found.to_everybody, 50, atol=20)
    assert found.rows == 72


def test_alike_is_what_clients_of_one_kind_show():
    rng = np.random.default_rng(2)
    clients = split_clients([{"x": rng.standard_normal((300, 4))} for _ in range(6)], rng=rng)
    found = transport(clients, list(range(6)), seed=0)
    pairs = found.between[np.triu_indices(6, 1)]
    assert found.rows == ROWS < clients.train.sizes.min()
    np.testing.assert_allclose(pairs.mean(), found.alike, rtol=0.15)
    assert CLIENTS < 100  # work is bounded
