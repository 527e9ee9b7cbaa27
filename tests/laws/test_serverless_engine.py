"""Laws of learning without a server: what the network may never do to mass, and what no engine may change.

Clients are quadratics in 64 bits. Their noise comes straight from the key: a generator takes longer to compile than all
the rest. Tables that hypothesis draws run beside a lane that has every link, the oldest message and the fullest inbox,
so that all of them have the shapes of one compiled program.
"""

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect.contracts import Algorithm, Clients, Oracle, Problem, Split, StepRule
from idiolect.engines import Workers
from idiolect.engines.serverless import Lane, PeerProgram, prepare_peers, simulate_peers
from idiolect.engines.serverless.stepwise import run_peers_stepwise
from idiolect.engines.snapshot import Snapshot
from idiolect.network.rounds import Rounds, rounds
from idiolect.network.topology import Topology, complete, erdos_renyi, ring, topology
from idiolect.network.unreliable import Links, draw_rounds
from idiolect.objectives import maml, moreau, plain
from idiolect.problems import quadratics
from idiolect.problems.quadratics import curvatures_and_centres
from idiolect.protocols.gossip import gossip
from idiolect.protocols.push_sum import push_sum
from idiolect.protocols.running_sum import running_sum

WORKERS = Workers(2)
N, D, T, ETA, MOST = 4, 3, 8, 0.05, 30
START = np.array([0.5, -1.0, 2.0])
PROTOCOLS = {"running_sum": running_sum, "push_sum": push_sum, "gossip": gossip}
OBJECTIVES = {
    "plain": plain(),
    "maml": maml(steps=2, step_size=0.1, batches="shared"),
    "maml, first order": maml(steps=2, step_size=0.1, derivative="first_order"),
    "moreau": moreau(lambda_=5.0, iterations=3),
}
ROUGH = Links(wake=0.6, gamma_w="unbounded", loss=0.4, gamma_f="unbounded", least_delay=0, gamma_d=3, duplication=0.3)


def a_problem(noise: float, seed: int = 0, kind: type = np.float64) -> Problem:
    """Quadratics; a key moves the centre by up to `noise`."""
    drawn = quadratics(clients=N, dimension=D, seed=seed)
    train = drawn.clients.train
    with jax.enable_x64(True):
        rows = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), kind), train.rows)

    def oracle(shard, batch_size) -> Oracle:
        matrix, centre = shard.rows["matrix"][shard.start], shard.rows["centre"][shard.start]

        def at(key):
            moved = centre + noise * (jax.random.key_data(key)[0] / np.float32(2**32)).astype(kind) if noise else centre
            return lambda w: 0.5 * (w - moved) @ matrix @ (w - moved)

        return Oracle(
            value=lambda params, key: at(key)(params),
            gradient=lambda params, key: jax.value_and_grad(at(key))(params),
            hessian_product=lambda params, vector, key: jax.jvp(jax.grad(at(key)), (params,), (vector,))[1],
        )

    clients = drawn.clients._replace(train=train._replace(rows=rows))
    return drawn._replace(init=lambda key: jnp.asarray(START, kind), oracle=oracle, clients=clients)


STILL = a_problem(noise=0.0)
MATRICES, CENTRES = curvatures_and_centres(STILL.clients)


@functools.cache
def prepared(protocol: str) -> PeerProgram:
    with jax.enable_x64(True):
        return prepare_peers(STILL, Algorithm(protocol, plain(), PROTOCOLS[protocol](), 1, ETA, 1))


def everything() -> Rounds:
    """Every link, one message as old as the run and one inbox that is full: the largest shapes a table can ask for."""
    graph = complete()(N, np.random.default_rng(0))
    return rounds(graph, np.ones((T, N), bool), [(0, 1, 0, T - 1), *[(0, 1, 2, 3)] * MOST])


def pauses(
    program: PeerProgram, lanes: list[Lane], times: list[int], *, nodes: bool = False
) -> Iterator[list[Snapshot]]:
    """Run in 64 bits; with `nodes` a snapshot's `model` is all that an agent keeps."""
    with jax.enable_x64(True):
        yield from simulate_peers(
            program._replace(models=lambda state: state.nodes) if nodes else program, lanes, WORKERS, times=times
        )


def history(
    protocol: str, table: Rounds, *, step_size: float = ETA, clients: Clients = STILL.clients
) -> tuple[list, list]:
    """What the agents hold after 0, 1, … T rounds, and the reports then, beside the lane that has everything."""
    program = prepared(protocol)
    program = program._replace(algorithm=program.algorithm._replace(step_size=step_size))
    lanes = [Lane(clients, table, 0), Lane(STILL.clients, everything(), 0)]
    found = [both[0] for both in pauses(program, lanes, list(range(T + 1)), nodes=True)]
    return [[snapshot.model(i) for i in range(N)] for snapshot in found], [snapshot.reports for snapshot in found]


# --- Tables ----------------------------------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> Topology:
    """Any links at all: the laws of mass do not ask whether everyone can reach everyone."""
    pairs = sorted(draw(st.sets(st.sampled_from([(j, i) for i in range(N) for j in range(N) if i != j]), min_size=1)))
    sources, targets = np.array(sorted(pairs, key=lambda pair: pair[::-1]), np.int32).T
    return Topology(N, sources, targets)


@st.composite
def tables(draw: st.DrawFn) -> Rounds:
    """Anyone asleep at any time, and messages lost, late, doubled in any order; by hand or, with more, by chance."""
    graph = draw(graphs())
    if draw(st.booleans()):
        links = ROUGH._replace(loss=draw(st.floats(0, 0.9)), duplication=draw(st.floats(0, 0.9)))
        return draw_rounds(links, graph, T, draw(st.integers(0, 1000)))
    row = st.lists(st.booleans(), min_size=N, max_size=N)
    awake = draw(st.lists(row, min_size=T, max_size=T))
    pairs = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    sends = [(j, i, t) for j, i in pairs for t in range(T) if awake[t][j]]
    message = st.tuples(st.sampled_from(sends or [None]), st.integers(0, T))
    sent = draw(st.lists(message, max_size=MOST)) if sends else []
    return rounds(graph, awake, [(j, i, t, t + delay) for (j, i, t), delay in sent])


@st.composite
def complete_deliveries(draw: st.DrawFn, in_order: bool) -> Rounds:
    """Every message arrives once; `in_order`, none before an older one of the same link."""
    links = ROUGH._replace(loss=0.0, duplication=0.0)
    table = draw_rounds(links, draw(graphs()), T, draw(st.integers(0, 1000)))
    if not in_order:
        return table
    arrives = table.sent + table.link % 3
    order = np.lexsort((table.sent, table.link, arrives))
    return table._replace(link=table.link[order], sent=table.sent[order], arrives=arrives[order])


# --- The same once more, in NumPy ------------------------------------------------------------------------------------


def taken_in_by_hand(table: Rounds) -> list[tuple[int, int, int]]:
    """(link, sent, taken in) of every message; T or more is never."""
    found = []
    for link, sent, t in zip(table.link.tolist(), table.sent.tolist(), table.arrives.tolist(), strict=True):
        while t < T and not table.awake[t, table.graph.targets[link]]:
            t += 1
        found.append((link, sent, t))
    return found


def steps_taken(table: Rounds, nodes: list, step_size: float = ETA) -> np.ndarray:
    """eta_i(t) A_i (z_i(t) - m_i) for those awake, as rounds x agents x D, at the models the engine shows."""
    steps, kappa = np.zeros((T, N, D)), [-1] * N
    for t in range(T):
        for i in np.flatnonzero(table.awake[t]):
            x, y = held(nodes[t][i])
            steps[t, i] = step_size * (t - kappa[i]) * MATRICES[i] @ (x / y - CENTRES[i])
            kappa[i] = t
    return steps


def held(node) -> tuple[np.ndarray, float]:
    return (np.asarray(node.mass.x), float(node.mass.y)) if hasattr(node, "mass") else (np.asarray(node.x), 1.0)


def agree(left, right, scale: float = 1.0, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance * scale)


def magnitude(nodes: list, steps: np.ndarray) -> float:
    """The largest numbers that were added up: what a relative error is relative to."""
    return 1 + max(abs(steps).max(), max(abs(held(node)[0]).max() for agents in nodes for node in agents))


# --- Laws of mass ----------------------------------------------------------------------------------------------------


@given(tables())
@settings(max_examples=40, deadline=None)
def test_running_sums_conserve_mass_whatever_the_network_does(table):
    nodes, reports = history("running_sum", table)
    steps, sources = steps_taken(table, nodes), table.graph.sources
    scale, messages = magnitude(nodes, steps), taken_in_by_hand(table)
    for t in range(T + 1):
        x, y = (sum(part) for part in zip(*(held(node) for node in nodes[t]), strict=True))
        for link, j in enumerate(sources):
            heard = max([-1, *(sent for k, sent, when in messages if k == link and when < t)])
            phi, rho = nodes[t][j].sent, nodes[heard + 1][j].sent  # a message of round s says phi as it is after s
            x, y = x + phi.x - rho.x, y + phi.y - rho.y
        agree(y, N)
        agree(x, N * START - steps[:t].sum((0, 1)), scale)
        said = reports[t]
        agree([said["y_leaked"], said["x_leaked"]], 0, scale)
        agree(said["y_with_agents"] + said["y_under_way"] + said["y_recoverable"], N)


@given(tables())
@settings(max_examples=40, deadline=None)
def test_push_sum_leaks_what_is_lost_and_gains_what_comes_twice(table):
    nodes, reports = history("push_sum", table)
    steps, graph = steps_taken(table, nodes), table.graph
    scale, leaked_x, leaked_y = magnitude(nodes, steps), np.zeros(D), 0.0
    for t in range(T):
        for link, j in enumerate(graph.sources):
            if table.awake[t, j]:
                x, y = held(nodes[t][j])
                copies = int(((table.link == link) & (table.sent == t)).sum())
                leaked_x = leaked_x + (1 - copies) * (x - steps[t, j]) / (graph.out_degrees[j] + 1)
                leaked_y += (1 - copies) * y / (graph.out_degrees[j] + 1)
        agree(reports[t + 1]["y_leaked"], leaked_y)
        agree(reports[t + 1]["x_leaked"], np.linalg.norm(leaked_x), scale)


@given(complete_deliveries(in_order=False))
@settings(max_examples=20, deadline=None)
def test_push_sum_conserves_mass_when_every_message_arrives_once(table):
    nodes, reports = history("push_sum", table)
    scale = magnitude(nodes, steps_taken(table, nodes))
    for said in reports:
        agree([said["y_leaked"], said["x_leaked"]], 0, scale)
        agree(said["y_with_agents"] + said["y_under_way"], N)


@given(complete_deliveries(in_order=True))
@settings(max_examples=20, deadline=None)
def test_push_sum_and_running_sums_are_the_same_when_every_message_arrives_once_and_in_order(table):
    shares, sums = history("push_sum", table)[0], history("running_sum", table)[0]
    scale = magnitude(sums, steps_taken(table, sums))
    for left, right in zip(shares, sums, strict=True):
        for i in range(N):
            for one, other in zip(held(left[i]), held(right[i]), strict=True):
                agree(one, other, scale)


def test_a_running_sum_that_overtakes_brings_the_mass_of_older_messages_along():
    graph = topology(N, [(0, 1), (1, 2), (2, 3), (3, 0)])
    awake = np.ones((T, N), bool)
    table = rounds(graph, awake, [(0, 1, 0, 5), (0, 1, 1, 2)])
    shares, sums = history("push_sum", table, step_size=0.0)[0], history("running_sum", table, step_size=0.0)[0]
    # Agent 1 halves what it has in rounds 0, 1 and 2, and then takes in 1/4, or 1/2 + 1/4.
    assert [float(nodes[3][1].mass.y) for nodes in (shares, sums)] == [1 / 8 + 1 / 4, 1 / 8 + 3 / 4]
    # In round 5 the older message brings the rest, or nothing.
    assert [float(nodes[6][1].mass.y) for nodes in (shares, sums)] == [3 / 64 + 1 / 2, 7 / 64]


def test_push_sum_loses_a_third_of_the_mass_with_one_message_and_doubles_it_with_another():
    graph = topology(N, [(0, 1), (0, 2), (1, 2), (2, 3), (3, 0)])
    awake = np.zeros((T, N), bool)
    awake[0, 0] = awake[1, 1] = True
    lost = history("push_sum", rounds(graph, awake, [(0, 1, 0, 1)]))[1][1]
    doubled = history("push_sum", rounds(graph, awake, [(0, 1, 0, 1), (0, 2, 0, 1), (0, 1, 0, 1)]))[1]
    sums = history("running_sum", rounds(graph, awake, [(0, 1, 0, 1)]))[1][1]
    assert lost["y_leaked"] == pytest.approx(1 / 3)
    assert (doubled[1]["y_leaked"], doubled[1]["y_under_way"]) == pytest.approx((-1 / 3, 1))
    assert (doubled[2]["y_leaked"], doubled[2]["y_under_way"]) == pytest.approx((-1 / 3 + 1 / 2, 1 / 3))
    assert (sums["y_leaked"], sums["y_recoverable"], sums["y_under_way"]) == pytest.approx((0, 1 / 3, 1 / 3))


def test_gossip_keeps_the_average_when_all_are_awake_and_in_time_and_else_drifts():
    graph = ring(directed=False)(N, np.random.default_rng(0))
    perfect = Links(wake=1.0, loss=0.0, least_delay=0, gamma_d=0)
    for links, kept in ((perfect, True), (perfect._replace(loss=0.3), False), (perfect._replace(gamma_d=2), False)):
        table = draw_rounds(links, graph, T, 1)
        nodes, reports = history("gossip", table)
        steps = steps_taken(table, nodes)
        drift = np.linalg.norm(sum(held(node)[0] for node in nodes[-1]) - (N * START - steps.sum((0, 1))))
        assert (drift < 1e-12) == kept
        assert reports[-1]["x_leaked"] == pytest.approx(drift, abs=1e-12)


@pytest.mark.parametrize("protocol", ["running_sum", "push_sum"])
@given(table=tables())
@settings(max_examples=10, deadline=None)
def test_without_gradients_every_model_stays_at_the_start_even_where_mass_leaks(protocol, table):
    nodes, reports = history(protocol, table, step_size=0.0)
    for agents, said in zip(nodes, reports, strict=True):
        for node in agents:
            agree(held(node)[0] / held(node)[1], START, tolerance=1e-12)
        agree(said["y_with_agents"] + said["y_under_way"] + said["y_recoverable"] + said["y_leaked"], N)


def test_after_one_step_without_more_all_models_tend_to_their_average():
    """theta(0) is ETA and the rest next to nothing; everyone takes that step at the start, when it first wakes."""
    graph = erdos_renyi(probability=0.3)(N, np.random.default_rng(2))
    rule = StepRule("decreasing", 1e-13)
    program = prepared("running_sum")
    program = program._replace(algorithm=program.algorithm._replace(step_size=ETA * 1e-13, step_rule=rule))
    lane = Lane(STILL.clients, draw_rounds(Links(), graph, 200, 3), 0)
    (early,), (late,) = pauses(program, [lane], [5, 200])
    average = START - ETA * np.einsum("nij,nj->ni", MATRICES, START - CENTRES).mean(0)
    assert early.reports["consensus_gap"] > 1e-3
    for i in range(N):
        np.testing.assert_allclose(late.model(i), average, rtol=1e-9)


# --- Laws of engines -------------------------------------------------------------------------------------------------


@pytest.fixture
def compiled_in_a_hurry() -> Iterator[None]:
    """Where many programs run once, for milliseconds, optimizing them is most of the work."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


CELLS = [(objective, protocol, np.float64) for objective in OBJECTIVES for protocol in PROTOCOLS]


@pytest.mark.usefixtures("compiled_in_a_hurry")
@pytest.mark.parametrize(("objective", "protocol", "kind"), [*CELLS, ("moreau", "running_sum", np.float32)])
def test_the_fast_engine_and_the_obvious_one_agree(objective, protocol, kind):
    """Two noisy local steps a waking, with sleep, loss, delay and duplication."""
    problem = a_problem(noise=0.5, kind=kind)
    algorithm = Algorithm(
        protocol, OBJECTIVES[objective], PROTOCOLS[protocol](), 2, ETA, 1, StepRule("decreasing", 2.0)
    )
    graph = erdos_renyi(probability=0.5)(N, np.random.default_rng(4))
    lane = Lane(problem.clients, draw_rounds(ROUGH, graph, 10, 5), 6)
    with jax.enable_x64(kind == np.float64):
        program = prepare_peers(problem, algorithm)._replace(models=lambda state: state.nodes)
        program = program._replace(take_stock=prepared(protocol).take_stock)  # the same for all objectives
        ((fast,),) = simulate_peers(program, [lane], WORKERS, times=[10])
        slow = run_peers_stepwise(problem, algorithm, lane)
    moved = 0.0
    for i, state in enumerate(slow):
        jax.tree.map(lambda a, b: agree(a, b, tolerance=1e-11 if kind == np.float64 else 1e-5), fast.model(i), state)
        assert {leaf.dtype for leaf in jax.tree.leaves(state)} <= {np.dtype(np.float64), np.dtype(np.int32)}
        moved = max(moved, abs(held(state)[0] / held(state)[1] - START).max())
    assert moved > 0.05


def same_bytes(left, right) -> bool:
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


@pytest.mark.usefixtures("compiled_in_a_hurry")
def test_seeds_side_by_side_get_what_they_get_alone_however_often_we_look():
    problems = [a_problem(noise=0.5, seed=seed) for seed in (0, 1)]
    graphs = [erdos_renyi(probability=chance)(N, np.random.default_rng(1)) for chance in (0.9, 0.2)]
    assert graphs[0].links > graphs[1].links, "the second lane is filled up with links that are not there"
    lanes = [Lane(problems[k].clients, draw_rounds(ROUGH, graphs[k], T, k), k) for k in (0, 1)]
    with jax.enable_x64(True):
        program = prepare_peers(problems[0], Algorithm("running_sum", plain(), running_sum(), 1, ETA, 1))

    def ends(lanes: list[Lane], times: list[int]) -> list[tuple[list, Snapshot]]:
        *_, last = pauses(program, lanes, times, nodes=True)
        return [([snapshot.model(i) for i in range(N)], snapshot) for snapshot in last]

    together = ends(lanes, [T])
    assert same_bytes([nodes for nodes, _ in together], [nodes for nodes, _ in ends(lanes, [T])]), "same seed"
    often = ends(lanes, list(range(T + 1)))
    assert same_bytes([nodes for nodes, _ in together], [nodes for nodes, _ in often]), "looking does not disturb"
    assert not same_bytes(together[0][0], ends([lanes[0]._replace(seed=9), lanes[1]], [T])[0][0]), "another seed"
    nodes, snapshot = together[1]
    ((alone, other),) = ends([lanes[1]], [T])
    jax.tree.map(lambda a, b: agree(a, b, tolerance=1e-12), nodes, alone)
    assert snapshot.updates == other.updates == lanes[1].table.awake.sum()
    for name, value in snapshot.reports.items():
        assert other.reports[name] == pytest.approx(value, rel=1e-11, abs=1e-11), name


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
    nodes, _ = history(protocol, table)
    others, _ = history(protocol, moved, clients=STILL.clients._replace(train=permuted(STILL.clients.train)))
    for before, after in zip(nodes, others, strict=True):
        for i in range(N):
            jax.tree.map(lambda a, b: agree(a, b, tolerance=1e-12), before[i], after[place[i]])
