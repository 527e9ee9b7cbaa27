"""A faulty client in a run: refused and counted, and otherwise as if it had dropped out."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect import catalog
from idiolect.contracts import Screening
from idiolect.engines import prepare, simulate
from idiolect.engines.simulator.server_program import Program
from idiolect.engines.simulator.stepwise_server import run_stepwise
from idiolect.errors import Diverged, Refused, UserMistake
from idiolect.learning import learn
from idiolect.network import Network, draw_timeline
from idiolect.protocols.attacks import Attack, attackers, falsified
from idiolect.testing.small_clients import noisy_quadratics

PROBLEM, HORIZON, LIAR = noisy_quadratics(noise=0.5, kind=np.float32), 60.0, 2
CELLS = ["plain+synchronous", "plain+scaffold", "plain+asynchronous", "plain+buffered"]
ROBUST = [("plain+synchronous", "median"), ("plain+buffered", "trimmed_mean")]


def an_algorithm(name, attack=None, screening=Screening(), **protocol):
    if "buffered" in name:
        protocol.setdefault("size", 3)
    training = {"step_size": 0.02, "local_steps": 4, "batch_size": 5}
    return catalog.algorithm(name, PROBLEM, protocol=protocol, attack=attack, screening=screening, **training)


@functools.cache
def nan_program(name: str, combine: str = "mean") -> Program:
    options = {} if combine == "mean" else {"combine": combine}
    return prepare(PROBLEM, an_algorithm(name, Attack([LIAR], "nan"), **options))


def a_timeline(program):
    network, schedule = Network(dropout=0.1), program.protocol.schedule
    return draw_timeline(network, PROBLEM.clients.participating, schedule, horizon=HORIZON, seed=0)


def run(program, table, workers, times=(HORIZON,)):
    return list(simulate(program, PROBLEM.clients, table, workers, seed=0, times=times))


def same_bytes(left, right):
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


@pytest.mark.parametrize(("name", "combine"), [*((name, "mean") for name in CELLS), *ROBUST])
def test_a_client_that_sends_nan_is_as_good_as_gone_and_is_counted(name, combine, workers):
    program = nan_program(name, combine)
    table = a_timeline(program)
    middle, end = run(program, table, workers, times=(HORIZON / 2, HORIZON))
    without = run(program, table._replace(delivered=table.delivered & (table.client != LIAR)), workers)[-1]
    assert same_bytes(end.params, without.params), "the model never met its updates"
    others = {client: kept for client, kept in end.personal.items() if client != LIAR}
    assert same_bytes(others, without.personal)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(end.personal[LIAR]))

    came = (table.client == LIAR) & table.delivered
    assert came.any()
    assert end.refusals == {LIAR: {"not finite": int(came.sum())}}
    assert end.updates == int(table.delivered.sum()), "a refused update has arrived all the same"
    assert all(np.isfinite(value) for value in [*middle.reports.values(), *end.reports.values()])

    params, personal = run_stepwise(program, PROBLEM.clients, table, seed=0)
    assert same_bytes(end.params, params), "both engines refuse alike"
    assert same_bytes(end.personal, {client: personal[client] for client in end.personal})


def test_a_client_that_sends_nan_keeps_what_it_had_before(workers):
    """SCAFFOLD's control variate starts at zero, and no turn of the liar was worth keeping."""
    end = run(nan_program("plain+scaffold"), a_timeline(nan_program("plain+scaffold")), workers)[-1]
    assert not np.asarray(end.personal[LIAR].honest.control).any()
    assert np.asarray(end.personal[0].honest.control).any()


@pytest.mark.parametrize("wrong", [np.zeros(7, np.float32), {"w": np.zeros(3, np.float32)}], ids=["shape", "tree"])
def test_a_wrong_shape_is_refused_before_anything_is_computed_with_it(workers, wrong):
    program = prepared_plain("plain+asynchronous")
    table = a_timeline(program)

    def turn(personal, offer, shard, key, number):
        result = program.turn(personal, offer, shard, key, number)
        return result._replace(upload=result.upload._replace(delta=wrong)) if table.client[number] == LIAR else result

    end = run(program._replace(turn=turn), table, workers)[-1]
    without = run(program, table._replace(delivered=table.delivered & (table.client != LIAR)), workers)[-1]
    assert same_bytes(end.params, without.params)
    assert end.refusals == {LIAR: {"wrong shape": int(((table.client == LIAR) & table.delivered).sum())}}


@functools.cache
def prepared_plain(name: str) -> Program:
    return prepare(PROBLEM, an_algorithm(name))


def test_honest_clients_do_to_the_bit_what_they_do_without_liars(workers):
    plain, program = prepared_plain("plain+asynchronous"), nan_program("plain+asynchronous")
    table = a_timeline(plain)
    table = table._replace(delivered=table.delivered & (table.client != LIAR))
    assert same_bytes(run(plain, table, workers)[-1].params, run(program, table, workers)[-1].params)


def test_a_million_times_too_large_is_refused_or_cut_down(workers):
    attack = Attack([LIAR], "scale", 1e6)
    ends = {}
    for policy in ("reject", "clip"):
        program = prepare(PROBLEM, an_algorithm("plain+asynchronous", attack, Screening(policy)))
        table = a_timeline(program)
        ends[policy] = run(program, table, workers)[-1]
    came = int(((table.client == LIAR) & table.delivered).sum())
    assert ends["reject"].refusals == {LIAR: {"too large": came}}
    assert ends["clip"].refusals == {LIAR: {"cut down": came}}
    honest = run(prepared_plain("plain+asynchronous"), table, workers)[-1]
    for end in ends.values():
        assert np.linalg.norm(end.params - honest.params) < np.linalg.norm(honest.params)


def test_the_python_interface_screens_and_attacks():
    attack, screening = Attack([LIAR], "nan"), Screening("clip")
    result = learn(PROBLEM, "fedasync", horizon=20.0, points=1, step_size=0.02, attack=attack, screening=screening)
    came = int(((result.table.client == LIAR) & result.table.delivered).sum())
    assert result.record.refusals == {LIAR: {"not finite": came}}


def test_policy_stop_names_the_client_the_turn_and_the_time(workers):
    program = nan_program("plain+asynchronous")
    program = program._replace(algorithm=program.algorithm._replace(screening=Screening("stop")))
    table = a_timeline(program)
    lies = np.flatnonzero((table.client == LIAR) & table.delivered)
    first = lies[np.argmin(table.arrived[lies])]
    said = rf"client {LIAR} in turn {first}, .* virtual time {table.arrived[first]:.4g}, is not finite"
    with pytest.raises(Refused, match=said):
        run(program, table, workers)
    with pytest.raises(Refused, match=said):
        run_stepwise(program, PROBLEM.clients, table, seed=0)


def test_if_most_clients_are_refused_it_is_the_algorithm_that_diverges(workers):
    program = prepare(PROBLEM, an_algorithm("plain+asynchronous", Attack([0, 1, 3], "nan")))
    table = a_timeline(program)
    said = r"plain\+asynchronous diverged: client \d, local step 4 of 4 in turn \d+ at virtual time .* gave nan, and "
    with pytest.raises(Diverged, match=said + "the last updates of 3 of 4 clients"):
        run(program, table, workers)
    only = np.flatnonzero((table.client == 0) & table.delivered)[:1]
    with pytest.raises(Diverged, match="1 of 4 clients"):  # though few were heard, none could be used
        run(program, table._replace(delivered=np.isin(np.arange(table.turns), only)), workers)


def test_a_server_whose_model_is_not_finite_has_diverged(workers):
    program = prepared_plain("plain+asynchronous")
    with pytest.raises(Diverged, match="the server's model is not finite at virtual time 60"):
        run(program._replace(init=lambda key: jnp.full(3, jnp.inf)), nothing_arrives(a_timeline(program)), workers)


def nothing_arrives(table):
    return table._replace(delivered=np.zeros_like(table.delivered))


@pytest.mark.parametrize(
    ("who", "clients", "liars"),
    [(0.2, 10, {4, 9}), (0.2, 30, {4, 9, 14, 19, 24, 29}), (0.5, 5, {1, 3}), (0.0, 4, set()), (1.0, 3, {0, 1, 2})],
)
def test_a_share_of_the_clients_is_spread_evenly(who, clients, liars):
    assert attackers(Attack(who), clients) == liars


@pytest.mark.parametrize("who", [1.5, -0.1, [4], [-1]])
def test_attackers_that_cannot_be_are_refused(who):
    with pytest.raises(UserMistake, match=r"attack\.clients"):
        an_algorithm("plain+asynchronous", Attack(who))


def test_agents_without_a_server_cannot_be_under_this_attack():
    with pytest.raises(UserMistake, match="plain\\+gossip has none"):
        an_algorithm("plain+gossip", Attack(0.2))


def test_noise_is_as_long_as_said_for_every_array_by_itself():
    delta = {"wide": jnp.full(20_000, 3.0), "narrow": jnp.full((100, 100), 0.01), "still": jnp.zeros(7)}
    sent = falsified(delta, Attack(0.2, "noise", scale=5.0), jax.random.key(0))
    for name in ("wide", "narrow"):
        noise = np.asarray(sent[name] - delta[name], np.float64)
        assert np.sqrt((noise**2).mean()) == pytest.approx(5 * float(delta[name].max()), rel=0.05)
        assert abs(noise.mean()) < 0.05 * float(delta[name].max()) * 5
    np.testing.assert_array_equal(sent["still"], 0.0)
