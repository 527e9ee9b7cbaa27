"""Laws of the engine without a server: it does what the obvious one does, and nothing depends on how it is run."""

import itertools

import jax
import numpy as np
import pytest

from idiolect.contracts import Algorithm, Split, StepRule
from idiolect.engines import Workers
from idiolect.engines.serverless import Lane, hearing, prepare_peers
from idiolect.engines.serverless.stepwise_peers import run_peers_stepwise
from idiolect.engines.snapshot import Snapshot
from idiolect.network.round_tables import rounds
from idiolect.network.topologies import erdos_renyi, ring, topology
from idiolect.network.unreliable_links import Links, draw_rounds
from idiolect.objectives import maml, moreau, plain
from idiolect.problems.synthetic import quadratics
from idiolect.protocols.running_sums import running_sum
from idiolect.testing import peer_laws
from idiolect.testing.comparing import same_bytes
from idiolect.testing.peer_runs import ROUGH, a_lane, pauses
from idiolect.testing.small_clients import START, N, noisy_quadratics
from tests.laws.quadratic_peers import ETA, ONE_WORKER, PROTOCOLS, STILL, T, agree, held, history, prepared

OBJECTIVES = {
    "plain": plain(),
    "maml": maml(steps=2, step_size=0.1, batches="shared"),
    "maml, first order": maml(steps=2, step_size=0.1, derivative="first_order"),
    "moreau": moreau(lambda_=5.0, iterations=3),
}
CELLS = {(objective, protocol, np.float64) for objective in OBJECTIVES for protocol in PROTOCOLS}
EVERYTHING_ONCE = {  # every objective, every protocol and both kinds of floats
    ("plain", "running_sum", np.float64),
    ("maml", "push_sum", np.float64),
    ("maml, first order", "gossip", np.float64),
    ("moreau", "running_sum", np.float32),
}


def fast_then_slow() -> list:
    by_name = sorted(EVERYTHING_ONCE | CELLS, key=str)
    return [cell if cell in EVERYTHING_ONCE else pytest.param(*cell, marks=pytest.mark.slow) for cell in by_name]


@pytest.mark.parametrize(("objective", "protocol", "kind"), fast_then_slow())
def test_the_fast_engine_and_the_obvious_one_agree(objective, protocol, kind):
    """Two noisy local steps a waking, with sleep, loss, delay and duplication."""
    problem = noisy_quadratics(noise=0.5, kind=kind)
    algorithm = Algorithm(
        protocol, OBJECTIVES[objective], PROTOCOLS[protocol](), 2, ETA, 1, StepRule("decreasing", 2.0)
    )
    wide = kind == np.float64
    with jax.enable_x64(wide):
        program = prepare_peers(problem, algorithm)
    program = program._replace(take_stock=prepared(protocol).take_stock)  # the same for all objectives
    lanes, tolerance = [a_lane(problem)], 1e-11 if wide else 1e-5
    slow = peer_laws.engines_agree(problem, program, lanes, ONE_WORKER, tolerance=tolerance, wide=wide)
    moved = 0.0
    for agent in slow:
        assert {leaf.dtype for leaf in jax.tree.leaves(agent.state)} <= {np.dtype(np.float64), np.dtype(np.int32)}
        moved = max(moved, abs(held(agent.state)[0] / held(agent.state)[1] - START).max())
    assert moved > 0.05


def test_seeds_side_by_side_get_what_they_get_alone_however_often_we_look():
    problems = [noisy_quadratics(noise=0.5, seed=seed) for seed in (0, 1)]
    graphs = [erdos_renyi(probability=chance)(N, np.random.default_rng(1)) for chance in (0.9, 0.2)]
    assert graphs[0].links > graphs[1].links, "the lanes are not alike"
    lanes = [Lane(problems[k].clients, draw_rounds(ROUGH, graphs[k], T, k), k) for k in (0, 1)]
    with jax.enable_x64(True):
        program = prepare_peers(problems[0], Algorithm("running_sum", plain(), running_sum(), 1, ETA, 1))

    def ends(lanes: list[Lane], times: list[int], workers: Workers = ONE_WORKER) -> list[tuple[list, Snapshot]]:
        *_, last = pauses(program, lanes, times, workers, nodes=True)
        return [([snapshot.model(i) for i in range(N)], snapshot) for snapshot in last]

    together = ends(lanes, [T])
    assert same_bytes([nodes for nodes, _ in together], [nodes for nodes, _ in ends(lanes, [T])]), "same seed"
    often = ends(lanes, list(range(T + 1)))
    assert same_bytes([nodes for nodes, _ in together], [nodes for nodes, _ in often]), "looking does not disturb"
    assert not same_bytes(together[0][0], ends([lanes[0]._replace(seed=9), lanes[1]], [T])[0][0]), "another seed"
    with Workers(2) as two:
        *spread, (alone, other) = ends([*lanes, lanes[1]], [T], two)  # two on one worker, the third on the other
    assert same_bytes([nodes for nodes, _ in together], [nodes for nodes, _ in spread]), "whoever else there is"
    nodes, snapshot = together[1]
    jax.tree.map(lambda a, b: agree(a, b, tolerance=1e-12), nodes, alone)
    assert snapshot.updates == other.updates == lanes[1].table.awake.sum()
    for name, value in snapshot.reports.items():
        assert other.reports[name] == pytest.approx(value, rel=1e-11, abs=1e-11), name


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_however_many_messages_are_taken_in_at_a_time(protocol, monkeypatch):
    """One by one, in pieces of which the last is not full, or all of a round at once: the same but for rounding."""
    problem = noisy_quadratics(noise=0.5)
    lane, ends = a_lane(problem), {}
    for few in (1, 4, 6):
        monkeypatch.setattr(hearing, "_few", lambda messages, *rows, few=few: few)
        with jax.enable_x64(True):
            program = prepare_peers(problem, Algorithm(protocol, plain(), PROTOCOLS[protocol](), 1, ETA, 1))
        *_, last = pauses(program, [lane], [T], ONE_WORKER, nodes=True)
        ends[few] = [last[0].model(i) for i in range(N)]
    for few in (1, 4):
        jax.tree.map(lambda a, b: agree(a, b, tolerance=1e-13), ends[few], ends[6])


@pytest.mark.parametrize("agents", [1, 3])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_where_nothing_ever_arrives_agents_learn_alone(protocol, agents):
    """One agent has nobody to hear, and three may lose all that they say."""
    problem = quadratics(clients=agents, dimension=2, seed=3)
    with jax.enable_x64(True):
        program = prepare_peers(problem, Algorithm(protocol, plain(), PROTOCOLS[protocol](), 1, ETA, 1))
    table = rounds(ring()(agents, np.random.default_rng(0)), np.ones((T, agents), bool), [])
    slow = peer_laws.engines_agree(problem, program, [Lane(problem.clients, table, 0)], ONE_WORKER, tolerance=1e-11)
    assert len(slow) == agents


@pytest.mark.parametrize(
    "done", [{}, {"none": np.zeros((3, 0))}, {"x": np.full((2, 2), np.nan)}, {"n": np.ones(3, int)}]
)
def test_what_waits_for_a_result_is_not_changed_by_it(done):
    given = jax.tree.map(jax.numpy.asarray, done)
    np.testing.assert_array_equal(hearing._after(given, jax.numpy.arange(4)), np.arange(4))


def test_as_many_messages_are_taken_in_at_a_time_as_fit():
    row = {"x": np.zeros((5, 1024))}  # 8 kB each
    assert hearing._few(10, row) == 10
    assert hearing._few(100, row) == 25
    assert hearing._few(100, {"x": np.zeros((5, 10**6))}) == 1
    assert hearing._few(100, {}) == 100
    assert hearing._few(0, row) == 1


@pytest.mark.parametrize("derivative", ["exact", pytest.param("hessian_free", marks=pytest.mark.slow)])
def test_algorithms_that_differ_in_numbers_get_side_by_side_what_they_get_alone(derivative):
    """Other steps, of other sizes, and another step size; Hessians on batches of their own."""
    problem = noisy_quadratics(noise=0.5)
    graph = erdos_renyi(probability=0.5)(N, np.random.default_rng(4))
    table = draw_rounds(ROUGH, graph, T, 5)
    algorithms = [
        Algorithm(f"u = {u}", maml(steps=u, step_size=alpha, derivative=derivative), running_sum(), 2, eta, 1)
        for u, alpha, eta in ((3, 0.1, ETA), (1, 0.2, ETA), (2, 0.0, ETA / 2))
    ]
    lanes = [Lane(problem.clients, table, 6, algorithm) for algorithm in algorithms]
    with jax.enable_x64(True):
        program = prepare_peers(problem, algorithms[1])  # any of them serves all
        slow = [run_peers_stepwise(problem, algorithm, lanes[0]) for algorithm in algorithms]
    (fast,) = pauses(program, lanes, [T], ONE_WORKER, nodes=True)
    for snapshot, agents in zip(fast, slow, strict=True):
        for i, agent in enumerate(agents):
            jax.tree.map(lambda a, b: agree(a, b, tolerance=1e-11), snapshot.model(i), agent.state)
    ends = [held(agents[0].state)[0] for agents in slow]
    assert min(abs(a - b).max() for a, b in itertools.combinations(ends, 2)) > 1e-3, "they are not alike"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_permutation_of_the_agents_permutes_the_results(protocol):
    order = np.random.default_rng(0).permutation(N)  # new agent k is old agent order[k]
    place = np.argsort(order)

    def permuted(split: Split) -> Split:
        return Split(split.rows, split.starts[order], split.sizes[order])

    graph = erdos_renyi(probability=0.4)(N, np.random.default_rng(7))
    table = draw_rounds(ROUGH, graph, T, 8)
    links = np.stack([place[graph.sources], place[graph.targets]], axis=1)
    messages = np.column_stack([links[table.link], table.sent, table.arrives])
    moved = rounds(topology(N, links), table.awake[:, order], messages)
    clients = STILL.clients._replace(train=permuted(STILL.clients.train))
    nodes, _ = history(protocol, table)
    others, _ = history(protocol, moved, clients=clients)
    for before, after in zip(nodes, others, strict=True):
        for i in range(N):
            jax.tree.map(lambda a, b: agree(a, b, tolerance=1e-12), before[i], after[place[i]])


def test_seeds_one_after_the_other_share_a_program():
    """Their tables have about the same size, and what is missing is filled up with what nobody reads."""
    graph, problem = erdos_renyi(probability=0.5)(N, np.random.default_rng(1)), noisy_quadratics(noise=0.5)
    steady = Links(wake=1.0, loss=0.0, least_delay=1, gamma_d=1)
    lanes = [
        Lane(problem.clients, draw_rounds(steady, graph, rounds, seed), seed) for seed, rounds in enumerate((33, 35))
    ]
    with jax.enable_x64(True):
        program = prepare_peers(problem, Algorithm("running_sum", plain(), running_sum(), 1, ETA, 1))
    for lane in lanes:
        list(pauses(program, [lane], [lane.table.length], ONE_WORKER))
    assert program.advance._cache_size() == 1
