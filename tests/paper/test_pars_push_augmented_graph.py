"""PARS-Push's augmented graph, (6)-(8): the algorithm as products of matrices, in NumPy on the same rounds.

Written from the paper, its errata put right; it shares nothing with the package but the rounds and the data.
"""

from typing import NamedTuple

import numpy as np
import pytest

from idiolect import catalog, theory
from idiolect.contracts import StepRule
from idiolect.network.round_tables import Rounds, rounds
from idiolect.network.topologies import Topology, erdos_renyi
from idiolect.network.unreliable_links import draw_rounds
from idiolect.problems.synthetic import quadratics
from idiolect.problems.synthetic.quadratic_clients import curvatures_and_centres
from idiolect.protocols.running_sums import running_sum
from tests.paper.library_agents import PAPER, D, N, decreasing, in_64_bits, nodes_after


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
    rule = StepRule("decreasing", 5.0)
    algorithm = catalog.algorithm(
        "pars_push", given, objective={"steps": 0}, step_size=0.5, batch_size=3, step_rule=rule
    )
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
