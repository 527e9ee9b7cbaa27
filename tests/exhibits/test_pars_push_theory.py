"""The exhibits of PARS-Push's theorems: what they decide on numbers made by hand, and their oracles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect.objectives import maml
from idiolect.papers import feature_scales, proposition_exhibit, proposition_pieces, theorem_exhibit, two_agents

SEEDS = list(range(8))
TIMES = (250, 500, 1000, 2000)


def noisy(means) -> np.ndarray:
    """Seeds x settings, a few per cent around these means."""
    return np.asarray(means) * (1 + 0.03 * np.random.default_rng(0).standard_normal((len(SEEDS), len(means))))


def measured(time=-1.0, agents=-1.0, sleep=1.0, delay=0.0, late=1.0) -> proposition_exhibit.Measured:
    factors = [proposition_exhibit.gap_factor(1 / w, w) for w in (1, 2, 4, 8)]
    against_time = noisy([t**time for t in TIMES])
    return proposition_exhibit.Measured(
        TIMES,
        (4, 8, 16),
        against_time,
        late * against_time,
        noisy([n**agents for n in (4, 8, 16)]),
        noisy([factor**sleep for factor in factors]),
        noisy([d**delay for d in (1, 2, 4, 8)]),
    )


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, []),
        ({"time": -0.5}, [0]),
        ({"agents": -0.5}, [1]),
        ({"sleep": 2.0}, [2, 3]),
        ({"sleep": 0.5}, [3]),
        ({"delay": 0.5}, [4]),
        ({"late": 5.0}, [5]),
    ],
)
def test_proposition_1_is_decided_by_the_powers(changes, wrong):
    verdicts = [claim.verdict for claim in proposition_exhibit.claims(measured(**changes), SEEDS)]
    assert [k for k, verdict in enumerate(verdicts) if verdict != "holds"] == wrong


@pytest.mark.parametrize(("spread", "verdict"), [(0.03, "fails"), (2.0, "not shown")])
def test_what_wide_intervals_cannot_exclude_has_not_failed(spread, verdict):
    rng, means = np.random.default_rng(1), np.array([t**-0.6 for t in TIMES])
    strewn = means * np.exp(spread * rng.standard_normal((len(SEEDS), len(TIMES))))
    claim = proposition_exhibit.claims(measured()._replace(against_time=strewn), SEEDS)[0]
    assert claim.verdict == verdict


def test_the_factor_of_gaps_is_that_of_a_long_chain_of_wakings():
    rng, gaps, slept = np.random.default_rng(0), [], 0
    for chance in rng.random(40_000):
        slept += 1
        if chance < 0.25 or slept == 4:
            gaps.append(slept)
            slept = 0
    assert proposition_exhibit.gap_factor(0.25, 4) == pytest.approx(np.square(gaps).sum() / np.sum(gaps), rel=0.02)


@pytest.mark.parametrize(
    ("rounds", "agents", "scale", "kick", "wrong"),
    [
        (-0.5, -0.5, 1e-3, 0.5, []),
        (-0.2, -0.5, 1e-3, 0.5, [0]),
        (-0.5, 0.0, 1e-3, 0.5, [1]),
        (-0.5, -0.5, 1e3, 2.0, [2, 4]),
    ],
)
def test_theorem_1_is_decided_by_powers_and_bounds(rounds, agents, scale, kick, wrong):
    found = {}
    for n, t in ((4, 1600), (8, 400), (8, 1600), (16, 1600)):
        square, apart = scale * n**agents * t**rounds, n / t
        found[n, t] = np.concatenate([noisy([square, apart]), np.ones((len(SEEDS), 1))], axis=1)
    kicked = np.column_stack([np.full(len(SEEDS), kick), np.full(len(SEEDS), 1e-9)])
    claims = theorem_exhibit.claims(found, kicked, SEEDS)
    assert [k for k, claim in enumerate(claims) if claim.verdict != "holds"] == wrong


def test_theorem_1_s_gradient_is_the_mean_of_what_agents_draw():
    """Its closed form over all batches against the mean of the library's stochastic gradients."""
    given = theorem_exhibit._problem(2, 3)
    z = jnp.array([0.7, -0.4])
    exact = jax.grad(theorem_exhibit._cost, argnums=1)(theorem_exhibit.samples_of(given), z)
    objective = maml(steps=1, step_size=0.5, batches="shared")

    def drawn(client):
        oracle = given.oracle(given.clients.train.shard(client), 1)
        keys = jax.random.split(jax.random.key(client), 20_000)
        return jax.vmap(lambda key: objective.gradient(oracle, (), z, z, key)[1])(keys).mean(0)

    np.testing.assert_allclose(np.mean([drawn(0), drawn(1)], 0), exact, atol=0.01)


def test_fig_3_s_second_point_is_the_best_to_start_from():
    """Not just better than the first: better than any near it."""
    pair, rng = two_agents.pair_of(0), np.random.default_rng(0)
    for z in pair.personal[0, 0] + 0.1 * rng.standard_normal((20, 2)):
        path = np.repeat(z[None], 2, 0)
        for _ in range(2):
            path = path - 0.3 * np.einsum("nij,nj->ni", pair.matrices, path - pair.centres)
        off = path - pair.centres
        assert 0.5 * np.einsum("ni,nij,nj->n", off, pair.matrices, off).mean() >= pair.costs[1]
    assert pair.costs[1] < pair.costs[0]


def test_a_gain_is_nothing_without_steps_of_a_length():
    given = feature_scales._problem(0.5, 0, small=True)
    assert feature_scales.gain(given, 1, 1e-9, 0) == pytest.approx(0.0, abs=1e-6)
    assert feature_scales.ratio(given, 1) > 1


def test_seeds_that_have_no_room_side_by_side_come_to_the_same_one_after_the_other(monkeypatch):
    piece = proposition_pieces.plan("quick")[0]
    together = piece.run((0, 1))
    monkeypatch.setattr(proposition_pieces, "_AT_ONCE", 2)
    apart = piece.run((0, 1))
    assert together.shape == (1, 2, len(piece.times))
    np.testing.assert_allclose(apart, together, rtol=1e-5)
    assert not np.allclose(together[:, 0], together[:, 1]), "two seeds"
