"""PARS-Push's lemmas against the curvature of real costs, and what is wrong in their print.

Quadratics have their MAML Hessian in closed form. In one dimension two losses have all constants known: a strongly
convex one on an interval that no step leaves, and a cosine, which is not convex. Their second derivatives are finite
differences of the chain rule (20).
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect import theory
from idiolect.errors import UserMistake
from idiolect.theory import Constants

GRID = np.linspace(-2, 2, 2001)
EPS = [0.05, 0.5, 0.95]
Slope = Callable[[np.ndarray, float], np.ndarray]  # of (points, sample)


def random_curvature(rng: np.random.Generator, low: float, high: float, dimension: int = 4) -> np.ndarray:
    basis = np.linalg.qr(rng.standard_normal((dimension, dimension)))[0]
    return basis * np.array([low, *rng.uniform(low, high, dimension - 2), high]) @ basis.T


def log_cosh(spread: float, convexity: float) -> tuple[Slope, Slope, Constants]:
    """convexity/2 z^2 + spread log cosh(z - sample), for samples in [-1, 1] and z in [-2, 2]."""

    def first(z: np.ndarray, sample: float) -> np.ndarray:
        return convexity * z + spread * np.tanh(z - sample)

    def second(z: np.ndarray, sample: float) -> np.ndarray:
        return convexity + spread / np.cosh(z - sample) ** 2

    bound = convexity * 2 + spread * math.tanh(3)
    return first, second, Constants(convexity, convexity + spread, bound, spread * 4 / 27**0.5)


def cosine(spread: float) -> tuple[Slope, Slope, Constants]:
    """Minus spread cos(z - sample), on all of R."""
    return (
        lambda z, sample: spread * np.sin(z - sample),
        lambda z, sample: spread * np.cos(z - sample),
        Constants(0.0, spread, spread, spread),
    )


def meta_slope(first: Slope, second: Slope, samples: np.ndarray, alpha: float, z: np.ndarray) -> np.ndarray:
    """(20), on one sample for every step and one for the outer gradient."""
    product = np.ones_like(z)
    for sample in samples[:-1]:
        product = product * (1 - alpha * second(z, sample))
        z = z - alpha * first(z, sample)
    return product * first(z, samples[-1])


def meta_curvatures(first: Slope, second: Slope, samples: np.ndarray, alpha: float, z: np.ndarray) -> np.ndarray:
    ahead, behind = (meta_slope(first, second, samples, alpha, z + shift) for shift in (1e-5, -1e-5))
    return (ahead - behind) / 2e-5


@given(st.integers(0, 10_000), st.integers(0, 5), st.floats(0.01, 0.99), st.floats(0.05, 1), st.floats(1, 5))
@settings(max_examples=60, deadline=None)
def test_lemma_1_bounds_the_meta_hessian_of_quadratics_on_every_choice_of_samples(seed, steps, share, low, ratio):
    rng, high = np.random.default_rng(seed), low * ratio
    alpha, constants = share / high, Constants(low, high)
    product = np.eye(4)
    for _ in range(steps):  # each step on a sample of its own
        product = (np.eye(4) - alpha * random_curvature(rng, low, high)) @ product
    eigenvalues = np.linalg.eigvalsh(product.T @ random_curvature(rng, low, high) @ product)
    assert eigenvalues[0] >= theory.meta_convexity(constants, steps, alpha) * (1 - 1e-9)
    assert eigenvalues[-1] <= theory.meta_smoothness(constants, steps, alpha) * (1 + 1e-9)


def test_lemma_1_and_lemma_3_are_attained_by_quadratics():
    constants, alpha, steps = Constants(0.5, 2.0), 0.3, 3
    for curvature in (0.5, 2.0):
        meta = curvature * (1 - alpha * curvature) ** (2 * steps)
        bound = theory.meta_smoothness if curvature == 0.5 else theory.meta_convexity
        same = Constants(curvature, curvature)
        assert bound(same, steps, alpha) == pytest.approx(meta)
    assert theory.meta_convexity(constants, steps, alpha) == pytest.approx(0.5 * 0.4**6)
    assert theory.meta_smoothness(constants, steps, alpha) == pytest.approx(2 * 0.85**6)
    concave = abs(-2.0 * (1 + alpha * 2.0) ** (2 * steps))
    assert theory.nonconvex_smoothness(constants, steps, alpha) == pytest.approx(concave)


@pytest.mark.parametrize("steps", [1, 2, 4])
@pytest.mark.parametrize("eps1", EPS)
@pytest.mark.parametrize("eps2", EPS)
def test_lemmas_1_and_2_hold_where_the_hessian_changes(steps, eps1, eps2):
    rng = np.random.default_rng(0)
    first, second, constants = log_cosh(spread=0.5, convexity=1.0)
    alpha = theory.admissible_step_size(constants, steps, eps1, eps2)
    low, high = theory.meta_convexity(constants, steps, alpha), theory.meta_smoothness(constants, steps, alpha)
    for _ in range(20):
        samples = rng.uniform(-1, 1, steps + 1)
        found = meta_curvatures(first, second, samples, alpha, GRID)
        assert low - 1e-8 <= found.min()
        assert found.max() <= high + 1e-8
    slopes = np.stack([meta_slope(first, second, rng.uniform(-1, 1, steps + 1), alpha, GRID) for _ in range(200)])
    assert slopes.var(0).max() <= theory.meta_variance(constants, steps, alpha)


@pytest.mark.parametrize("steps", [1, 2, 4])
@pytest.mark.parametrize("alpha", [0.05, 0.4, 1.5])
def test_lemma_3_holds_without_convexity_for_any_step(steps, alpha):
    rng = np.random.default_rng(0)
    first, second, constants = cosine(spread=1.2)
    for _ in range(20):
        found = meta_curvatures(first, second, rng.uniform(-4, 4, steps + 1), alpha, GRID)
        assert np.abs(found).max() <= theory.nonconvex_smoothness(constants, steps, alpha)
    slopes = np.stack([meta_slope(first, second, rng.uniform(-4, 4, steps + 1), alpha, GRID) for _ in range(200)])
    assert slopes.var(0).max() <= theory.nonconvex_variance(constants, steps, alpha)


def kinked(inner: tuple[float, float], outer: tuple[float, float]) -> tuple[Slope, Slope]:
    """A loss with the curvature there + bend |z| on sample 0, and one with slope and curvature at 0 on sample 1."""
    (there, bend), (slope, curvature) = inner, outer
    return (
        lambda z, sample: slope + curvature * z if sample else there * z + bend * z * np.abs(z) / 2,
        lambda z, sample: curvature + 0 * z if sample else there + bend * np.abs(z),
    )


def test_one_step_attains_lemma_1_and_needs_the_last_term_of_lemma_3():
    """The worst case: the outer gradient is as large as it gets where the inner Hessian turns fastest."""
    mu, smooth, bound, lipschitz = constants = Constants(0.5, 2.0, 3.0, 1.5)
    alpha, beside = 0.2, np.array([-1e-4, 1e-4])

    def extremes(inner: tuple[float, float], outer: tuple[float, float]) -> np.ndarray:
        return meta_curvatures(*kinked(inner, outer), np.array([0, 1]), alpha, beside)

    least = extremes((smooth, -lipschitz), (bound, mu)).min()
    assert least == pytest.approx(theory.meta_convexity(constants, 1, alpha), abs=1e-3)
    most = extremes((mu, lipschitz), (bound, smooth)).max()
    assert most == pytest.approx(theory.meta_smoothness(constants, 1, alpha), abs=1e-3)
    most = extremes((-smooth, lipschitz), (bound, smooth)).max()
    assert smooth * (1 + alpha * smooth) ** 2 + 0.5 < most < theory.nonconvex_smoothness(constants, 1, alpha)


@given(
    st.floats(0.01, 1), st.floats(1, 20), st.floats(0, 10), st.floats(0, 10), st.integers(1, 8),
    st.floats(0.01, 0.99), st.floats(0.01, 0.99),
)  # fmt: skip
def test_the_admissible_step_keeps_the_convexity_and_the_smoothness_the_paper_names(
    convexity, ratio, bound, lipschitz, steps, eps1, eps2
):
    constants = Constants(convexity, convexity * ratio, bound, lipschitz)
    largest = theory.admissible_step_size(constants, steps, eps1, eps2)
    for alpha in (largest, largest / 2):
        assert theory.meta_convexity(constants, steps, alpha) >= eps1 * eps2 * convexity * (1 - 1e-9)
        most = (1 + eps1 - eps1 * eps2) * constants.smoothness
        assert theory.meta_smoothness(constants, steps, alpha) <= most * (1 + 1e-9)


def test_the_admissible_step_is_the_smaller_of_its_two_terms():
    assert theory.admissible_step_size(Constants(1, 4, 2, 3), 2, 0.25, 0.5) == pytest.approx(1 * 0.25 * 0.5 / 12)
    assert theory.admissible_step_size(Constants(1, 4, 2, 0.001), 1, 0.25, 0.5) == pytest.approx(0.5 / 4)
    assert theory.admissible_step_size(Constants(1, 4), 2, 1 / 16) == pytest.approx(0.5 / 4)
    assert theory.admissible_step_size(Constants(0, 4, 1, 1), 2) == 0
    assert theory.admissible_step_size(Constants(0, 0), 2) == math.inf
    assert theory.admissible_step_size(Constants(1, 4, 2, 3), 0) == math.inf


@pytest.mark.parametrize("eps1", EPS)
@pytest.mark.parametrize("steps", [1, 3])
def test_errata_lemma_1_as_printed_admits_no_step_at_all(eps1, steps):
    printed, ours = 1 - eps1 ** (-1 / (2 * steps)), theory.admissible_step_size(Constants(1, 1), steps, eps1)
    assert printed < 0 < ours
    assert (1 - ours) ** (2 * steps) == pytest.approx(eps1)


def test_errata_assumption_2_iv_as_printed_is_not_enough():
    """A concave parabola satisfies what is printed, with mu = L; its MAML cost breaks the smoothness of Lemma 1."""
    alpha, curvature = 0.5, -1.0
    meta = curvature * (1 - alpha * curvature) ** 2
    assert abs(meta) > theory.meta_smoothness(Constants(1, 1), 1, alpha)


@pytest.mark.parametrize("convexity", [0.1, 1.0, 10.0])
def test_errata_proposition_1_goes_with_the_square_of_the_convexity(convexity):
    """Steps 1 / (mu t) on mu/2 z^2: every gradient's noise ends up with the same weight 1 / (mu T)."""
    rounds, noise = 50, 0.7
    weights = np.zeros(0)  # of each round's noise in z
    start = 1.0
    for t in range(rounds + 1):
        theta = theory.convex_step_size(convexity, t)
        start *= 1 - theta * convexity
        weights = np.append(weights * (1 - theta * convexity), -theta)
    assert start == 0
    assert noise**2 * (weights**2).sum() == pytest.approx(noise**2 / (convexity**2 * rounds))


def test_the_step_sizes_of_proposition_1_and_theorem_1():
    assert [theory.convex_step_size(2.0, t) for t in (0, 1, 4)] == [0.0, 0.5, 0.125]
    assert theory.nonconvex_step_size(4.0, agents=9, rounds=36) == pytest.approx(3 / (4 * 6))
    assert theory.nonconvex_step_size(4.0, agents=9, rounds=9) == 0.25


def test_zero_steps_and_a_step_of_zero_leave_the_constants_as_they_are():
    constants = Constants(0.5, 2.0, 3.0, 1.0)
    for steps, alpha in ((0, 0.3), (4, 0.0)):
        assert theory.meta_convexity(constants, steps, alpha) == 0.5
        assert theory.meta_smoothness(constants, steps, alpha) == 2
        assert theory.nonconvex_smoothness(constants, steps, alpha) == 2
        assert theory.meta_variance(constants, steps, alpha) == 4 * 9
        assert theory.nonconvex_variance(constants, steps, alpha) == 4 * 9


def test_the_formulas_as_printed():
    constants = Constants(0.5, 2.0, 3.0, 0.1)
    assert theory.meta_convexity(constants, 3, 0.2) == pytest.approx(0.5 * 0.6**6 - 0.2 * 3 * 0.3 * 0.9**2)
    assert theory.meta_smoothness(constants, 3, 0.2) == pytest.approx(2 * 0.9**6 + 0.2 * 3 * 0.3 * 0.9**2)
    assert theory.meta_variance(constants, 3, 0.2) == pytest.approx(4 * 0.9**6 * 9)
    assert theory.nonconvex_smoothness(constants, 3, 0.2) == pytest.approx((2 + 0.2 * 3 * 0.3) * 1.4**6)
    assert theory.nonconvex_variance(constants, 3, 0.2) == pytest.approx(4 * 1.4**6 * 9)


@pytest.mark.parametrize("gammas", [(1, 1, 0), (2, 2, 1), (3, 1, 2), (1, 4, 0), (4, 3, 1)])
def test_news_is_never_later_than_the_gammas_say(gammas):
    """Agents that wake, links that fail and messages that wait as Assumption 1 lets them."""
    gamma_w, gamma_d, gamma_f = gammas
    rng, rounds = np.random.default_rng(0), 20_000

    def wakes() -> np.ndarray:
        lazy = rng.choice([1, gamma_w], rounds, p=[0.2, 0.8])  # mostly as late as may be
        return np.cumsum(lazy)

    sender, receiver = wakes(), wakes()
    sent, failures = [], 0
    for t in sender:
        failures = failures + 1 if failures < gamma_f and rng.random() < 0.8 else 0
        if failures == 0:
            sent.append(t)
    arrived = np.array(sent) + rng.choice([1, gamma_d], len(sent))
    place = np.searchsorted(receiver, arrived)  # read at the first waking from then on
    there = place < len(receiver)
    read, delays = receiver[place[there]], receiver[place[there]] - np.array(sent)[there]
    assert delays.max() == theory.effective_delay(gamma_w, gamma_d)
    assert np.diff(np.unique(read)).max() <= theory.contact_period(*gammas)


def test_the_gammas_of_the_experiment():
    assert theory.effective_delay(2, 2) == 3
    assert theory.contact_period(2, 2, 1) == 7
    assert theory.contact_period(1, 1, 0) == 2


def test_a_personal_step_of_one_over_l_or_more_is_refused_where_l_is_known():
    theory.check_personal_step(100.0, None)
    theory.check_personal_step(0.2499, 4.0)
    with pytest.raises(UserMistake, match=r"^objective\.step_size is 0\.25, .* step_size < 1 / L .* L = 4$"):
        theory.check_personal_step(0.25, 4.0)


GOOD = Constants(1.0, 2.0, 1.0, 1.0)
WRONG = {
    "eps1 is 0.0,": lambda: theory.admissible_step_size(GOOD, 1, eps1=0.0),
    "eps2 is 1.0,": lambda: theory.admissible_step_size(GOOD, 1, eps2=1.0),
    "steps is -1,": lambda: theory.admissible_step_size(GOOD, -1),
    "step_size is -0.1,": lambda: theory.nonconvex_smoothness(GOOD, 1, -0.1),
    "objective.step_size is 0.5,": lambda: theory.meta_smoothness(GOOD, 1, 0.5),
    "objective.step_size is 2,": lambda: theory.meta_variance(GOOD, 1, 2.0),
    "constants.convexity is 3.0, above": lambda: theory.meta_convexity(Constants(3.0, 2.0), 1, 0.1),
    "constants.hessian_lipschitz is nan,": lambda: theory.meta_convexity(
        GOOD._replace(hessian_lipschitz=math.nan), 1, 0.1
    ),
    "constants.gradient_bound is -1,": lambda: theory.nonconvex_variance(Constants(1.0, 2.0, -1), 1, 0.1),
    "meta_convexity is -0.1,": lambda: theory.convex_step_size(-0.1, 1),
    "round is -1,": lambda: theory.convex_step_size(1.0, -1),
    "meta_smoothness is 0,": lambda: theory.nonconvex_step_size(0, 1, 1),
    "agents is 0,": lambda: theory.nonconvex_step_size(1.0, 0, 1),
    "rounds is 9, but must be at least the number of agents, which is 10": lambda: theory.nonconvex_step_size(
        1.0, 10, 9
    ),
    "gamma_w is 0,": lambda: theory.effective_delay(0, 1),
    "gamma_d is 0,": lambda: theory.effective_delay(1, 0),
    "gamma_f is -1,": lambda: theory.contact_period(1, 1, -1),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_wrong_input_is_named(sentence):
    with pytest.raises(UserMistake) as mistake:
        WRONG[sentence]()
    assert str(mistake.value).startswith(sentence)
