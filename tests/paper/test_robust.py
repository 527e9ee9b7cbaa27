"""Yin et al. 2018, Definitions 1 and 2, and norm clipping: against NumPy, alone and in whole runs, and their laws."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect import catalog
from idiolect.engines import Workers, prepare, simulate
from idiolect.errors import UserMistake
from idiolect.experiments.building import check_timeline
from idiolect.network import Network, draw_timeline, timeline
from idiolect.network.timelines import ARRIVAL, OFFER, events
from idiolect.problems.synthetic import quadratics
from idiolect.problems.synthetic.quadratic_clients import curvatures_and_centres
from idiolect.protocols.robust import clip, combination

Q, ETA, N, D, ROOM = 5, 0.03, 6, 4, 9
PROBLEM = quadratics(clients=N, dimension=D, seed=11)


@functools.cache
def compiled(kind, trim=0.0):
    return jax.jit(combination(kind, trim))


def combined(kind, updates, trim=0.0):
    """Through rows with room for more, filled up with what must not matter."""
    rows = np.full((ROOM, *np.shape(updates)[1:]), 1e9, np.float32)
    rows[: len(updates)] = updates
    return np.asarray(compiled(kind, trim)({"w": rows}, jnp.int32(len(updates)))["w"])


def trimmed_mean(updates, trim):
    cut = int(trim * len(updates) + 1e-9)
    return np.sort(updates, axis=0)[cut : len(updates) - cut].mean(0)


def some_updates(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 2, 3)).astype(np.float32)


@pytest.mark.parametrize("count", range(1, ROOM + 1))
def test_medians_and_trimmed_means_are_those_of_numpy(count):
    updates = some_updates(count)
    np.testing.assert_allclose(combined("median", updates), np.median(updates, axis=0), rtol=1e-6)
    for trim in (0.2, 0.34, 0.49):
        np.testing.assert_allclose(combined("trimmed_mean", updates, trim), trimmed_mean(updates, trim), rtol=1e-5)


def test_a_round_nobody_finishes_comes_to_nothing():
    for kind in ("median", "trimmed_mean"):
        assert not combined(kind, some_updates(0)).any()


def test_trimming_nothing_is_the_mean():
    updates = some_updates(7)
    np.testing.assert_allclose(combined("trimmed_mean", updates), updates.mean(0), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("kind", "trim"), [("median", 0.0), ("trimmed_mean", 0.2)])
def test_the_order_of_the_updates_does_not_matter_to_the_bit(kind, trim):
    updates = some_updates(8)
    shuffled = np.random.default_rng(1).permutation(updates)
    assert combined(kind, updates, trim).tobytes() == combined(kind, shuffled, trim).tobytes()


@pytest.mark.parametrize("count", [4, 5])
def test_the_median_of_equal_updates_is_that_update_to_the_bit(count):
    update = some_updates(1)
    assert combined("median", np.repeat(update, count, axis=0)).tobytes() == update.tobytes()


@pytest.mark.parametrize("lie", [1e30, -1e30, np.inf])
@pytest.mark.parametrize(("kind", "trim"), [("median", 0.0), ("trimmed_mean", 0.45)])
def test_fewer_than_half_arbitrary_updates_cannot_leave_the_range_of_the_honest_ones(kind, trim, lie):
    honest = some_updates(5)
    found = combined(kind, np.concatenate([honest, np.full((4, 2, 3), lie, np.float32)]), trim)
    assert (found >= honest.min(0)).all()
    assert (found <= honest.max(0)).all()


def test_half_of_them_can():
    found = combined("median", np.concatenate([some_updates(4), np.full((4, 2, 3), 1e30, np.float32)]))
    assert (found > 1e29).all()


def test_clipping_bounds_the_length_and_leaves_the_short_ones_alone_to_the_bit():
    update = {"a": jnp.array([3.0, 0.0]), "b": jnp.array([[4.0]])}
    short, same = clip(update, 2.5), clip(update, 5.5)
    np.testing.assert_allclose(short["a"], [1.5, 0.0])
    np.testing.assert_allclose(short["b"], [[2.0]])
    assert all(np.array_equal(same[key], update[key]) for key in update)
    assert clip(update, None) is update


def an_algorithm(name, **protocol):
    return catalog.algorithm(name, PROBLEM, local_steps=Q, step_size=ETA, batch_size=3, protocol=protocol)


def ours(name, **protocol):
    algorithm = an_algorithm(name, **protocol)
    schedule = algorithm.protocol.schedule
    table = draw_timeline(Network(dropout=0.2), list(range(N)), schedule, horizon=150.0, seed=4)
    assert not table.delivered.all()
    with Workers(1) as workers:
        end = list(simulate(prepare(PROBLEM, algorithm), PROBLEM.clients, table, workers, seed=0, times=[150.0]))[-1]
    return np.asarray(end.params), table


def descent(w, client):
    matrices, centres = curvatures_and_centres(PROBLEM.clients)
    start = w
    for _ in range(Q):
        w = w - ETA * matrices[client] @ (w - centres[client])
    return start - w


def shortened(update, norm):
    return update / max(1.0, np.linalg.norm(update) / norm)  # Sun et al., Sec. 5


COMBINATIONS = {
    "median": ({"combine": "median"}, lambda updates: np.median(updates, axis=0)),
    "trimmed": ({"combine": "trimmed_mean", "trim": 0.25}, lambda updates: trimmed_mean(updates, 0.25)),
    "clipped": ({"clip_norm": 0.2}, lambda updates: np.mean([shortened(u, 0.2) for u in updates], axis=0)),
    "both": (
        {"combine": "median", "clip_norm": 0.2},
        lambda updates: np.median([shortened(u, 0.2) for u in updates], axis=0),
    ),
}


@pytest.mark.parametrize("kind", COMBINATIONS)
def test_rounds_of_most_clients_some_of_which_drop_out(kind):
    options, combine = COMBINATIONS[kind]
    found, table = ours("fedavg", participation=0.8, beta=0.9, **options)
    w = np.zeros(D)
    for number in range(table.round.max() + 1):
        updates = [descent(w, i) for i in table.client[(table.round == number) & table.delivered]]
        if updates:
            w = w - 0.9 * combine(updates)
    np.testing.assert_allclose(found, w, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("kind", ["median", "trimmed", "clipped"])
def test_buffers_of_five(kind):
    options, combine = COMBINATIONS[kind]
    found, table = ours("fedbuff", size=5, beta=0.9, **options)
    w, waiting, downloaded = np.zeros(D), [], {}
    for event in events(table):
        if event.kind == OFFER:
            downloaded[event.turn] = w
        elif event.kind == ARRIVAL:
            waiting.append(descent(downloaded[event.turn], table.client[event.turn]))
            if len(waiting) == 5:
                w, waiting = w - 0.9 * combine(waiting), []
    np.testing.assert_allclose(found, w, rtol=2e-4, atol=2e-5)


def test_samples_as_weights_and_medians_do_not_go_together():
    with pytest.raises(UserMistake, match=r"protocol\.combine is 'median'.*protocol\.weighting is 'samples'"):
        an_algorithm("fedavg", combine="median", weighting="samples")


def test_a_round_with_more_updates_than_there_is_room_for_is_refused():
    table = timeline([0, 1, 2, 3], [0.0] * 4, [1.0] * 4, round=[0] * 4)
    everyone = list(range(N))
    check_timeline(table, an_algorithm("fedavg", participation=0.5), everyone)
    with pytest.raises(UserMistake, match=r"fedavg holds 3 updates a round .* round 0 of the timeline delivers 4"):
        check_timeline(table, an_algorithm("fedavg", participation=0.5, combine="median"), everyone)


def rows_of(table):
    return {"a": jnp.asarray(table[:, :2]), "b": jnp.asarray(table[:, 2:])}


@pytest.mark.parametrize("kind", ["geometric_median", "centered_clipping", "krum"])
def test_whole_updates_against_numpy_loops(kind):
    """Each as its paper writes it, with plain loops over those that count."""
    table = np.random.default_rng(3).normal(size=(9, 5)).astype(np.float32)
    table[2] += 40
    for filled in (1, 2, 5, 9):
        x = table[:filled].astype(np.float64)
        start = np.median(x, axis=0)
        if kind == "geometric_median":
            expected = start
            for _ in range(8):
                weights = np.array([1 / max(1e-6, np.linalg.norm(row - expected)) for row in x])
                expected = sum(w * row for w, row in zip(weights, x, strict=True)) / weights.sum()
        elif kind == "centered_clipping":
            expected, tau = start, np.median([np.linalg.norm(row - start) for row in x])
            for _ in range(3):
                moves = [(row - expected) * min(1, tau / max(np.linalg.norm(row - expected), 1e-6)) for row in x]
                expected = expected + np.mean(moves, axis=0)
        else:
            out, scores = int(0.2 * filled + 1e-9), []
            for i, row in enumerate(x):
                apart = sorted(((row - other) ** 2).sum() for j, other in enumerate(x) if j != i)
                scores.append(sum(apart[: max(filled - out - 2, 1)]))
            expected = x[np.argsort(scores, kind="stable")[: filled - out]].mean(0)
        found = combination(kind, 0.2)(rows_of(table), jnp.int32(filled))
        np.testing.assert_allclose(np.concatenate([found["a"], found["b"]]), expected, rtol=2e-4, atol=1e-5)


def test_krum_does_not_count_an_update_among_its_own_neighbours():
    """Two that agree with each other alone are far from their second neighbour, and three that agree are not."""
    table = np.zeros((5, 5), np.float32)
    table[:, 0] = [0, 1, 2, 100, 100.1]
    found = combination("krum", 0.2)(rows_of(table), jnp.int32(5))
    assert float(found["a"][0]) == pytest.approx((0 + 1 + 2 + 100) / 4), "one is left out, and it is the farthest"


@pytest.mark.parametrize("kind", ["geometric_median", "centered_clipping", "krum"])
def test_two_liars_of_ten_move_whole_combinations_little_and_the_mean_far(kind):
    honest = np.random.default_rng(0).normal([1.0, 1, 1, 1, 1], 0.1, size=(10, 5)).astype(np.float32)
    honest[:2] = -30
    found = combination(kind, 0.2)(rows_of(honest), jnp.int32(10))
    moved = np.linalg.norm(np.concatenate([found["a"], found["b"]]) - 1)
    assert moved < 0.5 < np.linalg.norm(honest.mean(0) - 1)
