"""PARS-Push, Algorithm 1 and its linear form (6)-(8), against NumPy loops on the same rounds.

The loops are written from the paper, its errata put right, and share nothing with the package but the rounds, the data
and the indices of the batches. Everything runs in 64 bits, so the two must agree to rounding.
"""

import functools
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect import theory
from idiolect.contracts import Algorithm, Problem, StepRule
from idiolect.engines import Workers
from idiolect.engines.program import training_key
from idiolect.engines.serverless import Lane, PeerProgram, prepare_peers, simulate_peers
from idiolect.engines.snapshot import Snapshot
from idiolect.network.rounds import Rounds, rounds
from idiolect.network.topology import Topology, erdos_renyi, topology
from idiolect.network.unreliable import Links, draw_rounds
from idiolect.objectives import maml, plain
from idiolect.problems import linear_regression, problem, quadratics
from idiolect.problems.quadratics import curvatures_and_centres
from idiolect.protocols.running_sum import running_sum

WORKERS = Workers(2)
N, D, B, ALPHA = 6, 4, 5, 0.05
PAPER = Links(gamma_w=2, gamma_d=2, gamma_f=1)
HARSH = Links(
    wake=0.4, gamma_w="unbounded", loss=0.6, gamma_f="unbounded", gamma_d="unbounded", extra_delay=3.0, duplication=0.4
)


def in_64_bits(given: Problem, start: np.ndarray) -> Problem:
    """The problem with its rows and its parameters in 64 bits, and this start."""
    train = given.clients.train
    with jax.enable_x64(True):
        rows = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float64), train.rows)
    clients = given.clients._replace(train=train._replace(rows=rows))
    return given._replace(init=lambda key: jnp.asarray(start), clients=clients)


def nodes_after(
    given: Problem, algorithm: Algorithm, tables: list[Rounds], times: list[int], seed: int = 0
) -> list[list[list]]:
    """What the library's agents keep after some numbers of rounds, by table, time and agent."""
    with jax.enable_x64(True):
        program = prepare_peers(given, algorithm)._replace(models=lambda state: state.nodes)
        lanes = [Lane(given.clients, table, seed) for table in tables]
        pauses = list(simulate_peers(program, lanes, WORKERS, times=times))
    return [[[pause[k].model(i) for i in range(N)] for pause in pauses] for k in range(len(tables))]


def decreasing(scale: float, offset: float, count: int) -> np.ndarray:
    return np.array([scale / (t + offset) for t in range(count)])


# --- Algorithm 1, line by line ---------------------------------------------------------------------------------------


class Node:
    """What node i keeps (l. 1), with kappa_ij and rho_ij for its in-neighbours j."""

    def __init__(self, start: np.ndarray, in_neighbours: list[int], out_neighbours: list[int]):
        self.x, self.y, self.z, self.kappa = start, 1.0, start, -1
        self.phi_x, self.phi_y = np.zeros(len(start)), 0.0
        self.kappa_in = dict.fromkeys(in_neighbours, -1)
        self.rho_x = {j: np.zeros(len(start)) for j in in_neighbours}
        self.rho_y = dict.fromkeys(in_neighbours, 0.0)
        self.out_neighbours = out_neighbours
        self.mailbox: list[tuple[int, int, np.ndarray, float, int]] = []  # arrives, j, phi_x, phi_y, kappa_j


def algorithm_1(table: Rounds, theta: np.ndarray, start: np.ndarray, data: list, draws: np.ndarray) -> list[Node]:
    """`data[i]` is (a, b) of node i, and draws[t, i, r] the rows of its batch r of the u + 1 in round t."""
    pairs = list(zip(table.graph.sources.tolist(), table.graph.targets.tolist(), strict=True))
    nodes = [Node(start, [j for j, k in pairs if k == i], [k for j, k in pairs if j == i]) for i in range(N)]
    arrivals: dict[tuple[int, int, int], list[int]] = {}
    for link, sent, arrives in zip(table.link.tolist(), table.sent.tolist(), table.arrives.tolist(), strict=True):
        arrivals.setdefault((*pairs[link], sent), []).append(arrives)

    def gradient(i: int, w: np.ndarray, rows: np.ndarray) -> np.ndarray:  # of (10)
        a, b = data[i][0][rows], data[i][1][rows]
        return 2 * a.T @ (a @ w - b) / len(b) + w / N

    def hessian(i: int, rows: np.ndarray) -> np.ndarray:
        a = data[i][0][rows]
        return 2 * a.T @ a / len(a) + np.eye(D) / N

    u = draws.shape[2] - 1
    for t in range(table.length):
        awake = [i for i in range(N) if table.awake[t, i]]  # l. 3
        for i in awake:
            node = nodes[i]
            eta = sum(theta[node.kappa + 1 : t + 1])  # l. 4
            w = [node.z]  # l. 5
            for r in range(u):  # l. 6-9
                w.append(w[r] - ALPHA * gradient(i, w[r], draws[t, i, r]))
            direction = gradient(i, w[u], draws[t, i, u])  # l. 10
            for r in range(u - 1, -1, -1):  # l. 11: the chain rule, the last step's factor first
                direction = (np.eye(D) - ALPHA * hessian(i, draws[t, i, r])) @ direction
            node.x = node.x - eta * direction
            node.kappa = t  # l. 12
            degree = len(node.out_neighbours)
            node.x, node.y = node.x / (degree + 1), node.y / (degree + 1)  # l. 13
            node.phi_x, node.phi_y = node.phi_x + node.x, node.phi_y + node.y  # l. 14
            for k in node.out_neighbours:  # l. 15
                for arrives in arrivals.get((i, k, t), []):
                    nodes[k].mailbox.append((arrives, i, node.phi_x, node.phi_y, node.kappa))
        for i in awake:
            node = nodes[i]
            received = [letter for letter in node.mailbox if letter[0] <= t]  # l. 16
            node.mailbox = [letter for letter in node.mailbox if letter[0] > t]
            new_x, new_y = dict(node.rho_x), dict(node.rho_y)
            for _, j, phi_x, phi_y, kappa in received:  # l. 17
                if kappa > node.kappa_in[j]:  # l. 18
                    new_x[j], new_y[j], node.kappa_in[j] = phi_x, phi_y, kappa  # l. 19
            for j in node.kappa_in:  # l. 22-23
                node.x = node.x + new_x[j] - node.rho_x[j]
                node.y = node.y + new_y[j] - node.rho_y[j]
            node.rho_x, node.rho_y, node.z = new_x, new_y, node.x / node.y  # l. 24
    return nodes


def batches(given: Problem, u: int, count: int, seed: int) -> np.ndarray:
    """The rows of every batch that the library draws, as rounds x agents x (u + 1) x B, from a client's first."""
    found = np.zeros((count, N, u + 1, B), int)
    for t in range(count):
        agents = jax.random.split(jax.random.fold_in(training_key(seed), t), N)
        for i in range(N):
            (key,) = jax.random.split(agents[i], 1)  # one local step
            keys = jax.random.split(key, 2 * u + 1) if u else [key]
            for r, key in enumerate([*keys[:u], keys[-1]]):  # the inner ones, which the Hessians share, and the outer
                found[t, i, r] = np.asarray(jax.random.bits(key, (B,), np.uint32)) % given.clients.train.sizes[i]
    return found


def own_rows(given: Problem) -> list[tuple[np.ndarray, np.ndarray]]:
    train = given.clients.train
    places = [slice(start, start + size) for start, size in zip(train.starts, train.sizes, strict=True)]
    return [(np.asarray(train.rows["a"])[place], np.asarray(train.rows["b"])[place]) for place in places]


@pytest.fixture
def compiled_in_a_hurry() -> Iterator[None]:
    """Programs that run once, for milliseconds, are not worth optimizing."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.mark.usefixtures("compiled_in_a_hurry")
@pytest.mark.parametrize("u", [0, 1, 3])
def test_algorithm_1_line_by_line(u):
    """Multi-step MAML on linear regression, on the paper's links and on far worse ones, side by side."""
    start = np.random.default_rng(8).standard_normal(D)
    given = in_64_bits(linear_regression(clients=N, dimension=D, samples=40, seed=2), start)
    graph = erdos_renyi(probability=0.3)(N, np.random.default_rng(1))
    tables = [draw_rounds(links, graph, 40, 3) for links in (PAPER, HARSH)]
    objective = maml(steps=u, step_size=ALPHA, batches="shared")
    algorithm = Algorithm("pars_push", objective, running_sum(), 1, 0.15, B, StepRule("decreasing", 4.0))
    found = nodes_after(given, algorithm, tables, [40], seed=5)
    draws, theta = batches(given, u, 40, seed=5), decreasing(0.15, 4.0, 40)
    for table, (ours,) in zip(tables, found, strict=True):
        theirs = algorithm_1(table, theta, start, own_rows(given), draws)
        for mine, node in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(mine.mass.y, node.y, rtol=1e-11)
            np.testing.assert_allclose(running_sum().read(mine), node.x / node.y, rtol=1e-10, atol=1e-11)
            assert np.linalg.norm(node.z - start) > 0.1, "it moves"


# --- The augmented graph (6)-(8) -------------------------------------------------------------------------------------


class Nodes(NamedTuple):
    """Where the n agents and, for each of the m links, x-tilde and x-hat^1 … x-hat^Gamma_e stand in X(t)."""

    agents: int
    links: int
    gamma_e: int

    @property
    def total(self) -> int:
        return self.agents + (self.gamma_e + 1) * self.links

    def tilde(self, link: int) -> int:
        return self.agents + link

    def hat(self, link: int, l: int) -> int:  # noqa: E741 (the paper's letter)
        return self.agents + l * self.links + link


def effective_delays(table: Rounds) -> dict[tuple[int, int], int]:
    """tau: for (link, round sent) in how many rounds the first copy of the message is taken in."""
    found: dict[tuple[int, int], int] = {}
    for link, sent, arrives in zip(table.link.tolist(), table.sent.tolist(), table.arrives.tolist(), strict=True):
        t = arrives
        while t < table.length and not table.awake[t, table.graph.targets[link]]:
            t += 1
        found[link, sent] = min(t - sent, found.get((link, sent), t - sent))
    return found


def mixing(table: Rounds, t: int, delays: dict[tuple[int, int], int], where: Nodes) -> np.ndarray:
    """M(t) of (7), each column saying where the mass of a node goes; (6) with its errata put right.

    x-hat is a shift register, x-hat^{l+1}(t) -> x-hat^l(t + 1), and what leaves a sender is x_j(t + 1/2) / (d_j^+ + 1).
    The print has no term for a message that overtakes older ones. It carries all that they carry, so their mass goes on
    with it: x-hat^{k+1}(t) -> x-hat^l(t + 1) for k > l.
    """
    graph, matrix = table.graph, np.zeros((where.total, where.total))
    for i in range(graph.agents):
        matrix[i, i] = 1 / (graph.out_degrees[i] + 1) if table.awake[t, i] else 1
    for link, (j, i) in enumerate(zip(graph.sources, graph.targets, strict=True)):
        l = delays.get((link, t))  # noqa: E741
        lost_or_sent = where.tilde(link) if l is None else where.hat(link, l)
        matrix[lost_or_sent, where.tilde(link)] = 1
        if table.awake[t, j]:
            matrix[lost_or_sent, j] = 1 / (graph.out_degrees[j] + 1)
        matrix[i, where.hat(link, 1)] = 1
        for k in range(1, where.gamma_e):
            matrix[where.hat(link, k if l is None else min(k, l)), where.hat(link, k + 1)] = 1
    return matrix


def overtaking(table: Rounds) -> int:
    """How many messages are taken in after one that was sent later over the same link."""
    delays = effective_delays(table)
    return sum(
        any(link == k and s > sent and s + d < sent + delay for (k, s), d in delays.items())
        for (link, sent), delay in delays.items()
    )


def in_order(graph: Topology, count: int) -> Rounds:
    """Rounds with loss, sleep and a delay that differs from link to link but not in time: nothing is overtaken."""
    table = draw_rounds(PAPER, graph, count, 11)
    messages = zip(graph.sources[table.link], graph.targets[table.link], table.sent, 1 + table.link % 2, strict=True)
    return rounds(graph, table.awake, [(i, j, sent, sent + delay) for i, j, sent, delay in messages])


def test_the_augmented_graph_is_the_algorithm():
    """(6)-(8) as printed (but for the errata) where messages stay in order, and extended where they overtake."""
    start = np.random.default_rng(3).standard_normal(D)
    given = in_64_bits(quadratics(clients=N, dimension=D, seed=4), start)
    graph, times = erdos_renyi(probability=0.3)(N, np.random.default_rng(6)), [0, 1, 2, 3, 7, 20, 50]
    tables = [in_order(graph, 50), draw_rounds(PAPER._replace(gamma_d=4, duplication=0.3), graph, 50, 12)]
    assert overtaking(tables[0]) == 0
    assert overtaking(tables[1]) > 10
    algorithm = Algorithm("pars_push", plain(), running_sum(), 1, 0.5, 3, StepRule("decreasing", 5.0))
    found, theta = nodes_after(given, algorithm, tables, times), decreasing(0.5, 5.0, 50)
    matrices, centres = curvatures_and_centres(given.clients)
    where = Nodes(N, graph.links, theory.effective_delay(gamma_w=2, gamma_d=4))
    for table, library in zip(tables, found, strict=True):
        delays = effective_delays(table)
        x, y, kappa = np.zeros((where.total, D)), np.zeros(where.total), np.full(N, -1)
        x[:N], y[:N] = start, 1
        for t in range(table.length + 1):
            if t in times:
                ours = library[times.index(t)]
                np.testing.assert_allclose([node.mass.x for node in ours], x[:N], rtol=1e-10, atol=1e-11)
                np.testing.assert_allclose([node.mass.y for node in ours], y[:N], rtol=1e-11)
                z = [running_sum().read(node) for node in ours]
                np.testing.assert_allclose(z, x[:N] / y[:N, None], rtol=1e-10, atol=1e-11)
            if t == table.length:
                break
            step = np.zeros_like(x)  # (8)
            for i in np.flatnonzero(table.awake[t]):
                step[i] = sum(theta[kappa[i] + 1 : t + 1]) * matrices[i] @ (x[i] / y[i] - centres[i])
                kappa[i] = t
            mix = mixing(table, t, delays, where)
            assert (mix >= 0).all()
            np.testing.assert_allclose(mix.sum(0), 1, rtol=1e-15)
            x, y = mix @ (x - step), mix @ y  # (7)
        assert y.sum() == pytest.approx(N, rel=1e-13)
        assert y[N:].sum() > 0.1, "mass is under way and lost"


# --- By hand ---------------------------------------------------------------------------------------------------------


PAIR, FIVE = topology(2, [(0, 1), (1, 0)]), [1, 2, 3, 4, 5]


def two_points(start: float, centres: tuple[float, float]) -> Problem:
    """Two agents on a line, f_i(z) = 1/2 (z - centre_i)^2."""

    def loss(z, batch):
        return 0.5 * ((z - batch) ** 2).mean()

    with jax.enable_x64(True):
        return problem(lambda key: jnp.asarray(start), loss, [np.full(5, centre) for centre in centres])


@functools.cache
def prepared() -> PeerProgram:
    with jax.enable_x64(True):
        return prepare_peers(two_points(0.0, (0.0, 0.0)), Algorithm("pars_push", plain(), running_sum(), 1, 0.0, 1))


def five_rounds(given: Problem, table: Rounds, step_size: float, rule: StepRule) -> list[Snapshot]:
    """Snapshots after each of five rounds; `model` gives all that an agent keeps.

    They run beside a lane with the oldest possible message, so that all tables have the shapes of one program.
    """
    algorithm = prepared().algorithm._replace(step_size=step_size, step_rule=rule)
    program = prepared()._replace(init=given.init, algorithm=algorithm, models=lambda state: state.nodes)
    oldest = rounds(PAIR, np.ones((5, 2), bool), [(0, 1, 0, 4)])
    with jax.enable_x64(True):
        lanes = [Lane(given.clients, table, 0), Lane(given.clients, oldest, 0)]
        return [both[0] for both in simulate_peers(program, lanes, WORKERS, times=FIVE)]


def test_three_rounds_of_two_agents_computed_on_paper():
    """Centres 4 and -8, theta = 1/2, start 0. Agent 1 sleeps in round 1.

    From 0 to 1: the message of round 0 is lost, that of round 1 arrives in round 2, that of round 2 is lost.
    From 1 to 0: the message of round 0 arrives in round 2, that of round 2 in round 3.

    Round 0: x_0 = 0 + 1/2 * 4 = 2, halved 1; x_1 = 0 - 1/2 * 8 = -4, halved -2; both y = 1/2.
             phi_0 = (1, 1/2), phi_1 = (-2, 1/2).
    Round 1: z_0 = 2, x_0 = 1 + 1/2 * 2 = 2, halved 1; y_0 = 1/4. phi_0 = (2, 3/4).
    Round 2: z_0 = 4, x_0 = 1 + 0, halved 1/2; y_0 = 1/8. phi_0 = (5/2, 7/8).
             z_1 = -4, eta_1 = 1/2 + 1/2, x_1 = -2 - 1 * 4 = -6, halved -3; y_1 = 1/4. phi_1 = (-5, 3/4).
             Agent 0 takes in (-2, 1/2) and agent 1 (2, 3/4), which makes good the loss of round 0.
             Under way are phi_1 - rho_01 = (-3, 1/4); lost, to be made good, phi_0 - rho_10 = (1/2, 1/8).
    """
    awake = [[1, 1], [1, 0], [1, 1], [0, 0], [0, 0]]
    table = rounds(PAIR, awake, [(0, 1, 1, 2), (1, 0, 0, 2), (1, 0, 2, 3)])
    pauses = five_rounds(two_points(0.0, (4.0, -8.0)), table, 0.5, StepRule())[:3]
    expected = [  # x, y, phi_x, phi_y of both agents after each round
        ["1 1/2 1 1/2", "-2 1/2 -2 1/2"],
        ["1 1/4 2 3/4", "-2 1/2 -2 1/2"],
        ["-3/2 5/8 5/2 7/8", "-1 1 -5 3/4"],
    ]
    for pause, agents in zip(pauses, expected, strict=True):
        for i, written in enumerate(agents):
            node, numbers = pause.model(i), [Fraction(number) for number in written.split()]
            assert [Fraction(float(value)) for value in (*node.mass, *node.sent)] == numbers
            assert running_sum().read(node) == pytest.approx(float(numbers[0] / numbers[1]), rel=1e-15)
    said = pauses[-1].reports
    assert (said["x_under_way"], said["y_under_way"]) == (3, 1 / 4)
    assert (said["x_recoverable"], said["y_recoverable"]) == (1 / 2, 1 / 8)
    assert (said["x_leaked"], said["y_leaked"]) == (0, 0)


def test_the_step_sizes_of_skipped_rounds_add_up():
    """Alg. 1, l. 4: agent 1 sleeps for three rounds, so it first steps with theta(0) + … + theta(3), then theta(4)."""
    table = rounds(PAIR, [[1, 0], [1, 0], [0, 0], [1, 1], [0, 1]], [])
    pauses = five_rounds(two_points(1.0, (0.0, 3.0)), table, 0.25, StepRule("decreasing", 2.0))[2:]
    theta = [0.25 / (t + 2) for t in range(5)]
    x, y = (1.0 - sum(theta[:4]) * (1.0 - 3.0)) / 2, 1 / 2
    assert pauses[1].model(1).mass.x == pytest.approx(x, rel=1e-14)
    assert pauses[2].model(1).mass.x == pytest.approx((x - theta[4] * (x / y - 3.0)) / 2, rel=1e-14)
    before, after = (pause.model(0) for pause in pauses[:2])
    z = float(before.mass.x / before.mass.y)
    assert after.mass.x == pytest.approx((before.mass.x - (theta[2] + theta[3]) * z) / 2, rel=1e-14)


def test_an_agent_that_sleeps_stays_as_it_is_whatever_arrives():
    awake = [[1, 1], [1, 0], [1, 0], [1, 0], [1, 1]]
    table = rounds(PAIR, awake, [(0, 1, t, t + 1) for t in range(4)])
    pauses = five_rounds(two_points(1.0, (0.0, 3.0)), table, 0.25, StepRule())
    asleep = [jax.tree.map(lambda leaf: leaf.tobytes(), pause.model(1)) for pause in pauses]
    assert asleep[0] == asleep[1] == asleep[2] == asleep[3]
    y = [float(pause.model(1).mass.y) for pause in pauses]
    assert y == [1 / 2, 1 / 2, 1 / 2, 1 / 2, 1 / 4 + 1 / 2 + 1 / 4 + 1 / 8 + 1 / 16], "then all at once"
