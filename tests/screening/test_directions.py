"""Screening by direction: an update is held against the mean direction of what other clients sent last."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect.contracts import Screening, Upload
from idiolect.engines.directions import KEPT, agreement, direction
from idiolect.engines.screening import AGAINST, CUT, FINE, TOO_LARGE, begin, screen, tally
from idiolect.trees import norm

MODEL = jnp.ones(4)
RULE = Screening(least_cosine=-0.5, strikes=0)
HONEST = [np.array([1.0, 0.1 * k, 0.0, 0.0]) for k in range(-3, 4)]


@functools.partial(jax.jit, static_argnames="rule")
def looked_at(watch, delta, client, rule):
    delta = jnp.asarray(delta, jnp.float32)
    return screen(watch, Upload(delta, jnp.float32(1)), norm(delta), client, MODEL, rule)


def after(deltas, clients=None, rule=RULE):
    """A watch that has seen these updates, each from another client if nothing is said, and the verdicts."""
    watch, verdicts = begin(MODEL, 50, rule), []
    for number, delta in enumerate(deltas):
        watch, _, verdict = looked_at(watch, delta, number if clients is None else clients[number], rule=rule)
        verdicts.append(int(verdict))
    return watch, verdicts


def test_who_points_against_the_others_is_refused_and_counted():
    watch, verdicts = after([*HONEST, -HONEST[0], HONEST[1]], clients=[*range(7), 20, 1])
    assert verdicts == [FINE] * 7 + [AGAINST, FINE]
    assert tally(watch) == {20: {"against the others": 1}}


@pytest.mark.parametrize("crowd", [7, 45])
def test_the_cosine_is_that_of_a_plain_loop(crowd):
    rng = np.random.default_rng(0)
    deltas, clients = rng.normal(size=(60, 4)) + 0.5, rng.integers(0, crowd, 60)
    deltas[::7] *= -1e3  # long ones have no more of a voice than others
    rule = Screening(too_large=1e9, least_cosine=0.1, strikes=0)
    heard: dict[int, np.ndarray] = {}
    wanted = []
    for delta, client in zip(deltas, clients, strict=True):
        unit = delta / np.linalg.norm(delta)
        others = [voice for who, voice in list(heard.items())[-31:] if who != client]
        mean = np.sum(others, axis=0) if others else unit
        against = len(others) >= 5 and unit @ mean / np.linalg.norm(mean) < 0.1
        wanted.append(AGAINST if against else FINE)
        heard.pop(client, None)
        heard[client] = unit
    assert after(deltas, clients, rule)[1] == wanted
    assert 5 < wanted.count(AGAINST) < 55


def test_nothing_is_said_of_directions_before_five_others_have_spoken():
    assert after([*HONEST[:4], -HONEST[0]])[1] == [FINE] * 5
    assert after([*HONEST[:5], -HONEST[0]])[1] == [FINE] * 5 + [AGAINST]


def test_a_busy_liar_has_one_voice():
    lies = [-HONEST[3]] * 40
    _, verdicts = after([*HONEST, *lies, HONEST[2]], clients=[*range(7), *[20] * 40, 2])
    assert verdicts == [FINE] * 7 + [AGAINST] * 40 + [FINE]


def test_an_update_of_no_length_has_no_direction():
    assert after([*HONEST, np.zeros(4)])[1][-1] == FINE


def test_one_that_is_cut_down_may_still_point_the_wrong_way():
    rule = Screening("clip", too_large=3.0, least_cosine=-0.5)
    assert after([*HONEST, 50 * HONEST[0], -50 * HONEST[0]], rule=rule)[1][-2:] == [CUT, AGAINST]
    assert after([*HONEST, -50 * HONEST[0]], rule=RULE._replace(too_large=3.0))[1][-1] == TOO_LARGE


def test_by_default_no_direction_is_refused_and_none_is_remembered():
    watch, verdicts = after([*HONEST, -HONEST[0]], rule=Screening())
    assert set(verdicts) == {FINE}
    assert watch.voices.size == 0


def test_at_a_fixed_point_honest_clients_point_straight_away_from_each_other():
    """Why there is no safe default: updates that add up to zero, each of the same length."""
    angles = 2 * np.pi * np.arange(8) / 8
    deltas = np.stack([np.cos(angles), np.sin(angles), 0 * angles, 0 * angles], axis=1)
    units = jnp.asarray(np.pad(deltas, ((0, 0), (0, KEPT - 4))), jnp.float32)
    for k in range(8):
        assert agreement(units, jnp.arange(8) != k, units[k]) == pytest.approx(-1, abs=1e-5)


def test_small_models_are_compared_exactly_and_large_ones_nearly():
    rng = np.random.default_rng(1)
    for size, error in [(KEPT, 1e-5), (40 * KEPT, 0.1)]:
        one = rng.normal(size=size)
        for other in (one + rng.normal(size=size), -one, rng.normal(size=size)):
            trees = [{"a": jnp.asarray(x[:7], jnp.float32), "b": jnp.asarray(x[7:], jnp.float32)} for x in (one, other)]
            found = jnp.vdot(*(direction(tree, norm(tree)) for tree in trees))
            wanted = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
            assert found == pytest.approx(wanted, abs=error)


def test_directions_of_very_long_and_very_short_updates_are_theirs():
    delta = jnp.array([3.0, -4.0])
    for scale in (1e-15, 1.0, 1e30):
        found = direction(scale * delta, norm(scale * delta))
        assert float(jnp.abs(found).sum()) == pytest.approx(1.4, abs=1e-5)
