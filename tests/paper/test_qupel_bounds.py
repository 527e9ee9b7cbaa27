"""QuPeL, A.6, Lemma 1, Corollary 1 and Theorem 2, against the inequality (36) and a plain loop of Algorithm 2."""

import numpy as np
import pytest

from idiolect.contracts.constants import Constants
from idiolect.errors import UserMistake
from idiolect.theory import (
    disagreement_bound,
    diversity,
    levels_step_size,
    quantized_drift_bound,
    qupel_bound,
    shared_step_size,
    staircase,
    weights_step_size,
)

N, D, TAU, T, P, LAMBDA_P = 4, 3, 5, 400, 1.0, 0.4
STAIRS = staircase(P, widest_gap=4.0, span=4.0, levels=2, weights=D)


def test_the_bound_is_what_36_becomes_with_its_eta3():
    known, kappa, fall = Constants(0.0, 2.0, 3.0), 0.7, 1.3
    found = qupel_bound(known, STAIRS, lambda_p=LAMBDA_P, kappa=kappa, tau=TAU, iterations=T, fall=fall)
    eta = 1 / (4 * LAMBDA_P * np.sqrt(T))
    p, tk = LAMBDA_P, TAU**2 * kappa
    large = max(
        1.0,
        3.0 * STAIRS.smooth2 + STAIRS.bound2 * 2.0 * STAIRS.l2,
        5 / 3 * p + 2.0 + 3.0 * STAIRS.smooth1 + STAIRS.bound1 * 2.0 * STAIRS.l1,
    )
    small = eta / 2  # C.3: L_min >= eta3 / 2
    inside = (eta + 2 * p * eta**2) * (36 * p**2 * tk * eta**2 + 3 * kappa)
    inside += (0.5 + eta * p + 2 * p**2 * eta**2) * p * 6 * tk * eta**2 + fall / T
    assert found.total == pytest.approx(36 * large**2 / small * inside + 2 * p**2 * 6 * tk * eta**2, rel=1e-12)
    longer = qupel_bound(known, STAIRS, lambda_p=p, kappa=kappa, tau=TAU, iterations=100 * T, fall=fall)
    assert (found.root / longer.root, found.linear / longer.linear) == (pytest.approx(10), pytest.approx(100))
    assert (found.fast / longer.fast, found.floor / longer.floor) == (pytest.approx(1000), 1.0)


class Clients:
    """Logistic losses with batches of all rows: values and gradients of F_i without R, written out."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.rows = rng.standard_normal((N, 30, D))
        self.signs = np.sign((self.rows * rng.standard_normal((N, 1, D))).sum(-1))
        smooth = max(np.linalg.eigvalsh(a.T @ a / 30).max() for a in self.rows) / 4
        self.constants = Constants(0.0, smooth, max(np.linalg.norm(a, axis=1).mean() for a in self.rows))

    def value(self, i, x):
        return np.logaddexp(0, -self.signs[i] * (self.rows[i] @ x)).mean()

    def slope(self, i, x):
        return -(self.rows[i].T @ (self.signs[i] / (1 + np.exp(self.signs[i] * (self.rows[i] @ x))))) / 30

    def cost(self, i, x, c, w):
        return self.value(i, x) + self.value(i, rounded(x, c)) + LAMBDA_P / 2 * ((x - w) ** 2).sum()

    def in_weights(self, i, x, c):
        s = 1 / (1 + np.exp(-P * (x - c.mean())))
        return self.slope(i, x) + self.slope(i, rounded(x, c)) * (c[1] - c[0]) * P * s * (1 - s)

    def in_levels(self, i, x, c):
        s = 1 / (1 + np.exp(-P * (x - c.mean())))
        bent = (c[1] - c[0]) * P * s * (1 - s) / 2
        at = self.slope(i, rounded(x, c))
        return np.array([at @ (1 - s - bent), at @ (s - bent)])


def rounded(x, c):
    return c[0] + (c[1] - c[0]) / (1 + np.exp(-P * (x - c.mean())))


@pytest.fixture(scope="module")
def ran():
    """Algorithm 2 with lambda = 0 and Theorem 2's step sizes: what each side of the three inequalities came to."""
    clients = Clients()
    eta1 = weights_step_size(clients.constants, STAIRS, LAMBDA_P)
    eta2, eta3 = levels_step_size(clients.constants, STAIRS), shared_step_size(LAMBDA_P, T)
    x, c, w = np.zeros((N, D)), np.tile([-1.0, 1.0], (N, 1)), np.zeros((N, D))
    began = np.mean([clients.cost(i, x[i], c[i], w[i]) for i in range(N)])
    kappa, drift, apart, stationary = 0.0, [], [], []
    for t in range(T):
        if t % TAU == 0:  # l. 10-16
            w = np.tile(w.mean(0), (N, 1))
            continue
        mean = w.mean(0)
        for i in range(N):
            x[i] = x[i] - eta1 * (clients.in_weights(i, x[i], c[i]) + LAMBDA_P * (x[i] - w[i]))
            first = clients.in_weights(i, x[i], c[i]) + LAMBDA_P * (x[i] - mean)
            c[i] = c[i] - eta2 * clients.in_levels(i, x[i], c[i])
            parts = (first, clients.in_levels(i, x[i], c[i]), LAMBDA_P * (mean - x[i]))
            stationary.append(sum((part**2).sum() for part in parts))
        grads = LAMBDA_P * (w - x)
        kappa = max(kappa, diversity(x, LAMBDA_P).mean())
        drift.append(((w - mean) ** 2).sum(1).mean())
        apart.append(((grads - grads.mean(0)) ** 2).sum(1).mean())
        w = w - eta3 * grads  # l. 8
    fall = began - np.mean([clients.cost(i, x[i], c[i], w[i]) for i in range(N)])
    assert np.ptp(c, axis=1).max() < 4.0  # the region for which the constants were asked
    return clients, kappa, eta3, fall, np.mean(drift), np.mean(apart), np.mean(stationary)


def test_the_loop_s_gradients_are_those_of_its_costs():
    clients, rng = Clients(), np.random.default_rng(1)
    x, c, w, h = rng.standard_normal(D), np.array([-0.8, 0.9]), rng.standard_normal(D), 1e-6
    for k in range(D):
        e = np.eye(D)[k] * h
        numeric = (clients.cost(0, x + e, c, w) - clients.cost(0, x - e, c, w)) / (2 * h)
        assert numeric == pytest.approx(clients.in_weights(0, x, c)[k] + LAMBDA_P * (x - w)[k], abs=1e-7)
    for k in range(2):
        e = np.eye(2)[k] * h
        numeric = (clients.cost(0, x, c + e, w) - clients.cost(0, x, c - e, w)) / (2 * h)
        assert numeric == pytest.approx(clients.in_levels(0, x, c)[k], abs=1e-7)


def test_lemma_1_and_corollary_1_hold_in_the_loop_and_say_something(ran):
    _, kappa, eta3, _, drift, apart, _ = ran
    assert 0 < drift <= quantized_drift_bound(kappa, LAMBDA_P, eta3, TAU)
    assert 0 < apart <= disagreement_bound(kappa, LAMBDA_P, eta3, TAU)
    assert drift > 1e-3 * quantized_drift_bound(kappa, LAMBDA_P, eta3, TAU), "not off by orders of magnitude"
    with pytest.raises(UserMistake, match=r"step_size is 1, but Lemma 1 asks for at most 0\.1443 with tau = 5"):
        quantized_drift_bound(kappa, LAMBDA_P, 1.0, TAU)


def test_theorem_2_holds_in_the_loop(ran):
    clients, kappa, _, fall, _, _, stationary = ran
    found = qupel_bound(clients.constants, STAIRS, lambda_p=LAMBDA_P, kappa=kappa, tau=TAU, iterations=T, fall=fall)
    assert fall > 0
    assert 0 < stationary <= found.total
    with pytest.raises(UserMistake, match="iterations is 400, but must be at least 441"):
        qupel_bound(clients.constants, STAIRS, lambda_p=LAMBDA_P, kappa=kappa, tau=21, iterations=T, fall=fall)


def test_kappa_is_the_spread_of_gradients_in_w_wherever_w_is():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((N, D))
    for w in rng.standard_normal((3, D)):
        h, grads = 1e-5, np.zeros((N, D))
        for i in range(N):
            for k in range(D):
                e = np.eye(D)[k] * h
                up, down = (LAMBDA_P / 2 * ((x[i] - v) ** 2).sum() for v in (w + e, w - e))
                grads[i, k] = (up - down) / (2 * h)
        direct = ((grads - grads.mean(0)) ** 2).sum(1)
        assert diversity(x, LAMBDA_P) == pytest.approx(direct, rel=1e-5)
