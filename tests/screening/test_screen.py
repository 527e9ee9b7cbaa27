"""The screen itself, as a real server would call it: what is refused, what is typical, what is cut down."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect.contracts import Screening, Upload
from idiolect.engines.screening import (
    CUT,
    FINE,
    NOT_FINITE,
    TOO_LARGE,
    WRONG_SHAPE,
    begin,
    judged,
    misfit,
    screen,
    shapes_of,
    tally,
    typical,
)
from idiolect.trees import norm

MODEL = {"w": jnp.array([3.0, 4.0]), "b": jnp.array([0.0])}
REJECT = Screening(too_large=1e4)


@functools.partial(jax.jit, static_argnames="rule")
def looked_at(watch, upload, client, model, rule):
    return screen(watch, upload, norm(upload.delta), client, model, rule)


def an_update(*w, b=0.0, weight=1.0):
    return Upload({"w": jnp.array(w, jnp.float32), "b": jnp.array([b], jnp.float32)}, jnp.float32(weight))


def of_length(size):
    return an_update(0.6 * size, 0.8 * size)


def after(lengths, model=MODEL, rule=REJECT, clients=None):
    """A watch that has seen updates of these lengths, each from another client if nothing is said, and the verdicts."""
    watch, verdicts = begin(model, 100), []
    for number, size in enumerate(lengths):
        client = number if clients is None else clients[number]
        watch, _, verdict = looked_at(watch, of_length(size), client, model, rule=rule)
        verdicts.append(int(verdict))
    return watch, verdicts


@pytest.mark.parametrize(
    "update",
    [
        an_update(np.nan, 1.0),
        an_update(1.0, np.inf),
        an_update(1.0, 1.0, b=-np.inf),
        an_update(1.0, 1.0, weight=np.nan),
        an_update(1.0, 1.0, weight=-1.0),
    ],
    ids=["nan", "inf", "in another array", "weight nan", "negative weight"],
)
@pytest.mark.parametrize("policy", ["reject", "clip", "stop"])
def test_what_is_not_finite_is_refused_under_every_policy(update, policy):
    watch, _, verdict = looked_at(begin(MODEL, 3), update, 1, MODEL, rule=Screening(policy))
    assert verdict == NOT_FINITE
    assert tally(watch) == {1: {"not finite": 1}}
    assert watch.refused.tolist() == [False, True, False]
    assert watch.accepted == 0


def test_an_update_a_million_times_too_large_is_refused_also_if_it_is_the_first():
    assert after([1e6 * 5.0])[1] == [TOO_LARGE]
    assert after([0.2, 0.1, 0.3, 1e6 * 0.1, 0.2])[1] == [FINE, FINE, FINE, TOO_LARGE, FINE]


def test_honest_updates_of_very_different_lengths_are_all_absorbed():
    rng = np.random.default_rng(0)
    assert set(after(10 ** rng.uniform(-3, 0.5, 60))[1]) == {FINE}


def test_an_absorbed_update_is_the_one_that_was_sent():
    _, kept, verdict = looked_at(begin(MODEL, 3), an_update(0.1, 0.7), 0, MODEL, rule=Screening("clip"))
    assert verdict == FINE
    assert np.asarray(kept.delta["w"]).tobytes() == np.array([0.1, 0.7], np.float32).tobytes()


def test_what_is_typical_is_the_median_over_the_clients_that_spoke_last_refused_or_not():
    rng = np.random.default_rng(1)
    lengths, clients = 10 ** rng.uniform(-2, 1, 200), rng.integers(0, 60, 200)
    lengths[::9] = 1e7
    heard: dict[int, float] = {}
    for count, (size, client) in enumerate(zip(lengths, clients, strict=True), start=1):
        heard.pop(client, None)
        heard[client] = size
        if count % 20 in (1, 2, 3):
            voices = [*list(heard.values())[-31:], *([5.0] if len(heard) < 5 else [])]  # 5 is the model's own length
            watch, _ = after(lengths[:count], clients=clients)
            np.testing.assert_allclose(typical(watch, MODEL), np.sort(voices)[(len(voices) - 1) // 2], rtol=1e-5)


def test_a_busy_client_has_one_voice_and_can_neither_ramp_up_nor_have_others_refused():
    honest = [1.0, 1.1, 0.9, 1.2, 1.0, 0.8]
    ramp = [3.0**k for k in range(1, 40)]
    watch, verdicts = after([*honest, *ramp], clients=[*range(6), *[7] * 39], rule=Screening(too_large=30.0))
    assert verdicts == [FINE] * 9 + [TOO_LARGE] * 36
    _, _, verdict = looked_at(watch, of_length(1.0), 3, MODEL, rule=Screening(too_large=30.0))
    assert verdict == FINE
    shrunk, _ = after([*honest, *[1e-6] * 60], clients=[*range(6), *[7] * 60], rule=Screening(too_large=30.0))
    _, _, verdict = looked_at(shrunk, of_length(1.0), 3, MODEL, rule=Screening(too_large=30.0))
    assert verdict == FINE


def test_nobody_is_locked_out_by_a_model_that_begins_near_zero():
    tiny = jax.tree.map(lambda leaf: 1e-9 * leaf, MODEL)
    assert after([1.0, 1.2, 0.9], tiny)[1] == [TOO_LARGE, TOO_LARGE, FINE]
    nothing = jax.tree.map(jnp.zeros_like, MODEL)
    assert after([1.0, 1.2, 1e7, 0.9], nothing)[1] == [FINE, FINE, TOO_LARGE, FINE]


def test_an_update_shorter_than_the_model_is_never_too_large():
    assert after([1e-9] * 40 + [4.9, 6.0])[1][-2:] == [FINE, TOO_LARGE]


def test_silent_clients_do_not_make_nothing_typical():
    assert after([1.0] + [0.0] * 40 + [1.0])[1][-1] == FINE


def test_clipping_keeps_the_direction_and_gives_the_typical_length():
    rule = Screening("clip", too_large=3.0)
    watch, verdicts = after([1.0] * 5, rule=rule)
    assert verdicts == [FINE] * 5
    watch, kept, verdict = looked_at(watch, of_length(50.0), 2, MODEL, rule=rule)
    assert verdict == CUT
    np.testing.assert_allclose(kept.delta["w"], [0.6, 0.8], rtol=1e-6)
    assert tally(watch) == {2: {"cut down": 1}}
    assert watch.accepted == 6


@pytest.mark.parametrize("size", [0.0, 1e-15, 1.0, 1e30])
def test_lengths_do_not_overflow(size):
    tree = {"a": jnp.full((2, 3), size), "b": jnp.array([-2 * size])}
    np.testing.assert_allclose(norm(tree), np.sqrt(10) * size, rtol=1e-6)


@pytest.mark.parametrize(
    ("update", "complaint"),
    [
        (an_update(1.0, 2.0), ""),
        (Upload({"w": np.zeros(2, np.float32)}, 1.0), "is a tree"),
        (an_update(1.0, 2.0, 3.0), "has float32 (3,) in place of float32 (2,) as its ['w']"),
        (Upload({"w": np.zeros(2), "b": np.zeros(1, np.float32)}, 1.0), "has float64 (2,) in place of float32 (2,)"),
        (Upload({"w": 3.0, "b": np.zeros(1, np.float32)}, 1.0), "has float no shape in place of float32 (2,)"),
        (an_update(1.0, 2.0)._replace(weight=np.ones(3)), "weight of shape (3,)"),
    ],
)
def test_a_wrong_shape_is_named(update, complaint):
    with jax.enable_x64(True):
        found = misfit(update, shapes_of(MODEL))
    assert found == complaint or (complaint and complaint in found)


def test_reasons_are_counted_by_client():
    watch = begin(MODEL, 4)
    for client, verdict in [(1, NOT_FINITE), (1, WRONG_SHAPE), (3, TOO_LARGE), (1, NOT_FINITE), (3, FINE)]:
        watch = judged(watch, client, verdict)
    assert tally(watch) == {1: {"not finite": 2, "wrong shape": 1}, 3: {"too large": 1}}
    assert watch.refused.tolist() == [False, True, False, False], "by each client's last update"
