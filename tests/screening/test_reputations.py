"""Reputations that forget: who is refused again and again is put off for a while, and is heard again."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect import catalog
from idiolect.contracts import Screening, Upload
from idiolect.engines import prepare, simulate
from idiolect.engines.screening import FINE, NOT_FINITE, PUT_OFF, TOO_LARGE, WRONG_SHAPE, begin, judged, screen
from idiolect.engines.simulator.server_program import Program
from idiolect.engines.simulator.stepwise_server import run_stepwise
from idiolect.network import Network, draw_timeline
from idiolect.protocols.attacks import Attack
from idiolect.testing.small_clients import noisy_quadratics

MODEL = jnp.ones(4)
RULE = Screening(strikes=3, forget=4)


@functools.partial(jax.jit, static_argnames="rule")
def looked_at(watch, size, client, rule):
    delta = jnp.array([0.6, 0.8, 0.0, 0.0]) * size
    return screen(watch, Upload(delta, jnp.float32(1)), jnp.float32(size), client, MODEL, rule)


def verdicts_of(sizes, rule=RULE):
    """What client 9 hears, while five others say what is typical."""
    watch, verdicts = begin(MODEL, 10, rule), []
    for client in range(5):
        watch, _, _ = looked_at(watch, 1.0, client, rule=rule)
    for size in sizes:
        watch, _, verdict = looked_at(watch, size, 9, rule=rule)
        verdicts.append(int(verdict))
    return watch, verdicts


def test_who_is_refused_again_and_again_is_put_off_and_heard_again_when_it_sends_what_is_right():
    watch, verdicts = verdicts_of([1e6] * 3 + [1.0] * 6)
    assert verdicts == [TOO_LARGE] * 3 + [PUT_OFF] + [FINE] * 5, "3 refusals, and 3 less a part is less than 3"
    _, verdicts = verdicts_of([1e6] * 100 + [1.0] * 8)
    heard = verdicts[100:].index(FINE)
    assert verdicts[:100] == [TOO_LARGE] * 100, "what is wrong is refused for what it is"
    assert RULE.forget <= heard <= RULE.forget + 1, "a hundred refusals are forgotten as soon as six"
    assert set(verdicts[100 + heard :]) == {FINE}
    assert int(watch.counts[9, PUT_OFF]) == 1


def test_lies_now_and_then_keep_a_client_out():
    sizes = [1e6, 1.0] * 30
    _, verdicts = verdicts_of(sizes)
    assert verdicts[:5] == [TOO_LARGE, FINE, TOO_LARGE, FINE, TOO_LARGE]
    assert verdicts[21::2] == [PUT_OFF] * 20, "none of what it says in between is believed any more"


def test_who_is_refused_once_in_a_while_is_not_put_off():
    _, verdicts = verdicts_of(([1e6] + [1.0] * 9) * 10)
    assert verdicts == ([TOO_LARGE] + [FINE] * 9) * 10


def test_without_strikes_nobody_is_put_off():
    _, verdicts = verdicts_of([1e6] * 20 + [1.0], Screening(strikes=0))
    assert verdicts[-1] == FINE


def test_every_kind_of_refusal_counts_and_only_for_its_client():
    watch = begin(MODEL, 3, RULE)
    for verdict in (NOT_FINITE, WRONG_SHAPE, TOO_LARGE):
        watch = judged(watch, 1, verdict, RULE)
    np.testing.assert_allclose(watch.doubts, [0, 3, 0])
    watch = judged(watch, 1, PUT_OFF, RULE)
    np.testing.assert_allclose(watch.doubts[1], 3 * 0.5**0.25, rtol=1e-6)


PROBLEM, HORIZON, LIAR = noisy_quadratics(noise=0.5, kind=np.float32), 40.0, 2


@functools.cache
def lying_program() -> Program:
    """A liar whom directions find out, among clients so alike that they do not refuse each other."""
    training = {"step_size": 0.02, "local_steps": 2, "batch_size": 5}
    rule, attack = Screening(too_large=3.0, least_cosine=-0.99, strikes=2, forget=3), Attack([LIAR], "scale", 1e3)
    return prepare(PROBLEM, catalog.algorithm("fedasync", PROBLEM, attack=attack, screening=rule, **training))


def a_timeline():
    schedule = lying_program().protocol.schedule
    return draw_timeline(Network(), PROBLEM.clients.participating, schedule, horizon=HORIZON, seed=0)


def test_both_engines_put_off_alike_and_a_run_that_is_saved_remembers_whom(workers):
    """The same bytes from every event on: doubts and directions are in the checkpoint."""
    program, table, moments = lying_program(), a_timeline(), []
    go = functools.partial(simulate, program, PROBLEM.clients, table, workers, seed=0, times=[HORIZON])
    (end,) = go(tick=lambda now, save: moments.append(save()))
    assert end.refusals[LIAR]["too large"] > 3
    assert any(np.asarray(saved.tensors["server_state.watch.doubts"]).max() >= 2 for saved in moments)
    params, _ = run_stepwise(program, PROBLEM.clients, table, seed=0)
    assert np.asarray(params).tobytes() == np.asarray(end.params).tobytes()
    for saved in moments[:: len(moments) // 3]:
        (again,) = go(saved=saved)
        assert again.refusals == end.refusals
        assert np.asarray(again.params).tobytes() == np.asarray(end.params).tobytes()


@pytest.mark.parametrize("name", ["scaffold", "fedbuff"])
def test_by_default_honest_clients_are_not_hurt(name, workers):
    training = {"step_size": 0.02, "local_steps": 2, "batch_size": 5}
    ends = []
    for rule in (Screening(), Screening(too_large=1e9, strikes=0)):
        program = prepare(PROBLEM, catalog.algorithm(name, PROBLEM, screening=rule, **training))
        table = draw_timeline(
            Network(), PROBLEM.clients.participating, program.protocol.schedule, horizon=HORIZON, seed=0
        )
        ends += simulate(program, PROBLEM.clients, table, workers, seed=0, times=[HORIZON])
    assert ends[0].refusals == {}
    assert np.asarray(ends[0].params).tobytes() == np.asarray(ends[1].params).tobytes()
