"""Agents that start apart, on fixed and on changing graphs, with step sizes of one's own, against NumPy loops.

The loops are written from the papers' lines, and share the table of rounds with the package and nothing else.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import idiolect
from idiolect import StepRule, catalog
from idiolect.engines import Workers
from idiolect.engines.serverless import Lane, prepare_peers, simulate_peers
from idiolect.engines.serverless.stepwise_peers import run_peers_stepwise
from idiolect.errors import UserMistake
from idiolect.network.changing_graphs import changing, one_peer
from idiolect.network.round_tables import Rounds
from idiolect.network.topologies import erdos_renyi
from idiolect.network.unreliable_links import Links, draw_rounds

N, D, ROUNDS = 6, 3, 40
STARTS = np.random.default_rng(0).normal(size=(N, D))
CENTRES = np.random.default_rng(1).normal(size=(N, D))
ROUGH = Links(wake=0.6, gamma_w=3, loss=0.4, gamma_f=2, least_delay=0, gamma_d=2)
SURE = ROUGH._replace(loss=0.0)
FIXED = erdos_renyi(probability=0.4)(N, np.random.default_rng(2))
HALVES = changing(graphs=[[(i, (i + 1) % N) for i in range(N)], [(0, 3), (3, 0), (1, 4)]], hold=2)(N, None)


def points(curvature: float) -> idiolect.Problem:
    """f_i(z) = curvature / 2 ||z - centre_i||^2, with starts apart."""

    def loss(z, batch):
        return 0.5 * curvature * ((z - batch) ** 2).sum(-1).mean()

    with jax.enable_x64(True):
        data = [np.tile(centre, (5, 1)) for centre in CENTRES]
        return idiolect.problem(lambda key: jnp.zeros(D), loss, data, start_models=STARTS)


def by_hand(
    protocol: str,
    table: Rounds,
    theta: np.ndarray,
    curvature: float,
    *,
    summed: bool = True,
    weighted: bool = False,
) -> np.ndarray:
    """z of every agent at the end. `running_sum`: PARS-Push, Alg. 1. `push_sum`: SGP, Alg. 1, on the round's links."""
    graph = table.graph
    there = np.ones((1, graph.links), bool) if graph.present is None else graph.present
    x, y, woke = STARTS.copy(), np.ones(N), np.full(N, -1)
    phi, rho = np.zeros((N, D + 1)), np.zeros((graph.links, D + 1))
    heard, said = np.full(graph.links, -1), {}
    waiting = list(zip(table.link.tolist(), table.sent.tolist(), table.arrives.tolist(), strict=True))
    for t in range(table.length):
        awake = np.flatnonzero(table.awake[t])
        for i in awake:
            eta = theta[woke[i] + 1 : t + 1].sum() if summed else theta[t]
            eta *= y[i] if weighted else 1.0
            x[i] -= eta * curvature * (x[i] / y[i] - CENTRES[i])
            out = graph.sources == i
            degree = (out & there[t % len(there)]).sum() if protocol == "push_sum" else out.sum()
            x[i], y[i], woke[i] = x[i] / (degree + 1), y[i] / (degree + 1), t
            phi[i] += [*x[i], y[i]]
            said[i, t] = np.array([*x[i], y[i]]) if protocol == "push_sum" else phi[i].copy()
        for link, sent, arrives in [m for m in waiting if m[2] <= t and table.awake[t, graph.targets[m[0]]]]:
            waiting.remove((link, sent, arrives))
            source, target, gain = graph.sources[link], graph.targets[link], np.zeros(D + 1)
            if protocol == "push_sum":
                gain = said[source, sent]
            elif sent > heard[link]:
                gain = said[source, sent] - rho[link]
                rho[link], heard[link] = said[source, sent], sent
            x[target] += gain[:-1]
            y[target] += gain[-1]
    return x / y[:, None]


def library(name: str, table: Rounds, rule: StepRule, step_size: float, curvature: float, **options) -> np.ndarray:
    given = points(curvature)
    algorithm = catalog.algorithm(name, given, step_size=step_size, batch_size=1, step_rule=rule, protocol=options)
    with jax.enable_x64(True), Workers(1) as workers:
        program, lane = prepare_peers(given, algorithm), Lane(given.clients, table, 0)
        (begun,), (end,) = simulate_peers(program, [lane], workers, times=[3, table.length])
        slow = run_peers_stepwise(given, algorithm, lane._replace(table=_begun(table, 3)))
        models = [algorithm.protocol.read(agent.state) for agent in slow]
    np.testing.assert_allclose([begun.model(i) for i in range(N)], models, rtol=1e-9, atol=1e-12)
    return np.array([end.model(i) for i in range(N)])


def _begun(table: Rounds, count: int) -> Rounds:
    early = table.sent < count
    return table._replace(
        awake=table.awake[:count], link=table.link[early], sent=table.sent[early], arrives=table.arrives[early]
    )


@pytest.mark.parametrize(
    ("name", "links", "graph", "summed"),
    [
        ("rasgp", ROUGH, FIXED, True),
        ("rasgp", ROUGH, HALVES, True),
        ("sgp", ROUGH, FIXED, True),
        ("sgp", SURE, HALVES, False),
    ],
    ids=["sums", "sums, changing", "shares", "shares, changing, steps not summed"],
)
def test_agents_do_what_a_loop_does(name, links, graph, summed):
    """Three rounds of draws each; theta = 0.3 * 0.9^t is one's own."""
    table = draw_rounds(links, graph, ROUNDS, seed=3)
    theta = 0.3 * 0.9 ** np.arange(ROUNDS)
    options = {} if summed else {"summed_steps": False}
    found = library(name, table, StepRule("own", theta=lambda t: 0.9**t), 0.3, 0.5, **options)
    protocol = "push_sum" if name == "sgp" else "running_sum"
    np.testing.assert_allclose(found, by_hand(protocol, table, theta, 0.5, summed=summed), rtol=1e-8, atol=1e-11)
    other = by_hand(protocol, table, theta, 0.5, summed=not summed)
    assert np.abs(found - other).max() > 1e-3, "whether steps are summed shows"


def test_without_losses_in_the_other_sense_agents_come_to_the_mean_of_where_they_started():
    """Plain consensus: zero losses, messages lost and late; PARS-Push's running sums reach the mean, to rounding."""
    table = draw_rounds(ROUGH, FIXED, 400, seed=4)
    found = library("rasgp", table, StepRule(), 0.1, 0.0)
    np.testing.assert_allclose(found, np.tile(STARTS.mean(0), (N, 1)), atol=1e-9)
    shares = library("sgp", draw_rounds(ROUGH._replace(loss=0.2), FIXED, 60, seed=4), StepRule(), 0.1, 0.0)
    assert np.abs(shares - STARTS.mean(0)).max() > 1e-2, "what push-sum loses shows"


@pytest.mark.parametrize("name", ["rasgp", "sgp"])
def test_on_a_graph_of_one_peer_a_round_agents_come_to_the_mean(name):
    """With a power of two and no delay push-sum is there after log2(n) rounds, exactly (SGP, Appendix)."""
    graph = one_peer()(N, np.random.default_rng(0))
    assert graph.present.sum(1).tolist() == [N] * 3, "everyone sends to one other"
    table = draw_rounds(SURE._replace(wake=1.0, gamma_d=0), graph, 300, seed=5)
    np.testing.assert_allclose(library(name, table, StepRule(), 0.1, 0.0), np.tile(STARTS.mean(0), (N, 1)), atol=1e-9)


def test_the_inverse_rule_is_proposition_1_s_with_nothing_in_round_0():
    from idiolect.engines.serverless.layout import step_sizes

    algorithm = catalog.algorithm("rasgp", points(1.0), step_size=2.0, step_rule=StepRule("inverse"))
    assert step_sizes(algorithm, N, 5).tolist() == [0.0, 2.0, 1.0, 2 / 3, 0.5]


def test_mistakes_are_told():
    with pytest.raises(UserMistake, match="fedavg has a server, which starts with one model"):
        catalog.algorithm("fedavg", points(1.0))
    table = draw_rounds(SURE, FIXED, 4, seed=0)
    with pytest.raises(UserMistake, match="theta gives nan for round 2"):
        library("rasgp", table, StepRule("own", theta=lambda t: float("nan") if t == 2 else 1.0), 0.1, 1.0)
    with pytest.raises(UserMistake, match="has no theta"):
        library("rasgp", table, StepRule("own"), 0.1, 1.0)
    given = points(1.0)
    wrong = given._replace(clients=given.clients._replace(start_models=STARTS[:, :2]))
    with pytest.raises(UserMistake, match=r"start_models has shapes \(6, 2\), but must have \(6, 3\)"):
        idiolect.learn(wrong, "rasgp", horizon=4, links=SURE)
    with pytest.raises(UserMistake, match=r"graphs\[1\] has the link \[0, 1\] twice"):
        changing(graphs=[[(0, 1), (1, 0)], [(0, 1), (0, 1)]])(2, None)
    with pytest.raises(UserMistake, match="not strongly connected"):
        changing(graphs=[[(0, 1)], [(1, 2)]])(3, None)


def test_push_sum_diverges_because_leaked_weight_inflates_its_steps():
    """The same rounds, the same losses of messages: with every step times y, what is lost does no such harm."""
    table, theta = draw_rounds(ROUGH._replace(loss=0.5), FIXED, 200, seed=6), np.full(200, 0.2)
    with np.errstate(all="ignore"):
        as_it_is = by_hand("push_sum", table, theta, 1.0)
        scaled = by_hand("push_sum", table, theta, 1.0, weighted=True)
    assert not np.abs(as_it_is).max() < 1e6
    assert np.abs(scaled).max() < 2 * np.abs(CENTRES).max()
