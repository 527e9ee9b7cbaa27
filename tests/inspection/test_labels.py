import numpy as np

from idiolect.problems.data.client_splits import split_clients
from idiolect.problems.data.label_counts import label_counts, label_skew
from idiolect.problems.synthetic.quadratic_clients import quadratics


def dealt(*hands):
    data = [{"image": np.zeros((len(hand), 2)), "label": np.array(hand)} for hand in hands]
    return split_clients(data, rng=np.random.default_rng(0))


def test_counts_are_of_all_parts_together():
    clients = dealt([0, 0, 1, 2, 2, 2], [1] * 9)
    assert label_counts(clients).tolist() == [[2, 1, 3], [0, 9, 0]]


def test_problems_without_classes_have_none():
    assert label_counts(quadratics(clients=2).clients) is None


def test_skew_is_the_total_variation_from_everybody():
    assert label_skew(np.array([[3, 3], [5, 5]])).tolist() == [0, 0]
    # everybody together has half of each; a client with one class alone is half away
    np.testing.assert_allclose(label_skew(np.array([[4, 0], [0, 4]])), [0.5, 0.5])
    np.testing.assert_allclose(label_skew(np.array([[1, 0, 0], [0, 0, 99]])), [0.99, 0.01])
