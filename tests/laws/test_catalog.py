"""Laws that run over every cell of the table with a server: all objectives under all such protocols."""

import functools

import jax
import numpy as np
import pytest

from idiolect import catalog
from idiolect.contracts import PersonalObjective, Protocol, Split
from idiolect.engines import Workers, prepare, simulate
from idiolect.engines.simulator.server_program import Arrival, Program, open_server, training_key
from idiolect.engines.simulator.stepwise_server import run_stepwise
from idiolect.network import Network, draw_timeline
from tests.laws.quadratic_peers import noisy_quadratics

WITH_SERVER = [name for name, factory in catalog.PROTOCOLS.items() if isinstance(factory(), Protocol)]
CELLS = [f"{objective}+{protocol}" for objective in catalog.OBJECTIVES for protocol in WITH_SERVER]
HORIZON = 60.0
OWN_WEIGHTS = {"keep": [], "lambda_p": 0.5, "step_size": 0.05}  # a vector has no first or last layer to keep
OPTIONS = {
    "quantized": OWN_WEIGHTS | {"centers_step_size": 0.05},
    "binary_relax": OWN_WEIGHTS,
    "post_training": OWN_WEIGHTS,
}
PROBLEM = noisy_quadratics(noise=0.5, kind=np.float32)


@functools.cache
def prepared(name: str) -> Program:
    """A cell's program, compiled once for all the tests of this file."""
    return prepare(PROBLEM, an_algorithm(name))


def an_algorithm(name, **options):
    objective = OPTIONS.get(name.partition("+")[0])
    return catalog.algorithm(name, PROBLEM, objective=objective, step_size=0.02, local_steps=4, batch_size=5, **options)


def a_timeline(program, seed=0, dropout=0.1):
    network, schedule = Network(dropout=dropout), program.protocol.schedule
    return draw_timeline(network, PROBLEM.clients.participating, schedule, horizon=HORIZON, seed=seed)


def run(program, clients, table, workers, seed=0, times=(HORIZON,)):
    return list(simulate(program, clients, table, workers, seed=seed, times=times))


def same_bytes(left, right):
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


@pytest.mark.parametrize("name", CELLS)
def test_every_cell_learns_is_reproducible_and_does_not_depend_on_the_engine(name, workers):
    program = prepared(name)
    table = a_timeline(program)
    start, end = run(program, PROBLEM.clients, table, workers, times=(0.0, HORIZON))

    again = run(program, PROBLEM.clients, table, workers)[-1]
    assert same_bytes((end.params, end.personal), (again.params, again.personal)), "same seed, same bytes"

    params, personal = run_stepwise(program, PROBLEM.clients, table, seed=0)
    assert same_bytes(end.params, params), "the fast engine and the obvious one agree to the byte"
    assert same_bytes(end.personal, {client: personal[client] for client in end.personal})

    with Workers(5) as more:
        wide = run(program, PROBLEM.clients, table, more)[-1]
    assert same_bytes(end.params, wide.params), "results do not depend on how many clients are computed together"

    other = run(program, PROBLEM.clients, table, workers, seed=1)[-1]
    assert not same_bytes((end.params, end.personal), (other.params, other.personal)), "another seed, other bytes"

    assert mean_loss(program, end) < 0.9 * mean_loss(program, start), "it learns"
    assert program.turn._cache_size() == 1, "all clients share one compiled program"
    assert {leaf.dtype for leaf in jax.tree.leaves((start.params, end.params))} == {np.dtype(np.float32)}


@pytest.mark.parametrize("name", CELLS)
def test_no_update_changes_a_type_so_nothing_is_compiled_twice(name):
    program, clients = prepared(name), PROBLEM.clients
    server_state = open_server(program, PROBLEM.init(jax.random.key(0)), len(clients.participating), clients.total)
    opened, offer, zero = kinds(server_state), program.protocol.server.offer(server_state.server), np.int32(0)
    before = program.work.init(offer, 0)
    turn = program.turn(before, offer, clients.train.shard(0), training_key(0), zero)
    server_state, kept = program.absorb(server_state, before, turn, Arrival(zero, zero, np.float32(0)))
    assert kinds(server_state._replace(totals={})) == opened
    assert kinds(program.close(server_state)) == kinds(server_state)
    assert kinds(kept) == kinds(before)


def kinds(tree):
    return jax.tree.map(lambda leaf: (leaf.shape, str(leaf.dtype), leaf.weak_type), tree)


def mean_loss(program, snapshot) -> float:
    """The training loss of the model each client would start from, or has of its own, averaged over clients."""
    losses, objective = [], program.algorithm.objective
    for client in PROBLEM.clients.participating:
        if isinstance(objective, PersonalObjective):
            model = objective.compressed(snapshot.own(client)).params
        else:
            model = snapshot.model(client)
        oracle = PROBLEM.oracle(PROBLEM.clients.train.shard(client), 200)
        losses.append(float(oracle.value(model, jax.random.key(0))))
    return float(np.mean(losses))


@pytest.mark.parametrize(  # an objective is the client's affair, the buffer the server's
    "objective",
    ["plain", *(pytest.param(name, marks=pytest.mark.slow) for name in catalog.OBJECTIVES if name != "plain")],
)
def test_a_buffer_of_one_is_asynchronous(objective, workers):
    options = {"beta": 0.7, "staleness": "polynomial"}
    alone = prepare(PROBLEM, an_algorithm(f"{objective}+asynchronous", protocol=options))
    buffered = prepare(PROBLEM, an_algorithm(f"{objective}+buffered", protocol={**options, "size": 1}))
    table = a_timeline(alone)
    ends = [run(program, PROBLEM.clients, table, workers)[-1] for program in (alone, buffered)]
    assert same_bytes(ends[0].params, ends[1].params)


@pytest.mark.parametrize(
    "name",
    [
        "plain+synchronous",
        "plain+scaffold",
        "moreau+asynchronous",
        "maml+buffered",
        "plain+local",
        "quantized+buffered",
    ],
)
def test_a_permutation_of_the_clients_permutes_the_results(name, workers):
    program = prepared(name)
    table = a_timeline(program)
    order = np.random.default_rng(0).permutation(PROBLEM.clients.total)  # new client k is old client order[k]
    place = np.argsort(order)

    def permuted(split: Split) -> Split:
        return Split(split.rows, split.starts[order], split.sizes[order])

    clients = PROBLEM.clients._replace(train=permuted(PROBLEM.clients.train))
    end = run(program, PROBLEM.clients, table, workers)[-1]
    moved = run(program, clients, table._replace(client=place[table.client].astype(np.int32)), workers)[-1]
    assert same_bytes(end.params, moved.params)
    for client, state in end.personal.items():
        assert same_bytes(state, moved.personal[int(place[client])])


def test_clients_alone_never_influence_each_other(workers):
    program = prepared("plain+local")
    table = a_timeline(program, dropout=0.0)
    everyone = run(program, PROBLEM.clients, table, workers)[-1]
    mine = table.client == 2
    # Turns are numbered by row; keeping the rows of the others, undelivered, keeps the numbers.
    alone = run(program, PROBLEM.clients, table._replace(delivered=mine), workers)[-1]
    assert set(alone.personal) == {2}
    assert same_bytes(everyone.personal[2], alone.personal[2])


def test_a_snapshot_does_not_disturb_the_run(workers):
    program = prepared("maml+asynchronous")
    table = a_timeline(program)
    often = run(program, PROBLEM.clients, table, workers, times=np.linspace(0, HORIZON, 17).tolist())
    assert same_bytes(often[-1].params, run(program, PROBLEM.clients, table, workers)[-1].params)
    assert [snapshot.updates for snapshot in often] == [
        int((table.arrived[table.delivered] <= snapshot.time).sum()) for snapshot in often
    ]
