"""Per-FedAvg: its lemmas on losses whose constants are known, by exact expectations; worst cases meet them."""

import itertools
import math

import numpy as np
import pytest

from idiolect.contracts.constants import Constants, Variation
from idiolect.errors import UserMistake
from idiolect.inspection.distances import Points, wasserstein_to_average
from idiolect.problems.synthetic import robust_location
from idiolect.problems.synthetic.locations import training_places
from idiolect.theory import (
    MetaBatches,
    MetaCost,
    Rounds,
    drift_bound,
    hessian_free_noise,
    meta_cost,
    meta_step_size,
    per_fedavg_bound,
    short_drift_bound,
    total_variation_diversity,
    wasserstein_diversity,
)

BY_HAND = Constants(0.0, 2.0, 3.0, 0.5)  # L, B, rho
VARIATION = Variation(0.8, 0.6, 0.5, 0.4)
BATCHES = MetaBatches(inner=4, outer=5, hessian=8)
COST = MetaCost(smoothness=2.0, noise=0.3, diversity=0.4)


class Cauchy:
    """`robust_location` in NumPy: derivatives of a sample's loss at w; nonconvex, all constants known."""

    smooth, width = 0.7, 0.9
    problem = robust_location(
        clients=3, dimension=2, samples=7, smoothness=0.7, width=0.9, heterogeneity=0.8, noise=0.6, outliers=0.3, seed=3
    )
    constants, variation = problem.constants, problem.variation
    samples = training_places(problem.clients)  # 3 clients with 4 samples each

    def gradient(self, places, w):
        away = w - places
        return self.smooth * away / (1 + (away**2).sum(-1, keepdims=True) / self.width**2)

    def hessian(self, places, w):
        away = w - places
        slack = 1 + (away**2).sum(-1)[:, None, None] / self.width**2
        return self.smooth * (np.eye(2) / slack - 2 * away[:, :, None] * away[:, None, :] / self.width**2 / slack**2)


class Logistic:
    """log(1 + exp(-x'w)), labels within x; nothing better is known of how samples differ than what bounds them."""

    samples = tuple(
        np.random.default_rng(5).standard_normal((3, 4, 2)) + np.array([[[1.5, 0]], [[0, 0.5]], [[-0.5, 1]]])
    )
    longest = max(float(np.linalg.norm(own, axis=1).max()) for own in samples)
    constants = Constants(0.0, longest**2 / 4, longest, longest**3 / (6 * math.sqrt(3)))
    variation = Variation(longest, longest**2 / 4, longest, longest**2 / 4)

    def gradient(self, x, w):
        return -x / (1 + np.exp(x @ w))[:, None]

    def hessian(self, x, w):
        share = 1 / (1 + np.exp(x @ w))
        return (share * (1 - share))[:, None, None] * x[:, :, None] * x[:, None, :]


LOSSES = {"cauchy": Cauchy(), "logistic": Logistic()}
POINTS = np.random.default_rng(0).uniform(-2.5, 2.5, (8, 2))


def draws(samples, size):
    """All batches of `size` draws with replacement, as likely as each other."""
    return [samples[list(rows)] for rows in itertools.product(range(len(samples)), repeat=size)]


def true_gradient(loss, own, w, alpha):
    """(6), on a client's whole data."""
    moved = w - alpha * loss.gradient(own, w).mean(0)
    return (np.eye(2) - alpha * loss.hessian(own, w).mean(0)) @ loss.gradient(own, moved).mean(0)


def mean_square_error(loss, own, w, alpha, sizes, derivative="exact", delta=1e-3):
    """E ||estimate - truth||^2 over all batches D, D' and D'' there are: of (9), (112) or (118)."""
    truth, errors = true_gradient(loss, own, w, alpha), []
    bends = [(batch, loss.hessian(batch, w).mean(0)) for batch in draws(own, sizes.hessian)]
    for inner, outer in itertools.product(draws(own, sizes.inner), draws(own, sizes.outer)):
        after = loss.gradient(outer, w - alpha * loss.gradient(inner, w).mean(0)).mean(0)
        if derivative == "first_order":
            errors.append(after - truth)
            continue
        for batch, bend in bends:
            product = bend @ after
            if derivative == "hessian_free":
                ahead, behind = (loss.gradient(batch, w + sign * delta * after).mean(0) for sign in (1, -1))
                product = (ahead - behind) / (2 * delta)
            errors.append(after - alpha * product - truth)
    return float((np.array(errors) ** 2).sum(-1).mean())


def test_the_constants_have_their_printed_terms():
    """Lemmas 4.2-4.4, G.1 and G.2 with numbers put in by hand; 4.3 in its printed form, not in that of its proof."""
    alpha = 0.1
    told = {"step_size": alpha, "delta": 0.05}
    cost = meta_cost(BY_HAND, VARIATION, BATCHES, **told)
    assert cost.smoothness == pytest.approx(8 + 0.1 * 0.5 * 3)
    after = 0.64 * (1 / 5 + 0.2**2 / 4)
    assert cost.noise**2 == pytest.approx(3 * (9 + after) * (4 + 0.36 * 0.01 / 8) - 12 * 9)
    assert cost.diversity**2 == pytest.approx(3 * 9 * 0.01 * 0.16 + 192 * 0.25)
    first = meta_cost(BY_HAND, VARIATION, BATCHES, derivative="first_order", **told)
    assert first.noise**2 == pytest.approx(2 * after + 2 * (0.2 * 3) ** 2)
    free = meta_cost(BY_HAND, VARIATION, BATCHES, derivative="hessian_free", **told)
    printed = 6 * 0.64 * (2 * 0.04 / 4 + 2 / 5 + 0.01 / (2 * 0.0025 * 8)) + 2 * (0.1 * 0.5 * 0.05) ** 2 * 81
    assert free.noise**2 == pytest.approx(printed)
    assert (first[0], first[2]) == (free[0], free[2]) == (cost[0], cost[2])


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("share", [0.3, 1.0])
def test_lemmas_4_2_and_4_4_hold_at_random_points(name, share):
    loss = LOSSES[name]
    alpha, width = share / loss.constants.smoothness, 1e-5
    cost = meta_cost(loss.constants, loss.variation, MetaBatches(1, 1, 1), step_size=alpha)
    for w, direction in zip(POINTS, np.random.default_rng(2).standard_normal((8, 2)), strict=True):
        slopes = np.array([true_gradient(loss, own, w, alpha) for own in loss.samples])
        assert ((slopes - slopes.mean(0)) ** 2).sum(-1).mean() <= cost.diversity**2
        ahead = width * direction / np.linalg.norm(direction)
        for own in loss.samples:
            change = true_gradient(loss, own, w + ahead, alpha) - true_gradient(loss, own, w - ahead, alpha)
            assert np.linalg.norm(change) <= cost.smoothness * 2 * width


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("derivative", ["exact", "first_order", "hessian_free"])
@pytest.mark.parametrize("sizes", [MetaBatches(1, 1, 1), MetaBatches(2, 1, 2)])
def test_lemmas_4_3_g_1_and_g_2_hold_at_random_points(name, derivative, sizes):
    loss = LOSSES[name]
    for w, share, delta in zip(POINTS, np.linspace(0, 1, 8), np.logspace(-3, 0, 8), strict=True):
        told = {"step_size": share / loss.constants.smoothness, "delta": delta}
        cost = meta_cost(loss.constants, loss.variation, sizes, derivative=derivative, **told)
        found = mean_square_error(loss, loss.samples[0], w, told["step_size"], sizes, derivative, delta)
        assert found <= cost.noise**2
        if derivative == "hessian_free":
            sharper = hessian_free_noise(loss.constants, loss.variation, sizes, **told)
            assert found <= sharper**2 <= cost.noise**2 * (1 + 1e-12)


def test_with_one_batch_for_both_gradients_the_noise_stays_as_delta_shrinks():
    """Lemma G.2 says 1 / delta^2; measured it is that of a Hessian, which the sharper bound has."""
    loss, sizes, w, alpha = LOSSES["cauchy"], MetaBatches(1, 1, 1), POINTS[0], 1.2
    own = loss.samples[0]
    exact = mean_square_error(loss, own, w, alpha, sizes)
    tiny = mean_square_error(loss, own, w, alpha, sizes, "hessian_free", 1e-5)
    assert tiny == pytest.approx(exact, rel=1e-6)
    known = loss.constants, loss.variation, sizes
    printed = [meta_cost(*known, step_size=alpha, derivative="hessian_free", delta=d).noise for d in (1e-4, 1e-5)]
    sharper = [hessian_free_noise(*known, step_size=alpha, delta=d) for d in (1e-4, 1e-5)]
    assert printed[1] / printed[0] == pytest.approx(10, rel=1e-3)
    assert sharper[1] / sharper[0] == pytest.approx(1, rel=1e-3)
    assert tiny <= sharper[1] ** 2 < 1e-6 * printed[1] ** 2


def test_lemma_4_2_is_met_where_the_curvature_is_least():
    """f = -L/2 w^2 and alpha = 1 / L: the slope of F is -L (1 + alpha L)^2 w."""
    cost = meta_cost(Constants(0.0, 1.5, 1.0), Variation(0, 0, 0, 0), BATCHES, step_size=1 / 1.5)
    gradient = [(1 + 1.5 / 1.5) * -1.5 * (w + 1.5 * w / 1.5) for w in (0.0, 1.0)]
    assert abs(gradient[1] - gradient[0]) == pytest.approx(cost.smoothness)


def test_what_the_first_order_leaves_out_is_met_on_a_falling_slope():
    """(116): f'' = -L at w, and the personal step goes up the slope to where |f'| = B."""
    smooth, bound, alpha = 2.0, 3.0, 0.4
    w = bound / (smooth * (1 + smooth * alpha))
    slope = smooth * w  # f' = -L v with v = -w
    moved = -w - alpha * slope
    assert -smooth * moved == pytest.approx(bound)
    left_out = alpha * smooth * bound  # alpha |f''| |f'| at the moved point
    cost = meta_cost(
        Constants(0.0, smooth, bound), Variation(0, 0, 0, 0), BATCHES, step_size=alpha, derivative="first_order"
    )
    assert cost.noise == pytest.approx(math.sqrt(2) * left_out)  # the two comes from splitting a square


def test_the_diversity_by_wasserstein_distances_is_met_by_two_places():
    """Quadratics around +-c for (22a); for (22b) a loss whose curvature is the sample."""
    places = [np.array([[1.5]]), np.array([[-1.5]])]
    distances = wasserstein_to_average([Points(own, np.zeros((1, 0))) for own in places])
    found = wasserstein_diversity(distances, gradient_lipschitz=2.0, hessian_lipschitz=0.5)
    gradients = np.array([2.0 * (0.3 - own.mean()) for own in places])
    assert found.gradient == pytest.approx(gradients.std())
    assert found.hessian == pytest.approx(np.std([0.5 * own.mean() for own in places]))


def test_the_diversity_by_wasserstein_distances_bounds_what_is_measured():
    """A sample's gradient changes by at most L, its Hessian by at most rho, times how far the sample moves."""
    loss = LOSSES["cauchy"]
    distances = wasserstein_to_average([Points(own, np.zeros((len(own), 0))) for own in loss.samples])
    constants = loss.constants
    found = wasserstein_diversity(
        distances, gradient_lipschitz=constants.smoothness, hessian_lipschitz=constants.hessian_lipschitz
    )
    largest = 0.0
    for w in POINTS:
        slopes = np.array([loss.gradient(own, w).mean(0) for own in loss.samples])
        bends = np.array([loss.hessian(own, w).mean(0) for own in loss.samples])
        apart = np.linalg.norm(bends - bends.mean(0), 2, axis=(1, 2))
        assert (apart**2).mean() <= found.hessian**2
        largest = max(largest, ((slopes - slopes.mean(0)) ** 2).sum(-1).mean() ** 0.5)
    assert 0.2 * found.gradient < largest <= found.gradient


def test_the_diversity_by_total_variation_is_met_by_clients_that_share_nothing():
    """Two clients, gradients B and -B, curvatures L and -L: p is half of each, 1/2 away from both."""
    found = total_variation_diversity([0.5, 0.5], Constants(0.0, 2.0, 3.0))
    assert found == (np.std([3.0, -3.0]), np.std([2.0, -2.0]))


def test_drift_has_its_printed_terms_and_the_corollary_follows():
    """(59) by hand; (60) is above it for every round length and every step size that it admits."""
    found = drift_bound(COST, step_size=0.05, steps=3, phi=0.2)
    assert found.distance == pytest.approx(1.2**3 * 0.7 / 2)
    assert found.square == pytest.approx((1.2 + 16 * 6 * 0.01) ** 3 * (2 * 0.09 + 0.16) / 16)
    short = short_drift_bound(COST)
    assert short == (pytest.approx(0.7), pytest.approx((2 * 0.09 + 0.16) / 4))
    for tau, share in itertools.product((1, 2, 5, 100), (0.01, 0.5, 1.0)):
        rate = share * meta_step_size(COST, tau)
        for steps in {1, tau // 2 + 1, tau}:
            longer = drift_bound(COST, step_size=rate, steps=steps, phi=1 / (2 * tau))
            assert longer.distance <= short.distance
            assert longer.square <= short.square


def test_drift_is_bounded_on_clients_that_pull_apart():
    """Local steps of Per-FedAvg with exact gradients, in NumPy: sigma_F = 0."""
    loss = LOSSES["cauchy"]
    alpha, tau = 0.8, 6
    cost = meta_cost(loss.constants, loss.variation, MetaBatches(1, 1, 1), step_size=alpha)._replace(noise=0.0)
    rate = meta_step_size(cost, tau)
    for first in POINTS:
        models = [first] * 3
        for steps in range(1, tau + 1):
            models = [
                w - rate * true_gradient(loss, own, w, alpha) for w, own in zip(models, loss.samples, strict=True)
            ]
            apart = np.linalg.norm(np.array(models) - np.mean(models, 0), axis=1)
            found = drift_bound(cost, step_size=rate, steps=steps)
            assert 0 < apart.mean() <= found.distance
            assert (apart**2).mean() <= found.square


def test_theorem_4_5_has_its_printed_terms_and_its_largest_step():
    run = Rounds(local_steps=4, rounds=50, step_size=0.01, gap=1.5)
    bound = per_fedavg_bound(COST, run)
    assert bound == pytest.approx((4 * 1.5 / (0.01 * 4 * 50), 60 * 0.09, 60 * 0.16))
    assert bound.total == pytest.approx(sum(bound))
    assert meta_step_size(COST, 4) == pytest.approx(1 / 80)
    with pytest.raises(UserMistake, match=r"step_size is 0.013, but Theorem 4.5 needs at most 1 / "):
        per_fedavg_bound(COST, run._replace(step_size=0.013))


def test_with_its_largest_step_more_local_steps_do_not_help_theorem_4_5():
    """The text says 1 / (tau K); beta <= 1 / (10 tau L_F) leaves 40 L_F gap / K."""
    starts = [per_fedavg_bound(COST, Rounds(tau, 50, meta_step_size(COST, tau), gap=1.5)).start for tau in (1, 4, 32)]
    assert starts == pytest.approx([40 * 2.0 * 1.5 / 50] * 3)


MISTAKES = {
    "step_size is 0.6, but Per-FedAvg's lemmas need step_size <= 1 / L, which is 0.5": lambda: meta_cost(
        BY_HAND, VARIATION, BATCHES, step_size=0.6
    ),
    "constants.gradient_bound is inf, but": lambda: meta_cost(Constants(0.0, 1.0), VARIATION, BATCHES, step_size=0.1),
    "batches.outer is 0,": lambda: meta_cost(BY_HAND, VARIATION, BATCHES._replace(outer=0), step_size=0.1),
    "variation.gradient_noise is -1,": lambda: meta_cost(
        BY_HAND, VARIATION._replace(gradient_noise=-1), BATCHES, step_size=0.1
    ),
    "delta is 0.0,": lambda: hessian_free_noise(BY_HAND, VARIATION, BATCHES, step_size=0.1, delta=0.0),
    "distances is empty,": lambda: total_variation_diversity([], BY_HAND),
    "distances is -1,": lambda: wasserstein_diversity([-1], gradient_lipschitz=1.0, hessian_lipschitz=1.0),
    "phi is 0,": lambda: drift_bound(COST, step_size=0.1, steps=1, phi=0),
    "rounds is 0,": lambda: per_fedavg_bound(COST, Rounds(1, 0, 0.01, 1.0)),
    "step_size is 0.0,": lambda: per_fedavg_bound(COST, Rounds(1, 1, 0.0, 1.0)),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_told(message):
    with pytest.raises(UserMistake) as mistake:
        MISTAKES[message]()
    assert str(mistake.value).startswith(message)
