"""Who holds which sample: no sample goes to two clients, none is invented, and each layout is what it says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect.catalog import PARTITIONS
from idiolect.errors import UserMistake
from idiolect.problems.data.partitions import Deal, by_classes, dirichlet, iid, two_worlds

TEN_CLASSES = np.repeat(np.arange(10), 400)
DEALS: dict[str, Deal] = {
    "iid": iid(),
    "by_classes": by_classes(classes=2),
    "by_classes-unequal": by_classes(classes=2, unequal=1.0),
    "dirichlet": dirichlet(a=1.0, smallest=3),
    "two_worlds": two_worlds(a=4),
}


def dealt(deal: Deal, labels: np.ndarray, clients: int, seed: int = 0) -> list[np.ndarray]:
    return deal(labels, clients, np.random.default_rng(seed))


def histogram(hand: np.ndarray, labels: np.ndarray, classes: int = 10) -> np.ndarray:
    return np.bincount(labels[hand], minlength=classes)


def test_every_partition_of_the_catalog_is_tested_here():
    assert {name.split("-")[0] for name in DEALS} == set(PARTITIONS)


@pytest.mark.parametrize("name", DEALS)
@given(st.integers(1, 8), st.integers(0, 1000), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_no_sample_goes_to_two_clients_and_none_is_invented(name, clients, seed, random):
    labels = np.repeat(np.arange(10), [random.randint(32, 60) for _ in range(10)])
    random.shuffle(labels)
    hands = dealt(DEALS[name], labels, clients, seed)
    everything = np.concatenate(hands)
    assert len(hands) == clients
    assert len(np.unique(everything)) == len(everything)
    assert ((everything >= 0) & (everything < len(labels))).all()


@pytest.mark.parametrize("name", DEALS)
def test_the_generator_decides_the_deal_and_nothing_else_does(name):
    first, again, other = (np.concatenate(dealt(DEALS[name], TEN_CLASSES, 6, seed)).tolist() for seed in (3, 3, 4))
    assert first == again
    assert first != other


@given(st.integers(1, 12), st.integers(12, 200), st.integers(0, 100))
def test_iid_deals_everything_in_equal_shares(clients, samples, seed):
    hands = dealt(iid(), np.zeros(samples, int), clients, seed)
    sizes = [len(hand) for hand in hands]
    assert sum(sizes) == samples
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 12), st.integers(1, 10), st.sampled_from([0.0, 0.3]), st.integers(0, 100))
@settings(max_examples=50, deadline=None)
def test_by_classes_gives_every_client_exactly_so_many_classes(clients, classes, unequal, seed):
    hands = dealt(by_classes(classes=classes, unequal=unequal), TEN_CLASSES, clients, seed)
    assert all(np.count_nonzero(histogram(hand, TEN_CLASSES)) == classes for hand in hands)


@given(st.integers(1, 30), st.integers(1, 10), st.integers(0, 100))
@settings(max_examples=50, deadline=None)
def test_by_classes_uses_all_classes_about_equally_often_and_deals_all_of_those_it_uses(clients, classes, seed):
    hands = dealt(by_classes(classes=classes), TEN_CLASSES, clients, seed)
    held = np.stack([histogram(hand, TEN_CLASSES) for hand in hands])
    holders = np.count_nonzero(held, axis=0)
    assert holders.max() - holders.min() <= 1
    assert held.sum(0)[holders > 0].tolist() == [400] * np.count_nonzero(holders)


@pytest.mark.parametrize(("holders", "samples"), [(3, 100), (7, 70), (39, 390), (30, 30), (49, 49)])
def test_by_classes_divides_a_class_equally_among_its_holders(holders, samples):
    sizes = [len(hand) for hand in dealt(by_classes(classes=1), np.zeros(samples, int), holders)]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("unequal", [0.5, 1.0])
def test_unequal_sizes_are_lognormal_with_the_variation_asked_for(unequal):
    clients = 300
    labels = np.zeros(clients * 2000, int)
    logs = np.log([len(hand) for hand in dealt(by_classes(classes=1, unequal=unequal), labels, clients)])
    assert abs(logs.std() - unequal) < 5 * unequal / np.sqrt(2 * clients)


def test_dirichlet_deals_everything_and_gives_everyone_the_smallest_size():
    for seed in range(5):
        hands = dealt(dirichlet(a=0.3, smallest=50), TEN_CLASSES, 20, seed)
        assert sorted(np.concatenate(hands).tolist()) == list(range(len(TEN_CLASSES)))
        assert min(len(hand) for hand in hands) >= 50


def test_dirichlet_with_a_large_a_is_nearly_uniform():
    """A share has standard deviation below sqrt(1 / (n^2 a)) for n clients: here a tenth of a sample in forty."""
    hands = dealt(dirichlet(a=1e5), TEN_CLASSES, 10)
    for hand in hands:
        assert np.abs(histogram(hand, TEN_CLASSES) - 40).max() <= 2


def test_dirichlet_with_a_small_a_leaves_most_clients_with_few_classes():
    def largest_share(a: float) -> float:
        hands = dealt(dirichlet(a=a, smallest=3), np.repeat(np.arange(10), 2000), 20)
        held = [histogram(hand, np.repeat(np.arange(10), 2000)) for hand in hands]
        return float(np.mean([counts.max() / counts.sum() for counts in held]))

    shares = [largest_share(a) for a in (100.0, 1.0, 0.1)]
    assert shares == sorted(shares)
    assert shares[0] < 0.2
    assert shares[-1] > 0.5


@given(st.integers(2, 12), st.integers(2, 40), st.integers(0, 100))
@settings(max_examples=50, deadline=None)
def test_two_worlds_counts_are_per_fedavg_s(clients, a, seed):
    """Half hold `a` of each of 0-4; the others a/2 of one of 0-4 and 2a of one of 5-9."""
    hands = dealt(two_worlds(a=a), TEN_CLASSES, clients, seed)
    held = [histogram(hand, TEN_CLASSES) for hand in hands]
    broad = [counts for counts in held if counts.tolist() == [a] * 5 + [0] * 5]
    narrow = [counts for counts in held if counts.tolist() != [a] * 5 + [0] * 5]
    assert len(broad) == clients // 2
    for counts in narrow:
        assert sorted(counts[:5].tolist()) == [0, 0, 0, 0, a // 2]
        assert sorted(counts[5:].tolist()) == [0, 0, 0, 0, 2 * a]
    holders = np.count_nonzero(np.stack(narrow)[:, 5:], axis=0)
    assert holders.max() - holders.min() <= 1


def test_the_two_worlds_are_not_told_apart_by_the_client_s_number():
    def broad(seed: int) -> tuple[int, ...]:
        hands = dealt(two_worlds(a=10), TEN_CLASSES, 8, seed)
        return tuple(client for client, hand in enumerate(hands) if not histogram(hand, TEN_CLASSES)[5:].any())

    assert len({broad(seed) for seed in range(10)}) > 3


@pytest.mark.parametrize(
    ("deal", "clients", "needles"),
    [
        (by_classes(classes=11), 3, ["partition.classes is 11", "only 10 classes"]),
        (dirichlet(smallest=500), 9, ["partition.smallest is 500", "4000 samples", "9 clients"]),
        (dirichlet(a=1e-3, smallest=100), 30, ["partition.a is 0.001", "fewer than 100"]),
        (two_worlds(a=401), 2, ["partition.a is 401", "class 0 has only 400 samples"]),
        (two_worlds(a=150), 6, ["partition.a is 150", "only 400 samples for 6 clients"]),
    ],
)
def test_a_deal_that_cannot_be_made_is_refused(deal, clients, needles):
    with pytest.raises(UserMistake) as mistake:
        dealt(deal, TEN_CLASSES, clients)
    for needle in needles:
        assert needle in str(mistake.value)


def test_two_worlds_needs_ten_classes():
    with pytest.raises(UserMistake, match=r"class \d has only 0 samples"):
        dealt(two_worlds(a=4), np.repeat(np.arange(5), 400), 4)
