"""Laws that run over every cell of the table with a server: all objectives under all such protocols."""

import jax
import numpy as np
import pytest

from idiolect import catalog
from idiolect.contracts import Problem, Protocol, Split
from idiolect.engines import Workers, prepare, simulate
from idiolect.engines.stepwise import run_stepwise
from idiolect.network import Network, draw_timeline
from idiolect.problems import quadratics

WITH_SERVER = [name for name, factory in catalog.PROTOCOLS.items() if isinstance(factory(), Protocol)]
CELLS = [f"{objective}+{protocol}" for objective in catalog.OBJECTIVES for protocol in WITH_SERVER]
HORIZON = 60.0


@pytest.fixture(scope="module")
def problem() -> Problem:
    return quadratics(clients=6, dimension=5, heterogeneity=0.3, noise=0.3, seed=3)


@pytest.fixture(scope="module")
def workers():
    with Workers(2) as threads:
        yield threads


def an_algorithm(name, problem, **options):
    return catalog.algorithm(name, problem, step_size=0.02, local_steps=4, batch_size=5, **options)


def a_timeline(problem, algorithm, seed=0, dropout=0.1):
    network = Network(dropout=dropout)
    schedule = algorithm.protocol.schedule
    return draw_timeline(network, problem.clients.participating, schedule, horizon=HORIZON, seed=seed)


def run(program, clients, table, workers, seed=0, times=(HORIZON,)):
    return list(simulate(program, clients, table, workers, seed=seed, times=times))


def same_bytes(left, right):
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


@pytest.mark.parametrize("name", CELLS)
def test_every_cell_learns_is_reproducible_and_does_not_depend_on_the_engine(name, problem, workers):
    algorithm = an_algorithm(name, problem)
    program, table = prepare(problem, algorithm), a_timeline(problem, algorithm)
    start, end = run(program, problem.clients, table, workers, times=(0.0, HORIZON))

    again = run(program, problem.clients, table, workers)[-1]
    assert same_bytes((end.params, end.personal), (again.params, again.personal)), "same seed, same bytes"

    params, personal = run_stepwise(program, problem.clients, table, seed=0)
    assert same_bytes(end.params, params), "the fast engine and the obvious one agree to the byte"
    assert same_bytes(end.personal, {client: personal[client] for client in end.personal})

    with Workers(5) as more:
        wide = run(program, problem.clients, table, more)[-1]
    assert same_bytes(end.params, wide.params), "results do not depend on how many clients are computed together"

    other = run(program, problem.clients, table, workers, seed=1)[-1]
    assert not same_bytes((end.params, end.personal), (other.params, other.personal)), "another seed, other bytes"

    assert mean_loss(problem, program, end) < 0.9 * mean_loss(problem, program, start), "it learns"
    assert program.turn._cache_size() == 1, "all clients share one compiled program"
    kinds = jax.tree.map(lambda leaf: leaf.dtype, (start.params, end.params))
    assert set(jax.tree.leaves(kinds)) == {np.dtype(np.float32)}


def mean_loss(problem, program, snapshot) -> float:
    """The training loss of the model each client would start from, averaged over clients."""
    losses = []
    for client in problem.clients.participating:
        model = snapshot.model(client)
        oracle = problem.oracle(problem.clients.train.shard(client), 200)
        losses.append(float(oracle.value(model, jax.random.key(0))))
    return float(np.mean(losses))


@pytest.mark.parametrize("objective", catalog.OBJECTIVES)
def test_a_buffer_of_one_is_asynchronous(objective, problem, workers):
    options = {"beta": 0.7, "staleness": "polynomial"}
    alone = an_algorithm(f"{objective}+asynchronous", problem, protocol=options)
    buffered = an_algorithm(f"{objective}+buffered", problem, protocol={**options, "size": 1})
    table = a_timeline(problem, alone)
    ends = [run(prepare(problem, a), problem.clients, table, workers)[-1] for a in (alone, buffered)]
    assert same_bytes(ends[0].params, ends[1].params)


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "persa_fl_me", "maml+buffered", "local"])
def test_a_permutation_of_the_clients_permutes_the_results(name, problem, workers):
    algorithm = an_algorithm(name, problem)
    program, table = prepare(problem, algorithm), a_timeline(problem, algorithm)
    order = np.random.default_rng(0).permutation(problem.clients.total)  # new client k is old client order[k]
    place = np.argsort(order)

    def permuted(split: Split) -> Split:
        return Split(split.rows, split.starts[order], split.sizes[order])

    clients = problem.clients._replace(train=permuted(problem.clients.train))
    end = run(program, problem.clients, table, workers)[-1]
    moved = run(program, clients, table._replace(client=place[table.client].astype(np.int32)), workers)[-1]
    assert same_bytes(end.params, moved.params)
    for client, state in end.personal.items():
        assert same_bytes(state, moved.personal[int(place[client])])


def test_clients_alone_never_influence_each_other(problem, workers):
    algorithm = an_algorithm("local", problem)
    program, table = prepare(problem, algorithm), a_timeline(problem, algorithm, dropout=0.0)
    everyone = run(program, problem.clients, table, workers)[-1]
    mine = table.client == 2
    # Turns are numbered by row; keeping the rows of the others, undelivered, keeps the numbers.
    alone = run(program, problem.clients, table._replace(delivered=mine), workers)[-1]
    assert set(alone.personal) == {2}
    assert same_bytes(everyone.personal[2], alone.personal[2])


def test_a_snapshot_does_not_disturb_the_run(problem, workers):
    algorithm = an_algorithm("persa_fl_maml", problem)
    program, table = prepare(problem, algorithm), a_timeline(problem, algorithm)
    often = run(program, problem.clients, table, workers, times=np.linspace(0, HORIZON, 17).tolist())
    assert same_bytes(often[-1].params, run(program, problem.clients, table, workers)[-1].params)
    assert [snapshot.updates for snapshot in often] == [
        int((table.arrived[table.delivered] <= snapshot.time).sum()) for snapshot in often
    ]
