"""Step sizes that change with a server: against loops in NumPy, through the catalog, and what must not change."""

import jax
import numpy as np
import pytest

import idiolect
from idiolect import StepRule, timeline
from idiolect.network.topologies import complete

TARGETS = np.array([[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0]])  # the minimisers of the clients' losses
STEPS, RATE = 3, 0.2
TURNS = timeline([0, 1, 2, 0, 1, 2, 0], [0.0, 0.0, 0.0, 2.0, 3.0, 6.0, 5.0], [1.0, 2.5, 6.0, 4.0, 7.0, 9.0, 8.0])


@pytest.fixture(scope="module")
def problem():
    def loss(w, batch):
        return 0.5 * ((w - batch) ** 2).sum(1).mean()

    data = [np.repeat(target[None], 20, 0).astype(np.float32) for target in TARGETS]
    return idiolect.problem(lambda key: jax.numpy.zeros(2), loss, data)


def descent(w, client, rate):
    """How far a client goes from w."""
    return (w - TARGETS[client]) * (1 - (1 - rate) ** STEPS)


def learned(problem, name, rule, **options):
    options = {"local_steps": STEPS, "step_size": RATE, "points": 1, **options}
    return idiolect.learn(problem, name, step_rule=rule, **options)


RULES = {
    "decay": (StepRule("decay", decay=0.5, every=2, at=(3,), drop=0.1), lambda t: 0.5 ** (t // 2) * 0.1 ** (t >= 3)),
    "decreasing": (StepRule("decreasing", offset=2.0), lambda t: 1 / (t + 2)),
    "inverse": (StepRule("inverse"), lambda t: 1 / t if t else 0.0),
    "own": (StepRule("own", theta=lambda t: 1.0 if t < 2 else 0.25), lambda t: 1.0 if t < 2 else 0.25),
}


@pytest.mark.parametrize("rule", ["decay", "inverse", "own"])
def test_fedavg_steps_by_round(problem, rule):
    given, theta = RULES[rule]
    w = np.zeros(2)
    for t in range(5):
        w = w - np.mean([descent(w, client, RATE * theta(t)) for client in range(3)], axis=0)
    np.testing.assert_allclose(learned(problem, "fedavg", given, rounds=5).params, w, rtol=1e-5)


def by_version(theta, size=1):
    """Asynchronous updates by hand: each goes as far as the version says that its turn began with."""
    w, held, absorbed, began, buffer = np.zeros(2), {}, 0, {}, np.zeros(2)
    moments = [(TURNS.arrived[k], 0, k) for k in range(7)] + [(TURNS.offered[k], 1, k) for k in range(7)]
    for _, kind, turn in sorted(moments):
        if kind:
            held[turn], began[turn] = w, absorbed // size
            continue
        buffer = buffer + descent(held[turn], TURNS.client[turn], RATE * theta(began[turn]))
        absorbed += 1
        if absorbed % size == 0:
            w, buffer = w - buffer / size, np.zeros(2)
    return w


def test_fedasync_steps_by_the_version_that_was_offered(problem):
    given, theta = RULES["decay"]
    found = learned(problem, "fedasync", given, timeline=TURNS, protocol={"beta": 1.0})
    np.testing.assert_allclose(found.params, by_version(theta), rtol=1e-5)


@pytest.mark.slow
def test_fedbuff_counts_full_buffers(problem):
    given, theta = RULES["decay"]
    options = {"size": 2, "beta": 1.0, "staleness": "constant"}
    found = learned(problem, "fedbuff", given, timeline=TURNS, protocol=options)
    np.testing.assert_allclose(found.params, by_version(theta, 2), rtol=1e-5)


def test_alone_a_client_counts_its_own_turns(problem):
    given, theta = RULES["decreasing"]
    found = learned(problem, "local", given, rounds=4)
    for client in range(3):
        w = np.zeros(2)
        for t in range(4):
            w = w - descent(w, client, RATE * theta(t))
        np.testing.assert_allclose(found.received(client), w, rtol=1e-5)


@pytest.mark.parametrize("name", ["fedavg", pytest.param("fedasync", marks=pytest.mark.slow)])
def test_a_constant_rule_changes_no_byte(problem, name):
    rules = [StepRule(), StepRule("decay", at=(1,), drop=1.0), StepRule("own", theta=lambda t: 1.0)]
    ends = [np.asarray(learned(problem, name, rule, horizon=60.0).params).tobytes() for rule in rules]
    assert ends == ends[:1] * 3


def test_what_is_private_steps_by_the_same_rule():
    def loss(w, batch):
        return sum(0.5 * ((leaf - batch) ** 2).sum(1).mean() for leaf in w.values())

    data = [np.repeat(target[None], 20, 0).astype(np.float32) for target in TARGETS]
    two = idiolect.problem(lambda key: {name: jax.numpy.zeros(2) for name in ("first", "last")}, loss, data)
    given, theta = RULES["decreasing"]
    found = learned(two, "fedper", given, rounds=4)
    shared, private = np.zeros(2), np.zeros((3, 2))
    for t in range(4):
        shared = shared - np.mean([descent(shared, client, RATE * theta(t)) for client in range(3)], axis=0)
        private = np.stack([w - descent(w, client, RATE * theta(t)) for client, w in enumerate(private)])
    np.testing.assert_allclose(found.params["first"], shared, rtol=1e-5)
    for client in range(3):
        np.testing.assert_allclose(found.received(client)["last"], private[client], rtol=1e-5)


def test_scaffold_divides_by_the_steps_that_were_taken(problem):
    """With c = 0 at first, option II's c_i after a round is the mean gradient of its local steps."""
    given, theta = StepRule("own", theta=lambda t: 0.5), lambda t: 0.5
    found = learned(problem, "scaffold", given, rounds=1, protocol={"option": "II"})
    rate = RATE * theta(0)
    expected = [descent(np.zeros(2), client, rate) / (STEPS * rate) for client in range(3)]
    for client in range(3):
        np.testing.assert_allclose(found.personal[client].control, expected[client], rtol=1e-5)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (StepRule("horizon"), "has one; take decay or decreasing"),
        (StepRule("own"), "has no theta"),
        (StepRule("own", theta=lambda t: -1.0), "gives -1.0 for round 0"),
    ],
)
def test_rules_that_cannot_be_followed_are_refused(problem, rule, said):
    with pytest.raises(idiolect.UserMistake, match=said):
        learned(problem, "fedavg", rule, rounds=2)


@pytest.mark.slow
def test_agents_without_a_server_decay_alike(problem):
    given, theta = RULES["decay"]
    own = StepRule("own", theta=theta)
    one, other = (learned(problem, "dpsgd", rule, rounds=6, topology=complete()) for rule in (given, own))
    np.testing.assert_array_equal(one.params, other.params)
