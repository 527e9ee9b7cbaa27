"""Updates in batches: however they fall into them, the server is the same to the byte, and as if they came alone."""

import jax
import numpy as np
import pytest

from idiolect.contracts import Upload
from idiolect.deploy.serving.batch import Batch
from idiolect.engines.screening import FINE, NOT_FINITE, PUT_OFF, TOO_LARGE, shapes_of
from idiolect.engines.simulator.server_program import Arrival, Turn, open_server
from idiolect.trees import norm
from tests.deploy.small_world import same, small_work

UPDATES = 23


def opened(work):
    clients = work.problem.clients
    return open_server(work.program, work.program.init(jax.random.key(0)), 3, clients.total)


def updates(work, state):
    """Random ones of three clients, some of them wrong: (leaves, weight, turn, client, age)."""
    like, rng = work.program.protocol.sends(work.program.protocol.server.offer(state.server)), np.random.default_rng(5)
    found = []
    for turn in range(UPDATES):
        leaves = [0.01 * rng.normal(size=np.shape(leaf)).astype(leaf.dtype) for leaf in jax.tree.leaves(like)]
        leaves[0] = leaves[0] * {7: np.float32(1e7), 12: np.float32("nan")}.get(turn, np.float32(1))
        found.append((leaves, int(rng.integers(1, 9)), turn, turn % 3, int(rng.integers(0, 4))))
    return shapes_of(like), found


def in_batches_of(work, sizes):
    state = opened(work)
    expected, found = updates(work, state)
    batch, reasons = Batch(work.program, expected), []
    for place, update in enumerate(found):
        batch.add(*update)
        if batch.count == sizes[place % len(sizes)] or place == len(found) - 1:
            state, some = batch.absorb(state)
            reasons += some
    return state, reasons


@pytest.mark.parametrize(
    "algorithm",
    [
        "asynchronous",
        "buffered",
        "synchronous",
        "scaffold",
        "fedadam",
        pytest.param("qupel_async", marks=pytest.mark.slow),
    ],
)
def test_how_updates_fall_into_batches_changes_no_bit(algorithm):
    work = small_work(algorithm)
    alone, why = in_batches_of(work, [1])
    assert (why[7], why[12]) == (TOO_LARGE, NOT_FINITE)
    assert set(why) <= {FINE, TOO_LARGE, NOT_FINITE, PUT_OFF}
    for sizes in ([2, 5], [UPDATES]):
        together, same_why = in_batches_of(work, sizes)
        assert same_why == why
        assert same(alone, together)


def test_a_batch_comes_to_what_the_simulator_comes_to():
    work = small_work()
    together, _ = in_batches_of(work, [UPDATES])
    state = opened(work)
    expected, found = updates(work, state)
    for leaves, weight, turn, client, age in found:
        delta = jax.tree.unflatten(jax.tree.structure(expected), leaves)
        came = Turn((), Upload(delta, np.int32(weight)), norm(delta), {}, np.array([-1.0, 0.0], np.float32))
        arrival = Arrival(np.int32(turn), np.int32(client), np.float32(age))
        state, _ = work.program.absorb(state, (), came, arrival)
    assert same(together, state, rtol=1e-6, equal_nan=True)


def test_a_batch_has_room_for_little_when_updates_are_large():
    work = small_work()
    expected = {"w": jax.ShapeDtypeStruct((3_000_000,), np.float32)}
    assert Batch(work.program, expected).room == 1
    assert Batch(work.program, {"w": jax.ShapeDtypeStruct((1000,), np.float32)}).room == 64
