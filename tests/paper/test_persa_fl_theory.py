"""PersA-FL: its lemmas on a problem whose constants are known, by exact expectations; its theorems by hand."""

import itertools
import math

import numpy as np
import pytest

from idiolect.contracts.constants import Constants, Variation
from idiolect.errors import UserMistake
from idiolect.problems.synthetic import robust_location
from idiolect.problems.synthetic.locations import training_places
from idiolect.theory import (
    Run,
    client_step_size,
    fedasync_bound,
    least_steps,
    maml_bias,
    maml_bound,
    maml_cost,
    moreau_bound,
    moreau_cost,
    plain_cost,
)

BY_HAND = Constants(0.0, 2.0, 3.0, 0.5)  # L, G, rho
VARIATION = Variation(0.8, 0.6, 0.5, 0.4)
RUN = Run(local_steps=3, staleness=2, steps=1_000_000, gap=1.5)

PROBLEM = robust_location(
    clients=3, dimension=2, samples=7, smoothness=0.7, width=0.9, heterogeneity=0.8, noise=0.6, outliers=0.3, seed=3
)
L, RHO, G = 0.7, PROBLEM.constants.hessian_lipschitz, PROBLEM.constants.gradient_bound
PLACES = training_places(PROBLEM.clients)  # 3 clients with 4 samples each
POINTS = np.random.default_rng(0).uniform(-2.5, 2.5, (12, 2))


def gradients(places: np.ndarray, w: np.ndarray) -> np.ndarray:
    away = w - places
    return L * away / (1 + (away**2).sum(-1, keepdims=True) / 0.9**2)


def hessians(places: np.ndarray, w: np.ndarray) -> np.ndarray:
    away = w - places
    slack = 1 + (away**2).sum(-1)[:, None, None] / 0.9**2
    return L * (np.eye(2) / slack - 2 * away[:, :, None] * away[:, None, :] / 0.9**2 / slack**2)


def maml_gradient(inner: np.ndarray, hessian: np.ndarray, outer: np.ndarray, w: np.ndarray, alpha: float) -> np.ndarray:
    """(9), on the batches D', D'' and D."""
    moved = w - alpha * gradients(inner, w).mean(0)
    return (np.eye(2) - alpha * hessians(hessian, w).mean(0)) @ gradients(outer, moved).mean(0)


def prox_gradient(places: np.ndarray, w: np.ndarray, lambda_: float) -> np.ndarray:
    theta = w
    for _ in range(80):
        theta = theta - (gradients(places, theta).mean(0) + lambda_ * (theta - w)) / (lambda_ + L)
    return lambda_ * (w - theta)


def squared(vectors: np.ndarray) -> float:
    return float((np.asarray(vectors) ** 2).sum(-1).mean())


def batches(places: np.ndarray, size: int) -> list[np.ndarray]:
    """All batches of `size` draws with replacement, as likely as each other."""
    return [places[list(rows)] for rows in itertools.product(range(len(places)), repeat=size)]


def test_the_bounds_have_their_printed_terms():
    """Theorems 1-3 with numbers put in by hand."""
    noise, diversity = 0.64 / 4, 0.25
    bound = fedasync_bound(BY_HAND, VARIATION, RUN, batch_size=4)
    assert bound.start == pytest.approx(4 * math.sqrt(2) * 1.5 / 1000)
    assert bound.noise == pytest.approx(8 * math.sqrt(2) * (noise + diversity) / 1000)
    assert bound.staleness == pytest.approx(80 * 2 * 4 * 5 * (noise + diversity) / 1e6)
    assert bound.personalization == 0
    assert bound.total == pytest.approx(sum(bound))

    alpha, steep = 0.1, 0.2  # alpha L
    smooth = 2 * 1.2**2 + 0.1 * 0.5 * 3
    after = 0.64 * (1 / 4 + steep**2 / 4)
    sigma2 = 3 * 1.2**2 * after + 3 * alpha**2 * 9 * 0.36 / 4 + 3 * alpha**2 * 0.36 / 4 * after
    gamma2 = 12 * 1.2**2 * (1 + steep**2) * 0.25 + 12 * alpha**2 * 9 * 0.16
    bound = maml_bound(BY_HAND, VARIATION, RUN, step_size=alpha, batch_size=4)
    assert bound.start == pytest.approx(4 * math.sqrt(smooth) * 1.5 / 1000)
    assert bound.noise == pytest.approx(8 * math.sqrt(smooth) * (sigma2 + gamma2) / 1000)
    assert bound.staleness == pytest.approx(20 * 3 * smooth * ((1.2 * 3) ** 2 + sigma2) * 5 / 1e6)
    assert bound.personalization == pytest.approx(4 * 3 * steep**2 * 1.2**2 * 0.64 / 4)

    lambda_, nu, stretch = 20.0, 0.05, 20 / 18
    sigma2, gamma2 = 2 * stretch**2 * (0.16 + nu**2), 16 * 400 / (400 - 48 * 4) * 0.25
    bound = moreau_bound(BY_HAND, VARIATION, RUN, lambda_=lambda_, accuracy=nu, batch_size=4, lemma_6="printed")
    assert bound.start == pytest.approx(4 * math.sqrt(40 / 18) * 1.5 / 1000)
    assert bound.noise == pytest.approx(8 * math.sqrt(40 / 18) * (sigma2 + gamma2) / 1000)
    assert bound.staleness == pytest.approx(144 * 40 / 18 * 4 * 5 * (sigma2 + gamma2) / 1e6)
    assert bound.personalization == pytest.approx(4 * 3 * stretch**2 * nu**2)
    repaired = moreau_bound(BY_HAND, VARIATION, RUN, lambda_=lambda_, accuracy=nu, batch_size=4)
    assert repaired.personalization == pytest.approx(4 * 3 * stretch**2 * (nu + 0.4) ** 2)
    assert repaired[:3] == bound[:3]


def test_without_personalization_the_theorems_are_the_first_one_in_form():
    plain = fedasync_bound(BY_HAND, VARIATION, RUN, batch_size=4)
    still = maml_cost(BY_HAND, VARIATION, step_size=0.0, batch_size=4)
    assert (still.smoothness, still.bias, still.gradient_bound) == (2, 0, 3)
    assert still.noise**2 == pytest.approx(3 * 0.16)
    assert still.diversity**2 == pytest.approx(12 * 0.25)
    maml = maml_bound(BY_HAND, VARIATION, RUN, step_size=0.0, batch_size=4)
    assert (maml.start, maml.personalization) == (plain.start, 0)
    far = moreau_cost(BY_HAND, VARIATION, lambda_=1e9, accuracy=0.0, batch_size=4, lemma_6="printed")
    assert far.smoothness == pytest.approx(2)
    assert far.bias == 0
    assert far.noise**2 == pytest.approx(2 * 0.16)
    assert far.diversity == pytest.approx(4 * 0.5)


@pytest.mark.parametrize("term", ["start", "noise", "staleness", "personalization"])
def test_terms_fall_with_steps_and_grow_with_staleness_as_table_1_says(term):
    def of(**changes: float) -> float:
        return getattr(maml_bound(BY_HAND, VARIATION, RUN._replace(**changes), step_size=0.1, batch_size=4), term)

    falls = {"start": 2, "noise": 2, "staleness": 4, "personalization": 1}[term]
    assert of() / of(steps=4_000_000) == pytest.approx(falls)
    assert of(staleness=7) / of(staleness=0) == pytest.approx(50 if term == "staleness" else 1)


def test_the_personal_terms_are_alpha_squared_over_b_and_nu_squared():
    def of_maml(alpha: float, b: int) -> float:
        return maml_bound(BY_HAND, VARIATION, RUN, step_size=alpha, batch_size=b).personalization

    def of_moreau(nu: float) -> float:
        cost = {"lambda_": 20.0, "batch_size": 1, "lemma_6": "printed"}
        return moreau_bound(BY_HAND, VARIATION, RUN, accuracy=nu, **cost).personalization

    assert of_maml(0.1, 1) / of_maml(0.1, 8) == pytest.approx(8)
    assert of_maml(2e-6, 1) / of_maml(1e-6, 1) == pytest.approx(4, rel=1e-4)
    assert of_moreau(0.2) / of_moreau(0.1) == pytest.approx(4)


def test_the_step_size_and_the_least_number_of_steps():
    cost = plain_cost(BY_HAND, VARIATION, batch_size=1)
    assert client_step_size(cost, local_steps=5, steps=200) == pytest.approx(1 / (5 * 20))
    assert least_steps("fedasync", cost, 3, 2) == 160 * 2 * 10 * 27
    assert least_steps("moreau", cost, 3, 2) == 288 * 2 * 10 * 27
    assert least_steps("maml", cost, 3, 2) == 128
    with pytest.raises(UserMistake, match="steps is 100, but the theorem needs at least 86400"):
        fedasync_bound(BY_HAND, VARIATION, RUN._replace(steps=100), batch_size=1)


def test_theorem_3_needs_the_cube_of_the_staleness():
    """(C61) with beta = 1 must leave a half; at the printed T >= 288 L_c (Q+7) (tau+1)^2 it does not."""

    def left(power: int, local_steps: int, tau: int) -> float:
        over = 1 / (288 * (local_steps + 7) * (tau + 1) ** power)  # L_c / T
        late = 32 * over * (1 + 2 * local_steps) * tau * (tau + 1) ** 2 * (1 + 2 * math.sqrt(over) / local_steps)
        return 1 - 4 * math.sqrt(over) - late

    assert left(2, 10, 8) < 0
    for local_steps, tau in itertools.product((1, 2, 10, 100), (0, 1, 3, 8, 50)):
        assert left(3, local_steps, tau) > 0.5


def test_assumptions_hold_with_the_problem_s_constants():
    variation = PROBLEM.variation
    for w in POINTS:
        means, curvatures = [], []
        for places in PLACES:
            of_samples, bends = gradients(places, w), hessians(places, w)
            means.append(of_samples.mean(0))
            curvatures.append(bends.mean(0))
            assert np.linalg.norm(of_samples, axis=1).max() <= G
            assert np.abs(np.linalg.eigvalsh(bends)).max() <= L * (1 + 1e-9)
            assert squared(of_samples - means[-1]) <= variation.gradient_noise**2
            apart = np.linalg.norm(bends - curvatures[-1], 2, axis=(1, 2))
            assert (apart**2).mean() <= variation.hessian_noise**2
        assert squared(np.array(means) - np.mean(means, 0)) <= variation.gradient_diversity**2
        apart = np.linalg.norm(np.array(curvatures) - np.mean(curvatures, 0), 2, axis=(1, 2))
        assert (apart**2).mean() <= variation.hessian_diversity**2


@pytest.mark.parametrize("alpha", [0.3, 1.2])
@pytest.mark.parametrize("size", [1, 2])
def test_lemmas_2_to_4_hold_at_random_points(alpha, size):
    """The expectation is over all batches there are."""
    cost = maml_cost(PROBLEM.constants, PROBLEM.variation, step_size=alpha, batch_size=size)
    sharper = maml_bias(PROBLEM.constants, PROBLEM.variation, step_size=alpha, batch_size=size)
    assert sharper <= cost.bias
    rng = np.random.default_rng(1)
    for w in POINTS:
        exact = np.array([maml_gradient(own, own, own, w, alpha) for own in PLACES])
        assert np.linalg.norm(exact, axis=1).max() <= cost.gradient_bound
        assert squared(exact - exact.mean(0)) <= cost.diversity**2
        own, truth = PLACES[0], exact[0]
        drawn = batches(own, size)
        # The mean over D and D'' is the one over whole data; that over D' is not, as it goes through a curved gradient.
        mean = np.mean([maml_gradient(inner, own, own, w, alpha) for inner in drawn], axis=0)
        assert np.linalg.norm(mean - truth) <= sharper
        triples = [[drawn[k] for k in rng.integers(len(drawn), size=3)] for _ in range(300)]
        assert squared(np.array([maml_gradient(*triple, w, alpha) for triple in triples]) - truth) <= cost.noise**2


@pytest.mark.parametrize("size", [1, 2])
def test_lemmas_6_and_7_hold_at_random_points_and_the_printed_bias_does_not(size):
    """Solved inner problems, nu = 0: the printed Lemma 6 has no bias then, though batches with other curvatures do."""
    lambda_ = 8 * L
    options = {"lambda_": lambda_, "accuracy": 0.0, "batch_size": size}
    cost = moreau_cost(PROBLEM.constants, PROBLEM.variation, **options)
    printed = moreau_cost(PROBLEM.constants, PROBLEM.variation, **options, lemma_6="printed")
    assert printed.bias == 0
    largest = 0.0
    for w in POINTS:
        exact = np.array([prox_gradient(own, w, lambda_) for own in PLACES])
        assert squared(exact - exact.mean(0)) <= cost.diversity**2
        errors = np.array([prox_gradient(batch, w, lambda_) for batch in batches(PLACES[0], size)]) - exact[0]
        assert squared(errors) <= cost.noise**2
        largest = max(largest, float(np.linalg.norm(errors.mean(0))))
    assert 1e-3 * G < largest <= cost.bias


def test_lemmas_1_and_5_bound_how_fast_the_personal_gradients_change():
    alpha, lambda_, width = 1.2, 8 * L, 1e-4
    smooth = maml_cost(PROBLEM.constants, PROBLEM.variation, step_size=alpha, batch_size=1).smoothness
    envelope = moreau_cost(PROBLEM.constants, PROBLEM.variation, lambda_=lambda_, accuracy=0.0, batch_size=1).smoothness
    for w, direction in zip(POINTS, np.random.default_rng(2).standard_normal((12, 2)), strict=True):
        ahead = width * direction / np.linalg.norm(direction)
        for own in PLACES:
            change = maml_gradient(own, own, own, w + ahead, alpha) - maml_gradient(own, own, own, w - ahead, alpha)
            assert np.linalg.norm(change) <= smooth * 2 * width
            change = prox_gradient(own, w + ahead, lambda_) - prox_gradient(own, w - ahead, lambda_)
            assert np.linalg.norm(change) <= envelope * 2 * width


MISTAKES = {
    "lambda is 13, but Lemma 7 and Theorem 3 need lambda >= 7 L, which is 14": lambda: moreau_cost(
        BY_HAND, VARIATION, lambda_=13.0, accuracy=0.0, batch_size=1
    ),
    "accuracy is -1,": lambda: moreau_cost(BY_HAND, VARIATION, lambda_=20.0, accuracy=-1, batch_size=1),
    "step_size is -0.1,": lambda: maml_cost(BY_HAND, VARIATION, step_size=-0.1, batch_size=1),
    "batch_size is 0,": lambda: plain_cost(BY_HAND, VARIATION, batch_size=0),
    "variation.hessian_noise is nan,": lambda: plain_cost(
        BY_HAND, VARIATION._replace(hessian_noise=math.nan), batch_size=1
    ),
    "staleness is -1,": lambda: fedasync_bound(BY_HAND, VARIATION, RUN._replace(staleness=-1), batch_size=1),
    "gap is -1,": lambda: fedasync_bound(BY_HAND, VARIATION, RUN._replace(gap=-1), batch_size=1),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_told(message):
    with pytest.raises(UserMistake) as mistake:
        MISTAKES[message]()
    assert str(mistake.value).startswith(message)
