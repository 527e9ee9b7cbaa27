"""The exhibit of Per-FedAvg's Theorem 4.5: its trajectories against Algorithm 1 in NumPy, and its bookkeeping."""

import jax
import numpy as np
import pytest

from idiolect.errors import Interrupted
from idiolect.papers import findings, round_claims, round_exhibits
from idiolect.papers.exhibit import Request
from idiolect.papers.round_measures import Noise, NoiseCase, noise_of, unlike
from idiolect.papers.round_pieces import (
    SMOOTHNESS,
    People,
    RoundPiece,
    Setting,
    first_model,
    places,
    run_rounds,
    step_size,
)
from idiolect.papers.round_trajectories import RoundMeasured

SEEDS, STEPS = (0, 1, 2, 3), 200
NAME = "per-fedavg-theorem-4-5"
LANES = (
    Setting(1),
    Setting(4, 2, alpha=0.8, delta=0.5),
    *(Setting(tau, active) for tau in (2, 5) for active in (5, 3, 1)),
)


def slope(own, w):
    away = w - own
    return (SMOOTHNESS * away / (1 + (away**2).sum(-1, keepdims=True))).mean(0)


def bend(own, w):
    away = w - own
    slack = 1 + (away**2).sum(-1)[:, None, None]
    return (SMOOTHNESS * (np.eye(2) / slack - 2 * away[:, :, None] * away[:, None, :] / slack**2)).mean(0)


def estimated(derivative, own, w, setting, key):
    """(9), (112) or (118) on batches of one sample: inner, Hessian and outer, in the order in which they are drawn."""
    inner, hessian, outer = (own[np.asarray(jax.random.bits(k, (1,))) % len(own)] for k in jax.random.split(key, 3))
    after = slope(outer, w - setting.alpha * slope(inner, w))
    if derivative == "first_order":
        return after
    product = bend(hessian, w) @ after
    if derivative == "hessian_free":
        width = setting.delta
        product = (slope(hessian, w + width * after) - slope(hessian, w - width * after)) / (2 * width)
    return after - setting.alpha * product


def true_gradients(where, w, alpha):
    return np.array([(np.eye(2) - alpha * bend(own, w)) @ slope(own, w - alpha * slope(own, w)) for own in where])


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("first_order", "hessian_free")]  # compile long


@pytest.mark.parametrize("derivative", ["exact", *SLOW])
def test_trajectories_are_those_of_algorithm_1(derivative):
    piece = RoundPiece("rates", People(0.5, 0.3), derivative, 1, STEPS, LANES)
    found = run_rounds(piece, SEEDS, hasty=True)
    seed, lane = 2, 1
    setting, beta, where = LANES[lane], step_size(piece, lane), places(piece.people, seed).astype(np.float64)
    tau, server = setting.local_steps, first_model(piece, seed)
    assert beta == pytest.approx(1 / (10 * tau * (4 + 0.8 * 0.5 * (3 + 8**0.5) / 4)))
    of_rounds, of_steps = jax.random.split(jax.random.key(seed))
    squares, misfits, apart, means = [], [], [], {2: [], 3: []}
    for number in range(STEPS // tau):
        order = np.asarray(jax.random.permutation(jax.random.fold_in(of_rounds, number), len(where)))
        active = np.flatnonzero(order < setting.active)
        assert len(active) == 2
        models = np.array([server] * len(where))  # everybody starts from w_k
        for t in range(tau):
            at = tau * number + t
            average = models[active].mean(0)
            every = true_gradients(where, average, setting.alpha)
            gradient = every.mean(0)
            squares.append(gradient @ gradient)
            if t:
                misfits.append(gradient @ (every[active].mean(0) - gradient))
            if at >= STEPS // 2:
                means[4 * at // STEPS].append(gradient)
            keys = [jax.random.split(key, 1)[0] for key in jax.random.split(jax.random.fold_in(of_steps, at), 5)]
            moves = [estimated(derivative, *who, setting, key) for *who, key in zip(where, models, keys, strict=True)]
            models = models - beta * np.array(moves)
        apart.append(np.linalg.norm(models - models.mean(0), axis=1))
        server = models[active].mean(0)  # (10)
    np.testing.assert_allclose(found.model[seed, lane], server, rtol=1e-4)
    np.testing.assert_allclose(found.mean_square[seed, lane], np.mean(squares), rtol=1e-4)
    np.testing.assert_allclose(found.late_square[seed, lane], np.mean(squares[STEPS // 2 :]), rtol=1e-4)
    np.testing.assert_allclose(found.misfit[seed, lane], np.mean(misfits), rtol=1e-2)
    np.testing.assert_allclose(found.distance[seed, lane], np.mean(apart), rtol=1e-3)
    np.testing.assert_allclose(found.square[seed, lane], np.mean(np.square(apart)), rtol=1e-3)
    np.testing.assert_allclose(found.third[seed, lane], np.mean(means[2], 0), rtol=1e-3)
    np.testing.assert_allclose(found.fourth[seed, lane], np.mean(means[3], 0), rtol=1e-3)
    assert np.linalg.norm(server - first_model(piece, seed)) > 0.05


def test_noise_is_that_of_the_estimate_at_its_worst(tmp_path):
    """Against all batches of one sample there are, at the worst of three points and of all clients."""
    people, setting = People(0.3, 0.3), Setting(1, alpha=1.0, delta=0.3)
    found = noise_of(NoiseCase("hessian_free", 1, 1.0, 0.3), people, (0,), 20_000, tmp_path, hasty=True)
    where, worst = places(people, 0).astype(np.float64), 0.0
    far, near = first_model(RoundPiece("rates", people, "exact", 1, 100, ()), 0), where.mean((0, 1))
    for w in (far, (far + near) / 2, near):
        for own, truth in zip(where, true_gradients(where, w, 1.0), strict=True):
            slopes = np.array([slope(one[None], w) for one in own])
            afters = np.array([[slope(one[None], w - inner) for one in own] for inner in slopes]).reshape(-1, 2)
            ahead, behind = (
                np.array([[slope(one[None], w + sign * setting.delta * after) for after in afters] for one in own])
                for sign in (1, -1)
            )
            errors = afters - (ahead - behind) / (2 * setting.delta) - truth
            worst = max(worst, float((errors**2).sum(-1).mean()))
    np.testing.assert_allclose(found.found, worst, rtol=0.05)
    assert (found.found <= found.sharper).all()
    assert (found.sharper < found.printed).all()


def test_clients_in_one_place_each_are_as_far_apart_as_their_places():
    """W_1(p_i, p) is the mean distance to all places, one's own included."""
    people = People(0.4)
    where = places(people, 3)[:, 0].astype(np.float64)
    apart = np.linalg.norm(where[:, None] - where, axis=2).mean(1)
    found = unlike(people, (3,))
    np.testing.assert_allclose(found.distance, np.sqrt((apart**2).mean()), rtol=1e-6)
    assert found.bounds[0].gradient == pytest.approx(float(found.distance[0]))  # L = 1
    assert 0.2 * found.bounds[0].gradient < found.gradient[0] <= found.bounds[0].gradient


def test_a_wish_to_stop_is_heard_before_the_next_piece(tmp_path):
    with pytest.raises(Interrupted):
        round_exhibits.THEOREM_4_5.perform(Request("quick", SEEDS, tmp_path, stop=lambda: True))
    assert list((tmp_path / f"{NAME}-quick").iterdir()) == []


@pytest.mark.parametrize("scale", round_exhibits.THEOREM_4_5.scales)
def test_every_piece_of_a_scale_has_a_file_of_its_own(scale):
    pieces = round_exhibits.plan(scale)
    assert len({piece.name for piece in pieces}) == len(pieces)
    assert len({len(piece.lanes) for piece in pieces}) == 1
    for piece in pieces:
        assert all(piece.steps % lane.local_steps == 0 for lane in piece.lanes)
        assert all(not lane.longest or lane.longest >= lane.local_steps for lane in piece.lanes)


def test_every_text_on_its_claims_is_asked_for(monkeypatch, tmp_path):
    """On made-up numbers: gradients that do not care for tau, and a difference in (101)."""
    asked = set()
    monkeypatch.setattr(round_claims, "_found", lambda claim: asked.add(claim) or claim)

    def made(piece, seeds, hasty):
        shape = (len(seeds), len(piece.lanes))
        wiggle = 1 + 0.01 * np.arange(len(seeds))[:, None] * np.ones(shape)
        knob = np.array([lane.local_steps * lane.alpha * lane.delta for lane in piece.lanes])
        level = wiggle * (knob + piece.people.heterogeneity) * STEPS / piece.steps
        scalars = [level, level, -0.1 * level, level, level]
        return RoundMeasured(*scalars, *[level[..., None] ** 0.5] * 3)

    monkeypatch.setattr("idiolect.papers.round_pieces.run_rounds", made)
    noise = Noise(NoiseCase("hessian_free", 1, 1.0), *[np.ones(len(SEEDS))] * 3)
    monkeypatch.setattr(round_exhibits, "noise_of", lambda *asked: noise)
    round_exhibits.THEOREM_4_5.perform(Request("quick", SEEDS, tmp_path))
    assert asked == set(findings.texts()[NAME])
