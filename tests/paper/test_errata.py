"""What is wrong in print and right here, each pinned by a test that the printed version fails."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect import theory
from idiolect.network.topologies import topology
from idiolect.objectives import maml
from idiolect.testing.small_clients import exact

PAGE = Path(__file__).parents[2] / "docs" / "errata.md"
KEY = jax.random.key(0)
A = jnp.array([[2.0, 0.5], [0.5, 1.0]])


def test_persafl_d1_divides_by_two_delta():
    """Central differences are exact on a quadratic, whatever delta; divided by delta they would be twice too large."""
    oracle = exact(lambda w: 0.5 * w @ A @ w)
    w = jnp.array([1.0, -2.0])
    objective = maml(steps=1, step_size=0.25, derivative="hessian_free", delta=0.5)
    _, found, _ = objective.gradient(oracle, (), w, w, KEY)
    shrink = np.eye(2) - 0.25 * np.asarray(A)
    np.testing.assert_allclose(found, shrink @ A @ shrink @ w, rtol=1e-5)


def test_parspush_line_11_applies_the_last_hessian_first():
    """On a cubic the Hessians along the path do not commute, so their order shows."""
    mix = jnp.array([[1.0, 2.0], [0.0, 1.0]])
    oracle = exact(lambda w: ((mix @ w) ** 3).sum() / 6 + 0.5 * w @ A @ w)
    w, alpha = jnp.array([0.7, -0.4]), 0.2

    def hessian(point):
        return np.asarray(jax.hessian(lambda v: oracle.value(v, KEY))(point))

    first = w - alpha * oracle.gradient(w, KEY)[1]
    second = first - alpha * oracle.gradient(first, KEY)[1]
    outer = np.asarray(oracle.gradient(second, KEY)[1])
    right = (np.eye(2) - alpha * hessian(w)) @ ((np.eye(2) - alpha * hessian(first)) @ outer)
    wrong = (np.eye(2) - alpha * hessian(first)) @ ((np.eye(2) - alpha * hessian(w)) @ outer)
    _, found, _ = maml(steps=2, step_size=alpha).gradient(oracle, (), w, w, KEY)
    np.testing.assert_allclose(found, right, rtol=1e-5)
    assert np.abs(right - wrong).max() > 1e-3


def test_perfedavg_101_fails_where_some_clients_step_and_the_repaired_step_holds():
    """f_i = (w +- 1)^2 / 2, one of two active, one local step from 0: the left side of (101) is -beta (1 - beta)."""
    beta, centres = 0.1, np.array([1.0, -1.0])
    models = beta * centres  # after one step from 0
    slope, own = models, models - centres  # grad F(w') = w', and grad F_i(w') of whoever is active
    assert (slope * own).mean() == pytest.approx(-beta * (1 - beta))
    assert (slope**2).mean() == pytest.approx(beta**2)
    # The repair: at the average w of all models N = grad F_i(w) - grad F(w) has mean zero; V = grad F(w) - grad F(w').
    noise, apart = models.mean() - centres - models.mean(), models.mean() - models
    assert noise.mean() == 0
    assert (slope * noise).mean() == pytest.approx(-(apart * noise).mean())


def test_perfedavg_theorem_4_5_keeps_its_60_with_101_repaired():
    """What X, Y, V and N add in a step, with rn = 1, the worst case: below the theorem's 15 of both."""
    noise, unlike = np.array([1.0, 0.0]), np.array([0.0, 1.0])  # sigma_F^2 and gamma_F^2
    drift = 2 * noise + unlike  # (60b) times L_F^2
    crossed = (3 * (noise + drift + drift) + drift + unlike) / 2  # X, Y, V by Young; V^T N by Young
    curved = 0.1 / 2 * 2 * 4 * (noise + drift + drift + unlike)  # beta L_F <= 1/10
    np.testing.assert_allclose(crossed + curved, [10.5, 5.2])
    assert (crossed + curved <= 15).all()


def test_perfedavg_remark_4_6_divides_by_k_alone():
    """A random t_k from every round has the mean over t; divided by tau K it is tau times too small."""
    rng, (rounds, tau) = np.random.default_rng(0), (4000, 5)
    squares = rng.exponential(1.0, (rounds, tau)) * np.arange(1, tau + 1)
    drawn = squares[np.arange(rounds), rng.integers(tau, size=rounds)]
    assert drawn.sum() / rounds == pytest.approx(squares.mean(), rel=0.1)
    assert drawn.sum() / (tau * rounds) < squares.mean() / 4


def test_perfedavg_37_fails_in_the_spectral_norm_but_not_on_a_vector():
    """Hessians diag(+-1, +-1) with independent signs: sigma_H = 1, and the mean of two is 1 in three cases of four."""
    signs = np.array([[a, b] for a in (1, -1) for b in (1, -1)])
    means = np.array([(first + second) / 2 for first in signs for second in signs])
    assert (np.abs(means).max(1) ** 2).mean() == pytest.approx(3 / 4)  # and not sigma_H^2 / 2
    vector = np.array([0.6, 0.8])
    assert ((means * vector) ** 2).sum(1).mean() == pytest.approx(1 / 2)


def test_perfedavg_a_2_needs_second_derivatives():
    """f_i = +-c w^2 / 2 at w = 0: Hessians meet (22b); by gradients, as in A.2's last display, it would be zero."""
    c, w = 0.7, 0.0
    bound = theory.wasserstein_diversity([c, c], gradient_lipschitz=0.0, hessian_lipschitz=1.0)
    hessians = np.array([jax.hessian(lambda v, z=z: 0.5 * z * v**2)(w) for z in (c, -c)])
    gradients = np.array([jax.grad(lambda v, z=z: 0.5 * z * v**2)(w) for z in (c, -c)])
    assert hessians.std() == pytest.approx(bound.hessian)
    assert gradients.std() == 0


def test_perfedavg_117_is_off_by_half_of_what_the_text_says():
    """f'' = rho |w|, the worst case: the difference of gradients at +-delta v is rho delta v^2 / 2 too much."""
    rho, delta, v = 1.3, 0.2, 0.5

    def slope(w):
        return rho * w * abs(w) / 2

    found = (slope(delta * v) - slope(-delta * v)) / (2 * delta)  # f''(0) v = 0
    assert found == pytest.approx(rho * delta * v**2 / 2)


def test_the_seminar_s_neighbours_make_an_agent_keep_two_shares():
    """With i in N+ and shares of x / (d+ + 1) it keeps one and sends itself one; PARS-Push's N+ leaves i out."""
    others = 3
    paper, seminar = others, others + 1  # d+
    keeps = {"paper": 1 / (paper + 1), "seminar": 1 / (seminar + 1) + 1 / (seminar + 1)}
    assert keeps["paper"] + others / (paper + 1) == pytest.approx(1)
    assert keeps["seminar"] + others / (seminar + 1) == pytest.approx(1)
    assert keeps["seminar"] == pytest.approx(2 / 5) != keeps["paper"]
    graph = topology(4, [(0, j) for j in (1, 2, 3)] + [(j, 0) for j in (1, 2, 3)])
    assert graph.out_degrees[0] == paper


def test_memrl_theorem_1_needs_a_step_that_falls_with_t():
    """On V = -L w^2 / 2 with noisy steps of 1 / (4 L) the gradient stays; with 1 / sqrt(T) it falls like that."""

    def mean_square(alpha: float, steps: int) -> float:
        """(1/T) sum_t E (L w)^2 from w = 0, with L = 1 and unit noise, exactly."""
        shrink, second, total = (1 - alpha) ** 2, 0.0, 0.0
        for _ in range(steps):
            total += second
            second = shrink * second + alpha**2
        return total / steps

    assert mean_square(1 / 4, 40_000) == pytest.approx(mean_square(1 / 4, 400), rel=0.05)
    assert mean_square(1 / 200, 40_000) == pytest.approx(mean_square(1 / 20, 400) / 10, rel=0.15)


def test_qupel_theorem_2_by_its_own_last_step():
    """(36) with eta3 = 1 / (4 lambda_p sqrt(T)) and L_min >= eta3 / 2, term by term, beside the printed bound."""
    tau, kappa, lambda_p, gap, smooth, steps = 7.0, 0.3, 0.2, 1.7, 2.5, 900.0
    eta, root = 1 / (4 * lambda_p * steps**0.5), steps**0.5
    lag = 6 * tau**2 * eta**2 * kappa
    inner = lag * (lambda_p / 2 + 7 * eta * lambda_p**2 + 14 * eta**2 * lambda_p**3)
    inner += 3 * eta * kappa + 6 * lambda_p * eta**2 * kappa + gap / steps
    proved = 72 * smooth**2 / eta * inner + 12 * lambda_p**2 * tau**2 * eta**2 * kappa

    def bound(first, second, third, last):
        slow = first + second + 288 * smooth**2 * lambda_p * gap
        fast = 189 * smooth**2 * tau**2 * kappa + last
        return slow / root + fast / steps + third / steps**1.5 + 216 * smooth**2 * kappa

    right = bound(
        54 * smooth**2 * tau**2 * kappa,
        108 * smooth**2 * kappa,
        94.5 * smooth**2 * tau**2 * kappa,
        0.75 * tau**2 * kappa,
    )
    printed = bound(
        54 * smooth**2 * tau * kappa, 108 * smooth**2, 378 * smooth**2 * tau**2 * kappa, 0.75 * tau**2 * kappa**2
    )
    assert right == pytest.approx(proved)
    assert abs(printed - proved) > 0.1 * proved


def test_what_the_page_names_is_there():
    """Every test and every function of `theory` that docs/errata.md points to."""
    page = PAGE.read_text("utf-8")
    tests = "\n".join(path.read_text("utf-8") for path in PAGE.parents[1].glob("tests/**/test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) > 25
    for name in named:
        assert f"def {name}(" in tests, f"docs/errata.md names {name}, which is no test"
    for name in re.findall(r"`theory\.(\w+)", page):
        assert hasattr(theory, name), f"docs/errata.md names theory.{name}, which is not there"
