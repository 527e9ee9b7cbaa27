"""Momentum and Adam on clients against NumPy loops, with a server and without, with private parts and without."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect import Algorithm, LocalOptimizer, catalog, objectives, protocols
from idiolect.engines import Workers
from idiolect.errors import UserMistake
from idiolect.network.timelines import ARRIVAL, OFFER, events
from idiolect.sharing import keep_private
from idiolect.testing import peer_laws
from idiolect.testing import protocol_laws as laws
from idiolect.testing.peer_runs import a_lane, peer_program
from idiolect.testing.server_runs import server_cell
from idiolect.testing.small_clients import noisy_quadratics
from tests.laws.quadratic_peers import ONE_WORKER
from tests.paper.test_against_numpy import DIRECTIONS, ETA, WITHOUT_ROUNDS, D, N, Q, gradients, ours, problem  # noqa: F401
from tests.sharing.test_private_parts import LOCAL, STEP, A, B, exact, loss

BETA1, BETA2, EPSILON = 0.8, 0.9, 1e-2


class Rule:
    """Momentum, or Kingma & Ba's Algorithm 1, for one vector."""

    def __init__(self, name):
        self.name, self.m, self.v, self.t = name, 0.0, 0.0, 0

    def direct(self, g):
        if self.name == "momentum":
            self.m = BETA1 * self.m + g
            return self.m
        self.t += 1
        self.m = BETA1 * self.m + (1 - BETA1) * g
        self.v = BETA2 * self.v + (1 - BETA2) * g**2
        return self.m / (1 - BETA1**self.t) / (np.sqrt(self.v / (1 - BETA2**self.t)) + EPSILON)


def told(name, keep):
    return LocalOptimizer(name, BETA1, BETA2, EPSILON, keep)


@pytest.mark.parametrize(
    ("objective", "name", "keep"),
    [
        ("plain", "momentum", False),
        ("plain", "adam", True),
        ("proximal", "adam", False),
        ("maml", "momentum", True),
        ("moreau", "momentum", True),
    ],
)
def test_without_rounds(problem, gradients, objective, name, keep):  # noqa: F811
    options, direction = DIRECTIONS[objective]
    found, table = ours(problem, WITHOUT_ROUNDS[objective], objective=options, optimizer=told(name, keep))
    w, downloaded, rules = np.zeros(D), {}, [Rule(name) for _ in range(N)]
    for event in events(table):
        client = table.client[event.turn]
        if event.kind == OFFER:
            downloaded[event.turn] = w
        elif event.kind == ARRIVAL:
            along = direction(gradients[0][client], gradients[1][client])
            rules[client] = rules[client] if keep else Rule(name)
            start = reached = downloaded[event.turn]
            for _ in range(Q):
                reached = reached - ETA * rules[client].direct(along(reached, start))
            w = w - (start - reached)
    assert np.abs(w).max() > 0.1
    np.testing.assert_allclose(found, w, rtol=2e-3, atol=2e-4)


def test_momentum_without_memory_is_sgd(problem):  # noqa: F811
    found, _ = ours(problem, "fedavg", optimizer=LocalOptimizer("momentum", beta1=0.0))
    np.testing.assert_allclose(found, ours(problem, "fedavg")[0], rtol=1e-6)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("name", ["fedper", "fedrep", "fedbabu"])
def test_what_is_private_steps_by_the_same_rule_with_averages_of_its_own(name, keep):
    """Two turns; where a part does not learn in a step, neither it nor its averages move."""
    sharing = catalog.cell(name).sharing._replace(private=["head"], private_steps=3)
    first = {"body": jnp.zeros(2), "head": jnp.zeros(1)}
    made = Algorithm(name, objectives.plain(), protocols.synchronous(), LOCAL, STEP, 1, sharing=sharing)
    made = keep_private(made._replace(optimizer=told("adam", keep)), lambda key: first)
    objective, oracle = made.objective, exact(loss)
    params = received = objective.shared(first)
    own = objective.begin(params, 0, jax.random.key(0))
    body, head, rules = np.zeros(2), np.zeros(1), [Rule("adam"), Rule("adam")]
    for step in range(2 * LOCAL):
        if step % LOCAL == 0:
            own = objective.rouse(own, 1.0)
            rules = rules if keep else [Rule("adam"), Rule("adam")]
        own, grads, _ = objective.gradient(oracle, own, params, received, jax.random.key(step))
        own, direction = objective.direct(own, grads)
        params = jax.tree.map(lambda w, d: w - STEP * d, params, direction)
        to_body, to_head = 2 * (body - A) + head.sum(), 2 * (head - B) + body.sum()
        early = step % LOCAL < 3
        if name != "fedrep" or not early:
            body = body - STEP * rules[0].direct(to_body)
        if name == "fedper" or (name == "fedrep" and early):
            head = head - STEP * rules[1].direct(to_head)
    whole = objective.whole(own, params)
    np.testing.assert_allclose(whole["body"], body, rtol=1e-4)
    np.testing.assert_allclose(whole["head"], head, rtol=1e-4)


def test_what_an_optimizer_knows_stays_with_the_client_and_is_in_checkpoints():
    problem = noisy_quadratics(noise=0.5, kind=np.float32)  # noqa: F811
    options = {"optimizer": LocalOptimizer("adam", keep=True), "step_size": 0.02, "local_steps": 4, "batch_size": 5}
    cell = server_cell(problem, catalog.algorithm("scaffold", problem, **options))
    laws.updates_keep_their_types(cell)
    with Workers(2) as workers:
        end = laws.runs_are_reproducible(cell, workers)
        laws.checkpoints_go_on(cell, end, workers)
    assert all(int(kept.own.moments.count) > 4 for kept in end.personal.values())
    server = cell.program.protocol.server
    assert len(jax.tree.leaves(server.offer(server.init(problem.init(jax.random.key(0)), 4)))) == 2  # x and c


@pytest.mark.slow
def test_agents_without_a_server_keep_their_momentum():
    problem = noisy_quadratics(noise=0.5)  # noqa: F811
    kept = LocalOptimizer("momentum", beta1=0.5, keep=True)
    program = peer_program(problem, catalog.algorithm("rasgp", problem, optimizer=kept, batch_size=1, step_size=0.02))
    agents = peer_laws.engines_agree(problem, program, [a_lane(problem)], ONE_WORKER)
    assert all(np.abs(np.asarray(agent.own.moments.trace)).max() > 0 for agent in agents)


def test_one_step_a_turn_and_no_memory_is_refused():
    with pytest.raises(UserMistake, match=r"training.optimizer.keep is false, but training.local_steps is 1"):
        catalog.algorithm("rasgp", noisy_quadratics(noise=0.5), optimizer=LocalOptimizer("momentum"))
