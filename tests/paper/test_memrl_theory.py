"""MEMRL's Lemmas 1 and 2 and Theorem 1, on policies whose returns can be summed over all trajectories.

Returns are summed over every way an episode can go, and derivatives are finite differences: nothing here comes from the
package but the constants and bounds under test. The misprint of Theorem 1 (a constant step size with a rate of
1 / sqrt(T)) is shown by a chain whose stationary mean is above what the printed bound comes down to.
"""

import itertools
import math

import numpy as np
import pytest

from idiolect.contracts.constants import Constants
from idiolect.errors import UserMistake
from idiolect.theory import PolicyRun, envelope_constants, policy_bound, policy_step_size, return_constants

HORIZON, GAMMA, REWARD = 3, 0.8, 2.0
TABLE = return_constants(
    score_bound=math.sqrt(2), score_smoothness=0.5, reward=REWARD, discount=GAMMA, horizon=HORIZON
)  # of a softmax over a table: ||e_a - pi|| <= sqrt 2, and diag(pi) - pi pi' <= 1/2


def expected_return(w: np.ndarray, rewards: np.ndarray) -> float:
    """Three states in a ring, two actions (stay, go on), a reward for each pair; the sum over all trajectories."""
    chances = np.exp(w) / np.exp(w).sum(1, keepdims=True)
    total = 0.0
    for actions in itertools.product((0, 1), repeat=HORIZON):
        state, likely, earned = 0, 1.0, 0.0
        for step, action in enumerate(actions):
            likely *= chances[state, action]
            earned += GAMMA**step * rewards[state, action]
            state = (state + action) % 3
        total += likely * earned
    return total


def differences(function, w: np.ndarray, width: float = 1e-4) -> np.ndarray:
    """Central differences of a function of a flat vector, entry by entry."""
    eye = width * np.eye(len(w))
    return np.array([(function(w + e) - function(w - e)) / (2 * width) for e in eye])


def test_lemma_1_bounds_gradients_and_curvatures_of_returns():
    rng, tight = np.random.default_rng(0), 0.0
    for _ in range(12):
        rewards = REWARD * rng.integers(0, 2, (3, 2))
        point = rng.normal(size=6) * rng.choice([0.0, 1.0, 3.0])

        def value(w: np.ndarray, rewards: np.ndarray = rewards) -> float:
            return expected_return(w.reshape(3, 2), rewards)

        slope = differences(value, point)
        bend = differences(lambda w, value=value: differences(value, w, 1e-3), point, 1e-3)
        assert np.linalg.norm(slope) <= TABLE.gradient_bound
        assert np.abs(np.linalg.eigvalsh(bend)).max() <= TABLE.smoothness
        tight = max(tight, np.linalg.norm(slope))
    assert tight > 0.01 * TABLE.gradient_bound, "somebody learns something here"


def test_lemma_1_by_hand():
    assert TABLE.gradient_bound == pytest.approx(math.sqrt(2) * 2 / 0.04)
    assert TABLE.smoothness == pytest.approx((0.5 + 3 * 2) * 2 / 0.04)
    with pytest.raises(UserMistake, match="discount is 1, but must be at least 0 and below 1"):
        return_constants(score_bound=1.0, score_smoothness=1.0, reward=1.0, discount=1, horizon=3)


# One arm or the other, for one step: J(w) = sigma(w) for the first task and 1 - sigma(w) for the second.
BANDIT = Constants(0.0, 1 / (6 * math.sqrt(3)), 0.25)  # the largest |sigma''| and sigma'
LAMBDA = 0.2


def sigma(w: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-w))


def slope_of_envelope(w: np.ndarray) -> np.ndarray:
    """V_1'(w) = lambda (theta - w), where theta maximises sigma(theta) - lambda/2 (theta - w)^2, by bisection."""
    low, high = w, w + 0.25 / LAMBDA  # theta = w + sigma'(theta) / lambda
    for _ in range(60):
        middle = (low + high) / 2
        over = sigma(middle) * (1 - sigma(middle)) - LAMBDA * (middle - w) < 0
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    return LAMBDA * (low - w)


def test_lemma_2_is_what_the_envelope_has_and_is_nearly_reached():
    points = np.linspace(-12, 12, 4001)
    slopes = slope_of_envelope(points)
    bends = np.abs(np.diff(slopes) / np.diff(points))
    found = envelope_constants(BANDIT, LAMBDA)
    assert found.smoothness == pytest.approx(LAMBDA / (LAMBDA / BANDIT.smoothness - 1))
    assert 0.9 * found.smoothness < bends.max() <= found.smoothness * (1 + 1e-6)
    assert 0.99 * found.gradient_bound < slopes.max() <= found.gradient_bound
    with pytest.raises(UserMistake, match=r"lambda is 0\.05, but MEMRL's Lemma 2 and Theorem 1 need more than L\^"):
        envelope_constants(BANDIT, 0.05)


def settled(alpha: float) -> float:
    """E ||V'(w)||^2 of Algorithm 1 with one of the two tasks at a time, solved exactly, once it has settled.

    The chain w -> w + alpha V_i'(w) on a fine grid, where a jump between two cells goes to both in proportion.
    """
    grid = np.linspace(-8, 8, 1601)
    first, second = slope_of_envelope(grid), -slope_of_envelope(-grid)  # V_2(w) = V_1(-w) + 0, up to a constant
    mass = np.full(len(grid), 1 / len(grid))
    moves = []
    for slope in (first, second):
        place = np.clip((grid + alpha * slope - grid[0]) / (grid[1] - grid[0]), 0, len(grid) - 1)
        below = np.minimum(place.astype(int), len(grid) - 2)
        moves.append((below, place - below))
    for _ in range(4000):
        after = np.zeros_like(mass)
        for below, share in moves:
            np.add.at(after, below, 0.5 * mass * (1 - share))
            np.add.at(after, below + 1, 0.5 * mass * share)
        mass = after
    return float(mass @ ((first + second) / 2) ** 2)


def exactly(steps: int) -> PolicyRun:
    return PolicyRun(steps=steps, tasks=1, trajectories=10**15, accuracy=0.0, gap=1.0)


def test_the_printed_step_size_cannot_give_the_printed_rate():
    """A constant alpha leaves a floor; the printed bound falls below it, the repaired one does not."""
    alpha = 0.25 / envelope_constants(BANDIT, LAMBDA).smoothness
    floor = settled(alpha)
    assert settled(alpha / 4) < 0.5 * floor, "shorter steps have a lower one"
    steps = 10**10
    assert policy_bound(BANDIT, exactly(steps), lambda_=LAMBDA, step_size=alpha, theorem="printed").total < floor / 5
    assert policy_bound(BANDIT, exactly(steps), lambda_=LAMBDA, step_size=alpha).total > floor
    shorter = policy_bound(BANDIT, exactly(steps), lambda_=LAMBDA)
    assert shorter.total < floor / 5, "with alpha ~ 1 / sqrt(T) the rate is there"


def test_the_repaired_bound_holds_on_runs_of_algorithm_1():
    """One task at a time, theta off by a known nu in the worst direction, and 400 runs for the mean."""
    rng, nu, lambda_ = np.random.default_rng(1), 0.02, LAMBDA
    places = np.linspace(-40, 40, 8001)
    known = slope_of_envelope(places)
    for steps in (100, 2500):
        alpha = policy_step_size(BANDIT, lambda_, steps)
        w, total = np.full(400, 3.0), 0.0
        for _ in range(steps):
            first, second = np.interp(w, places, known), -np.interp(-w, places, known)
            total += float((((first + second) / 2) ** 2).mean())
            error = lambda_ * nu / (lambda_ - BANDIT.smoothness)
            w = w + alpha * (np.where(rng.random(400) < 0.5, first, second) + error)
        run = PolicyRun(steps=steps, tasks=1, trajectories=10**15, accuracy=nu, gap=1.0)
        assert total / steps <= policy_bound(BANDIT, run, lambda_=lambda_).total


def test_the_bounds_have_their_terms_by_hand():
    constants, lambda_ = Constants(0.0, 2.0, 3.0), 10.0  # L~ = 2.5, stretch = 1.25^2
    run = PolicyRun(steps=400, tasks=4, trajectories=25, accuracy=0.1, gap=1.5)
    printed = policy_bound(constants, run, lambda_=lambda_, step_size=0.1, theorem="printed")
    assert printed.start == pytest.approx(8 * 1.5 / 20)
    assert printed.tasks == pytest.approx(8 * 2.5 * 9 / (4 * 20))
    assert printed.inner == pytest.approx(1.5625 * 0.01)
    last = 8 * 0.1 * 2.5 * 1.5625 * 9 / (4 * 25 * 20)
    assert printed.wandering == pytest.approx(8 * 2.5 * 1.5625 * 0.01 / (4 * 20) + last)
    alpha = policy_step_size(constants, lambda_, 400)
    assert alpha == pytest.approx(1 / 40)
    repaired = policy_bound(constants, run, lambda_=lambda_)
    off = 1.5625 * (0.1 + 3 / 5) ** 2
    assert repaired.start == pytest.approx(printed.start), "which is where this step size comes from"
    assert repaired.tasks == pytest.approx(4 * alpha * 2.5 * 9 / 4)
    assert repaired[2:] == pytest.approx((2 * off, 4 * alpha * 2.5 * off))
    assert repaired.total == pytest.approx(sum(repaired))


def test_the_step_size_asks_for_enough_steps_and_the_bound_for_short_ones():
    constants = Constants(0.0, 2.0, 3.0)
    assert policy_step_size(constants, 10.0, 25) == pytest.approx(1 / (4 * 2.5)), "the printed one, at the least T"
    with pytest.raises(UserMistake, match="steps is 24, but Theorem 1 needs at least 25"):
        policy_step_size(constants, 10.0, 24)
    with pytest.raises(UserMistake, match=r"step_size is 0\.2, but Theorem 1 needs at most 0\.1"):
        policy_bound(constants, exactly(100), lambda_=10.0, step_size=0.2)
