"""The exhibit of PersA-FL's Table 1: its trajectories against Algorithms 1 and 2 in NumPy, and its bookkeeping."""

import math

import jax
import numpy as np
import pytest

from idiolect.errors import Interrupted
from idiolect.papers import rate_exhibits
from idiolect.papers.exhibit import Request
from idiolect.papers.exponents import powers
from idiolect.papers.rate_pieces import LAMBDA, LOCAL_STEPS, SMOOTHNESS, Piece, cost_of, problem_of, run_piece

SEEDS, STEPS = (0, 1, 2, 3), 100
LANES = {
    "plain": ((0, 0.0), (7, 0.0)),
    "maml": ((0, 1.6), (7, 3.2)),
    "moreau": ((0, 1e-3), (7, 0.02)),
}


def slope(places: np.ndarray, w: np.ndarray) -> np.ndarray:
    away = w - places
    return (SMOOTHNESS * away / (1 + (away**2).sum(-1, keepdims=True))).mean(0)


def bend(places: np.ndarray, w: np.ndarray) -> np.ndarray:
    away = w - places
    slack = 1 + (away**2).sum(-1)[:, None, None]
    return (SMOOTHNESS * (np.eye(2) / slack - 2 * away[:, :, None] * away[:, None, :] / slack**2)).mean(0)


def descend_inner(places: np.ndarray, w: np.ndarray, nu: float, rate: float) -> np.ndarray:
    """Alg. 2, l. 10-11."""
    theta = w
    while np.linalg.norm(residual := slope(places, theta) + LAMBDA * (theta - w)) > nu:
        theta = theta - rate * residual
    return theta


def local_gradient(option: str, own: np.ndarray, w: np.ndarray, knob: float, key: jax.Array) -> np.ndarray:
    """Alg. 2, l. 6-12, on batches of one sample."""
    if option == "plain":
        return slope(draw(own, key), w)
    if option == "maml":
        inner, hessian, outer = (draw(own, part) for part in jax.random.split(key, 3))
        return (np.eye(2) - knob * bend(hessian, w)) @ slope(outer, w - knob * slope(inner, w))
    return LAMBDA * (w - descend_inner(draw(own, key), w, knob, 0.5 / LAMBDA))


def draw(own: np.ndarray, key: jax.Array) -> np.ndarray:
    return own[np.asarray(jax.random.bits(key, (1,))) % len(own)]


def true_gradient(option: str, places: np.ndarray, w: np.ndarray, knob: float) -> np.ndarray:
    if option == "plain":
        return np.mean([slope(own, w) for own in places], 0)
    if option == "maml":
        return np.mean([(np.eye(2) - knob * bend(own, w)) @ slope(own, w - knob * slope(own, w)) for own in places], 0)
    return np.mean([LAMBDA * (w - descend_inner(own, w, 1e-12, 0.9 / LAMBDA)) for own in places], 0)


@pytest.mark.parametrize("option", LANES)
def test_trajectories_are_those_of_algorithms_1_and_2(option):
    piece = Piece("rates", option, 1, STEPS, LANES[option])
    found = run_piece(piece, SEEDS, hasty=True)
    places = np.asarray(problem_of("rates")[1], np.float64)
    lane, seed = 1, 2  # late, with the second knob
    late, knob = piece.lanes[lane]
    eta = 1 / (LOCAL_STEPS * math.sqrt(cost_of(piece, knob).smoothness * STEPS))
    models, squares, means = [np.array([2.0, 2.0])], [], {2: [], 3: []}
    for t in range(STEPS):
        gradient = true_gradient(option, places, models[t], knob)
        squares.append(gradient @ gradient)
        if t >= STEPS // 2:
            means[4 * t // STEPS].append(gradient)
        choice, turn = jax.random.split(jax.random.fold_in(jax.random.key(seed), t))
        own = places[int(jax.random.bits(choice)) % len(places)]
        w = start = models[max(t - late, 0)]  # Alg. 2, l. 3
        for key in jax.random.split(turn, LOCAL_STEPS):
            w = w - eta * local_gradient(option, own, w, knob, key)
        models.append(models[t] - (start - w))  # Alg. 1, l. 4
    np.testing.assert_allclose(found.model[seed, lane], models[-1], rtol=2e-4)
    np.testing.assert_allclose(found.mean_square[seed, lane], np.mean(squares), rtol=2e-4)
    np.testing.assert_allclose(found.third[seed, lane], np.mean(means[2], 0), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(found.fourth[seed, lane], np.mean(means[3], 0), rtol=1e-3, atol=1e-6)
    assert np.linalg.norm(models[-1] - models[0]) > 0.05


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rates")


def test_quick_runs_end_to_end_and_no_bound_is_violated(folder):
    told = []
    request = Request("quick", SEEDS, folder, progress=lambda what, share: told.append((what, share)))
    findings = rate_exhibits.TABLE_1.perform(request)
    bounds = [claim for claim in findings.claims if "stays below the bound" in claim.statement]
    assert [claim.verdict for claim in bounds] == ["holds"] * 3
    assert all(claim.seeds == SEEDS for claim in findings.claims)
    assert len(findings.pictures) == 8
    assert all(len(picture.figure.data) > 1 for picture in findings.pictures)
    assert [what for what, _ in told] == [piece.name for piece in rate_exhibits.plan("quick")]
    assert sorted(share for _, share in told) == [share for _, share in told]


def test_what_is_finished_is_not_run_again(folder, monkeypatch):
    """Needs the files of the test before."""
    kept = folder / "persa-fl-table-1-quick"
    assert {path.stem for path in kept.iterdir()} == {piece.name for piece in rate_exhibits.plan("quick")}
    before = rate_exhibits.TABLE_1.perform(Request("quick", SEEDS, folder)).claims
    ran = []
    monkeypatch.setattr("idiolect.papers.rate_pieces.run_piece", lambda piece, *rest: ran.append(piece.name))
    assert rate_exhibits.TABLE_1.perform(Request("quick", SEEDS, folder)).claims == before
    assert ran == []
    (kept / "rates-plain-b1-T400.json").write_text("{")
    with pytest.raises(AttributeError):  # the stand-in measures nothing
        rate_exhibits.TABLE_1.perform(Request("quick", SEEDS, folder))
    assert ran == ["rates-plain-b1-T400"]


def test_a_wish_to_stop_is_heard_before_the_next_piece(tmp_path):
    with pytest.raises(Interrupted):
        rate_exhibits.TABLE_1.perform(Request("quick", SEEDS, tmp_path, stop=lambda: True))
    assert list((tmp_path / "persa-fl-table-1-quick").iterdir()) == []


@pytest.mark.parametrize("scale", rate_exhibits.TABLE_1.scales)
def test_every_piece_of_a_scale_has_a_file_of_its_own(scale):
    pieces = rate_exhibits.plan(scale)
    assert len({piece.name for piece in pieces}) == len(pieces)
    assert all(piece.steps % 100 == 0 for piece in pieces)


def test_powers_are_found_with_intervals_that_cover_them():
    rng = np.random.default_rng(0)
    cells = [(x, y) for x in (1.0, 2.0, 4.0) for y in (1.0, 3.0)]
    columns = [5 * x**2 / y + rng.normal(0, 0.05, 20) for x, y in cells]
    of_x, of_y = powers(columns, cells, 2)
    assert of_x.low < 2 < of_x.high
    assert of_y.low < -1 < of_y.high
    assert 0 < of_x.high - of_x.low < 0.1
    (exact,) = powers([np.array([x**3, x**3]) for x in (1.0, 2.0, 5.0)], [(1.0,), (2.0,), (5.0,)], 1)
    assert exact == pytest.approx((3, 3, 3))


def test_without_seeds_settings_or_positive_means_little_is_said():
    one_seed = powers([np.array([1.0]), np.array([4.0])], [(1.0,), (2.0,)], 1)
    assert one_seed == [(pytest.approx(2), -math.inf, math.inf)]
    for columns, cells in (([], []), ([np.ones(3)], [(2.0,)]), ([np.ones(3), -np.ones(3)], [(1.0,), (2.0,)])):
        (power,) = powers(columns, cells, 1)
        assert math.isnan(power.estimate)
        assert (power.low, power.high) == (-math.inf, math.inf)
