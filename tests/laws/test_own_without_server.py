"""Laws of objectives that keep something on the client, where there is no server.

What agents keep never travels: both engines move it alike, mass is shared out as ever, and a checkpoint holds it.
"""

import functools

import jax
import numpy as np
import pytest

from idiolect import catalog
from idiolect.contracts import StepRule
from idiolect.engines import prepare
from idiolect.engines.serverless import Lane, PeerProgram
from idiolect.engines.serverless.stepwise_peers import run_peers_stepwise
from idiolect.engines.simulator.stepwise_server import run_stepwise
from idiolect.errors import UserMistake
from idiolect.network.round_tables import Rounds, rounds
from idiolect.network.timelines import timeline
from idiolect.network.topologies import Topology, erdos_renyi
from idiolect.network.unreliable_links import draw_rounds
from idiolect.problems.synthetic import quadratics
from idiolect.problems.synthetic.quadratic_clients import curvatures_and_centres
from idiolect.testing import peer_laws
from idiolect.testing.peer_runs import BOUNDED, ONCE, ROUGH, a_lane, pauses, peer_program
from idiolect.testing.small_clients import noisy_quadratics
from tests.laws.quadratic_peers import ETA, ONE_WORKER
from tests.paper import test_qupel as qupel
from tests.paper.library_agents import in_64_bits

OBJECTIVES = ("quantized", "binary_relax", "post_training")
OPTIONS = {"keep": [], "lambda_p": 0.5, "step_size": 0.05}  # a vector has no first or last layer to keep
QUICK = [("quantized", "running_sum"), ("binary_relax", "push_sum")]


def quick_then_slow(peers):
    cells = [(objective, peer) for objective in OBJECTIVES for peer in peers]
    return [cell if cell in QUICK else pytest.param(*cell, marks=pytest.mark.slow) for cell in cells]


CELLS = quick_then_slow(catalog.PEERS)
WITH_MASS = quick_then_slow(["running_sum", "push_sum"])  # copies have no mass to conserve
PROBLEM = noisy_quadratics(noise=0.5)


@functools.cache
def prepared(objective: str, peer: str) -> PeerProgram:
    """A cell of the table without a server, compiled once for all the tests of this file."""
    options = {"objective": OPTIONS, "local_steps": 2, "step_size": ETA, "batch_size": 1}
    rule = StepRule("decreasing", 2.0)
    return peer_program(PROBLEM, catalog.algorithm(f"{objective}+{peer}", PROBLEM, step_rule=rule, **options))


def lanes(peer: str) -> list[Lane]:
    """Where everything goes wrong, and where what goes wrong is no loss of mass under this protocol."""
    return [a_lane(PROBLEM), a_lane(PROBLEM, ROUGH if peer == "running_sum" else ONCE, draw=6)]


@pytest.mark.parametrize(("objective", "peer"), CELLS)
def test_the_fast_engine_and_the_obvious_one_agree_in_what_agents_keep(objective, peer):
    agents = peer_laws.engines_agree(PROBLEM, prepared(objective, peer), lanes(peer), ONE_WORKER)
    with jax.enable_x64(True):
        start = PROBLEM.init(jax.random.key(0))
    assert max(int(agent.own.steps) for agent in agents) > 10
    assert len({int(agent.own.steps) for agent in agents}) > 1, "who sleeps keeps what it has"
    assert min(np.abs(np.asarray(agent.own.weights) - np.asarray(start)).max() for agent in agents) > 0.05


@pytest.mark.parametrize(("objective", "peer"), WITH_MASS)
def test_what_agents_keep_is_no_mass(objective, peer):
    first = 0 if peer == "running_sum" else 1
    peer_laws.mass_is_conserved(prepared(objective, peer), lanes(peer), ONE_WORKER, first=first)


@pytest.mark.parametrize(("objective", "peer"), CELLS)
def test_a_checkpoint_holds_what_agents_keep_and_nothing_but_the_seed_matters(objective, peer):
    peer_laws.runs_are_reproducible(prepared(objective, peer), lanes(peer), ONE_WORKER)


def test_in_32_bits_agents_keep_what_they_would_with_a_server():
    """Agents add up in 64 bits; what their objectives keep stays in 32, on both engines."""
    problem = noisy_quadratics(noise=0.5, kind=np.float32)
    settings = {"local_steps": 2, "step_size": ETA, "batch_size": 1}
    algorithm = catalog.algorithm("post_training+running_sum", problem, objective=OPTIONS, **settings)
    program = peer_program(problem, algorithm)
    lane = [a_lane(problem)]
    agents = peer_laws.engines_agree(problem, program, lane, ONE_WORKER, tolerance=1e-5, wide=False)
    begun = algorithm.objective.begin(problem.init(jax.random.key(0)), 0, jax.random.key(0))
    kinds = [leaf.dtype for leaf in jax.tree.leaves(begun)]
    assert np.dtype(np.float64) not in kinds
    for agent in agents:
        assert [leaf.dtype for leaf in jax.tree.leaves(agent.own)] == kinds


@pytest.mark.parametrize("peer", catalog.PEERS)
def test_agents_of_different_widths_are_refused_in_one_sentence(peer):
    name = f"quantized+{peer}"
    algorithm = catalog.algorithm(name, PROBLEM, objective=OPTIONS | {"bits": [1, 2, 1, 32]}, batch_size=1)
    with pytest.raises(UserMistake) as mistake:
        list(pauses(peer_program(PROBLEM, algorithm), [a_lane(PROBLEM)], [1], ONE_WORKER))
    said = str(mistake.value)
    assert said.startswith(f"{name} keeps (2,) as 'levels")
    assert " on one client and (4,) on another, but without a server all agents run as one batch" in said
    assert said.endswith("give all the same shapes, and where models are quantized the same objective.bits")
    assert "\n" not in said
    assert ". " not in said


# --- QuPeL's Algorithm 2, lines 3 to 9, where w_i = z_i of running sums ----------------------------------------------


CLOSE = 1e-7  # everything is in 64 bits but the rates of QuPeL, which are in 32


def pushed(table: Rounds, gradients: list, theta: float) -> tuple[np.ndarray, list[qupel.Client]]:
    """Every agent's z = x / y at the end, and its x_i and c_i: QuPeL's client between the lines of PARS-Push."""
    graph, agents = table.graph, table.graph.agents
    clients = [qupel.Client(gradient) for gradient in gradients]
    x, y, woke = np.tile(qupel.START, (agents, 1)), np.ones(agents), np.full(agents, -1)
    sent = [[(np.zeros(qupel.D), 0.0)] for _ in range(agents)]  # phi, after each waking
    said = np.zeros((table.length, agents), int)  # how many wakings there had been by each round, that one included
    heard = np.zeros(graph.links, int)
    taken = np.zeros(len(table.link), bool)
    for t in range(table.length):
        awake = np.flatnonzero(table.awake[t])
        for i in awake:
            eta, z = theta * (t - woke[i]), x[i] / y[i]
            w, woke[i] = z, t
            for _ in range(qupel.Q):  # Alg. 2, l. 3
                clients[i].iterate(w)  # l. 4-7
                w = w - eta * qupel.LAMBDA_P * (w - clients[i].x)  # l. 8
            x[i], y[i] = (x[i] - (z - w)) / (graph.out_degrees[i] + 1), y[i] / (graph.out_degrees[i] + 1)
            sent[i].append((sent[i][-1][0] + x[i], sent[i][-1][1] + y[i]))
        said[t] = [len(sums) - 1 for sums in sent]
        for entry in np.flatnonzero(~taken & (table.arrives <= t) & table.awake[t, graph.targets[table.link]]):
            taken[entry] = True
            link = table.link[entry]
            j, i, news = graph.sources[link], graph.targets[link], said[table.sent[entry], graph.sources[link]]
            if news > heard[link]:
                (new_x, new_y), (old_x, old_y) = sent[j][news], sent[j][heard[link]]
                x[i], y[i], heard[link] = x[i] + new_x - old_x, y[i] + new_y - old_y, news
    return x / y[:, None], clients


def given_quadratics(agents: int):
    problem = in_64_bits(quadratics(clients=agents, dimension=qupel.D, seed=11), qupel.START)
    matrices, centres = curvatures_and_centres(problem.clients)
    return problem, [lambda x, a=a, m=m: a @ (x - m) for a, m in zip(matrices, centres, strict=True)]


def qupel_push(name, problem):
    settings = {"local_steps": qupel.Q, "step_size": qupel.ETA3, "batch_size": 3}
    return catalog.algorithm(name, problem, objective=qupel.OPTIONS, **settings)


def test_qupel_push_is_algorithm_2_between_the_lines_of_running_sums():
    problem, gradients = given_quadratics(qupel.N)
    graph = erdos_renyi(probability=0.5)(qupel.N, np.random.default_rng(3))
    table = draw_rounds(BOUNDED, graph, 12, 8)
    program = peer_program(problem, qupel_push("qupel_push", problem))
    ((end,),) = pauses(program, [Lane(problem.clients, table, 0)], [12], ONE_WORKER)
    models, clients = pushed(table, gradients, qupel.ETA3)
    for i, client in enumerate(clients):
        np.testing.assert_allclose(end.model(i), models[i], rtol=CLOSE, atol=CLOSE)
        np.testing.assert_allclose(end.own(i).weights, client.x, rtol=CLOSE, atol=CLOSE)
        np.testing.assert_allclose(next(iter(end.own(i).levels.values())), client.c, rtol=CLOSE, atol=CLOSE)
        assert np.abs(models[i] - qupel.START).max() > 0.1, "it moves"


def test_an_agent_without_anybody_is_a_client_of_an_asynchronous_server():
    """One client, beta = 1, and as many turns as wakings: w is z, and the client keeps the same."""
    turns, start = 6, qupel.START.astype(np.float32)
    problem = quadratics(clients=1, dimension=qupel.D, seed=11)._replace(init=lambda key: start)
    push = qupel_push("qupel_push", problem)
    nobody = Topology(1, np.zeros(0, np.int32), np.zeros(0, np.int32))
    wakings = rounds(nobody, np.ones((turns, 1), bool), [])
    (agent,) = run_peers_stepwise(problem, push, Lane(problem.clients, wakings, 0))
    table = timeline(np.zeros(turns, int), np.arange(turns) * 1.0, np.arange(turns) + 0.5)
    program = prepare(problem, qupel_push("qupel_async", problem))
    params, personal = run_stepwise(program, problem.clients, table, seed=0)
    mass = agent.state.mass
    np.testing.assert_allclose(mass.x / mass.y, params, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), agent.own, personal[0])
    assert int(agent.own.steps) == turns * qupel.Q
