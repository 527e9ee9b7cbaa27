"""Every client's data, cut into parts: nothing is lost, shared or invented, and every part has its promised size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect.contracts import Clients
from idiolect.errors import UserMistake
from idiolect.problems.data.client_splits import PARTS, Shares, split_clients

SIZES = st.lists(st.integers(3, 60), min_size=1, max_size=6)
SHARES = (
    st.tuples(st.floats(0.01, 0.98), st.floats(0.01, 0.98), st.floats(0.0, 0.9))
    .map(lambda shares: Shares(*shares))
    .filter(lambda shares: sum(shares) < 0.999)
)
COMMON_SHARES = st.sampled_from([Shares(), Shares(0.5, 0.2, 0.1), Shares(0.7, 0.2, 0.0), Shares(0.8, 0.1, 0.0)])


def numbered(sizes: list[int]) -> list[dict[str, np.ndarray]]:
    """Rows that know their own number and their owner's."""
    ids = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    return [{"id": part, "owner": np.full(len(part), client)} for client, part in enumerate(ids)]


def split(sizes: list[int], seed: int = 0, **options: object) -> Clients:
    return split_clients(numbered(sizes), rng=np.random.default_rng(seed), **options)


def rows_of(clients: Clients, part: str, client: int, column: str) -> np.ndarray:
    shard = getattr(clients, part).shard(client)
    return np.asarray(shard.rows[column])[int(shard.start) : int(shard.start) + int(shard.size)]


@given(SIZES, COMMON_SHARES, st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_every_sample_is_in_exactly_one_part_of_its_own_client(sizes, shares, seed):
    clients = split(sizes, seed, shares=shares)
    everything = [rows_of(clients, part, client, "id") for part in PARTS for client in range(len(sizes))]
    assert sorted(np.concatenate(everything).tolist()) == list(range(sum(sizes)))
    for part in PARTS:
        for client in range(len(sizes)):
            assert (rows_of(clients, part, client, "owner") == client).all()


@given(SIZES, SHARES, st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_every_part_has_the_size_its_share_promises_and_none_that_is_needed_is_empty(sizes, shares, seed):
    clients = split(sizes, seed, shares=shares)
    for client, size in enumerate(sizes):
        cut = [int(getattr(clients, part).sizes[client]) for part in PARTS]
        promised = [max(1, round(shares.train * size)), max(1, round(shares.adapt * size))]
        promised.append(round(shares.validation * size))
        assert sum(cut) == size
        assert min(cut[0], cut[1], cut[3]) >= 1  # to train on, to adapt on, to be scored on
        assert cut[2] >= 0
        if sum(promised) < size:  # there is room for what the shares promise, with a sample left to test on
            assert cut[:3] == promised


def test_the_default_parts_are_sixty_fifteen_five_and_twenty_percent():
    clients = split([100, 200])
    sizes = [getattr(clients, part).sizes.tolist() for part in PARTS]
    assert sizes == [[60, 120], [15, 30], [5, 10], [20, 40]]


def test_rows_are_shuffled_by_the_generator_and_by_nothing_else():
    first, again, other = (split([50, 50], seed) for seed in (1, 1, 2))
    assert rows_of(first, "test", 0, "id").tolist() == rows_of(again, "test", 0, "id").tolist()
    assert rows_of(first, "test", 0, "id").tolist() != rows_of(other, "test", 0, "id").tolist()


def test_all_parts_lie_in_one_store():
    clients = split([10, 20])
    assert all(getattr(clients, part).rows is clients.train.rows for part in PARTS)


@pytest.mark.parametrize(("unseen", "count"), [(0.0, 0), (0.2, 2), (0.5, 5), (0.9, 9)])
def test_a_share_of_the_clients_takes_no_part_in_training(unseen, count):
    clients = split([5] * 10, unseen=unseen)
    assert len(clients.unseen) == count
    assert sorted([*clients.participating, *clients.unseen]) == list(range(10))


def test_which_clients_are_unseen_is_drawn():
    assert len({split([3] * 10, seed, unseen=0.2).unseen for seed in range(10)}) > 3


@pytest.mark.parametrize(("clients", "unseen"), [(4, 0.95), (1, 0.6)])
def test_holding_everybody_out_is_refused(clients, unseen):
    with pytest.raises(UserMistake, match=f"unseen is {unseen}"):
        split([5] * clients, unseen=unseen)


@pytest.mark.parametrize(
    ("data", "options", "needles"),
    [
        (numbered([5]), {"shares": Shares(0.8, 0.25, 0.1)}, ["shares (0.8, 0.25, 0.1)", "below 1"]),
        (numbered([5]), {"shares": Shares(0.6, 0.3, 0.1)}, ["shares (0.6, 0.3, 0.1)", "below 1"]),
        (numbered([5, 2]), {}, ["client 1 has 2 samples", "at least 3"]),
        (numbered([5]), {"unseen": 1.0}, ["unseen is 1.0"]),
        (numbered([5]), {"unseen": -0.1}, ["unseen is -0.1"]),
        (numbered([5]), {"unseen": float("nan")}, ["unseen is nan"]),
        ([{"x": np.zeros(5), "y": np.zeros(4)}], {}, ["client 0", "different lengths (x 5, y 4)"]),
        ([], {}, ["client"]),
    ],
)
def test_data_that_cannot_be_cut_is_refused(data, options, needles):
    with pytest.raises(UserMistake) as mistake:
        split_clients(data, rng=np.random.default_rng(0), **options)
    for needle in needles:
        assert needle in str(mistake.value)
