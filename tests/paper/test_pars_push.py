"""PARS-Push, Algorithm 1, line by line in NumPy on the same rounds.

The loop is written from the paper, its errata put right, and shares nothing with the package but the rounds, the data
and the indices of the batches.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect import catalog
from idiolect.contracts import Algorithm, Problem, StepRule
from idiolect.engines.simulator.server_program import training_key
from idiolect.network.round_tables import Rounds
from idiolect.network.topologies import erdos_renyi
from idiolect.network.unreliable_links import Links, draw_rounds
from idiolect.problems.synthetic import linear_regression
from idiolect.protocols.running_sums import running_sum
from tests.paper.library_agents import PAPER, D, N, decreasing, in_64_bits, nodes_after

B, ALPHA = 5, 0.05
HARSH = Links(
    wake=0.4, gamma_w="unbounded", loss=0.6, gamma_f="unbounded", gamma_d="unbounded", extra_delay=3.0, duplication=0.4
)


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

    def bits(key: jax.Array) -> jax.Array:
        (key,) = jax.random.split(key, 1)  # one local step
        keys = jax.random.split(key, 2 * u + 1) if u else key[None]
        used = jnp.append(keys[:u], keys[-1:])  # the inner ones, which the Hessians share, and the outer
        return jax.vmap(lambda key: jax.random.bits(key, (B,), np.uint32))(used)

    def in_round(t: jax.Array) -> jax.Array:
        return jax.vmap(bits)(jax.random.split(jax.random.fold_in(training_key(seed), t), N))

    drawn = np.asarray(jax.jit(jax.vmap(in_round))(np.arange(count)))
    return drawn % given.clients.train.sizes[:N, None, None]


def own_rows(given: Problem) -> list[tuple[np.ndarray, np.ndarray]]:
    train = given.clients.train
    places = [slice(start, start + size) for start, size in zip(train.starts, train.sizes, strict=True)]
    return [(np.asarray(train.rows["a"])[place], np.asarray(train.rows["b"])[place]) for place in places]


BEGIN = np.random.default_rng(8).standard_normal(D)
GIVEN = in_64_bits(linear_regression(clients=N, dimension=D, samples=40, seed=2), BEGIN)
GRAPH = erdos_renyi(probability=0.3)(N, np.random.default_rng(1))
TABLES = [draw_rounds(links, GRAPH, 40, 3) for links in (PAPER, HARSH)]


def pars_push(u: int, step_size: float = 0.15) -> Algorithm:
    options, rule = {"steps": u, "step_size": ALPHA}, StepRule("decreasing", 4.0)
    return catalog.algorithm("pars_push", GIVEN, objective=options, step_size=step_size, batch_size=B, step_rule=rule)


def assert_line_by_line(table: Rounds, u: int, ours: list, step_size: float = 0.15) -> None:
    draws, theta = batches(GIVEN, u, 40, seed=5), decreasing(step_size, 4.0, 40)
    for mine, node in zip(ours, algorithm_1(table, theta, BEGIN, own_rows(GIVEN), draws), strict=True):
        np.testing.assert_allclose(mine.mass.y, node.y, rtol=1e-11)
        np.testing.assert_allclose(running_sum().read(mine), node.x / node.y, rtol=1e-10, atol=1e-11)
        assert np.linalg.norm(node.z - BEGIN) > 0.1, "it moves"


@pytest.mark.parametrize("u", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_algorithm_1_line_by_line(u):
    """Multi-step MAML on linear regression, on the paper's links and on far worse ones, side by side."""
    for table, (ours,) in zip(TABLES, nodes_after(GIVEN, pars_push(u), TABLES, [40], seed=5), strict=True):
        assert_line_by_line(table, u, ours)


def test_algorithm_1_line_by_line_with_several_u_as_one_batch():
    lanes = [(table, u, step_size) for table in TABLES for u, step_size in ((1, 0.15), (3, 0.12))]
    own = [pars_push(u, step_size) for _, u, step_size in lanes]
    found = nodes_after(GIVEN, own[0], [table for table, *_ in lanes], [40], seed=5, own=own)
    for (table, u, step_size), (ours,) in zip(lanes, found, strict=True):
        assert_line_by_line(table, u, ours, step_size)
