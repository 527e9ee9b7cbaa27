"""PARS-Push on two agents, against numbers computed on paper."""

import functools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect import catalog
from idiolect.contracts import Problem, StepRule
from idiolect.engines.serverless import Lane, PeerProgram, prepare_peers, simulate_peers
from idiolect.engines.snapshot import Snapshot
from idiolect.network.round_tables import Rounds, rounds
from idiolect.network.topologies import topology
from idiolect.problems import problem
from idiolect.protocols.running_sums import running_sum
from tests.paper.library_agents import ONE_WORKER

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
        origin = two_points(0.0, (0.0, 0.0))
        return prepare_peers(origin, catalog.algorithm("pars_push", origin, objective={"steps": 0}, batch_size=1))


def five_rounds(given: Problem, table: Rounds, step_size: float, rule: StepRule) -> list[Snapshot]:
    """Snapshots after each of five rounds; `model` gives all that an agent keeps.

    They run beside a lane with the oldest message and two at once, so that all tables have the shapes of one program.
    """
    algorithm = prepared().algorithm._replace(step_size=step_size, step_rule=rule)
    program = prepared()._replace(init=given.init, algorithm=algorithm, models=lambda state: state.nodes)
    beside = rounds(PAIR, np.ones((5, 2), bool), [(0, 1, 0, 0), (1, 0, 0, 0), (0, 1, 0, 5)])
    with jax.enable_x64(True):
        lanes = [Lane(given.clients, table, 0), Lane(given.clients, beside, 0)]
        found = [both[0] for both in simulate_peers(program, lanes, ONE_WORKER, times=FIVE)]
    assert program.advance._cache_size() == 1, "all tables have the shapes of one program"
    return found


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


def test_the_horizon_s_steps_are_the_scale_times_the_root_of_agents_over_rounds():
    """Theorem 1, of two agents and five rounds: sqrt(2 / 5), though another network of two runs beside them."""
    table = rounds(PAIR, [[1, 0], [0, 0], [1, 1], [0, 0], [0, 0]], [])
    first, _, third, *_ = five_rounds(two_points(1.0, (0.0, 3.0)), table, 0.25, StepRule("horizon"))
    theta = 0.25 * (2 / 5) ** 0.5
    assert first.model(0).mass.x == pytest.approx((1.0 - theta * 1.0) / 2, rel=1e-14)
    assert third.model(1).mass.x == pytest.approx((1.0 - 3 * theta * (1.0 - 3.0)) / 2, rel=1e-14)


def test_an_agent_that_sleeps_stays_as_it_is_whatever_arrives():
    awake = [[1, 1], [1, 0], [1, 0], [1, 0], [1, 1]]
    table = rounds(PAIR, awake, [(0, 1, t, t + 1) for t in range(4)])
    pauses = five_rounds(two_points(1.0, (0.0, 3.0)), table, 0.25, StepRule())
    asleep = [jax.tree.map(lambda leaf: leaf.tobytes(), pause.model(1)) for pause in pauses]
    assert asleep[0] == asleep[1] == asleep[2] == asleep[3]
    y = [float(pause.model(1).mass.y) for pause in pauses]
    assert y == [1 / 2, 1 / 2, 1 / 2, 1 / 2, 1 / 4 + 1 / 2 + 1 / 4 + 1 / 8 + 1 / 16], "then all at once"
