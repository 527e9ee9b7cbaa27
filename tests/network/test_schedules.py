"""Timelines drawn from a network: rounds that wait for everyone, and clients that wait for nobody."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect.contracts import Schedule
from idiolect.errors import UserMistake
from idiolect.network import Delay, Network, Timeline, active_share, draw_timeline
from idiolect.network.delays import Devices
from idiolect.network.timelines import NO_ROUND

ROUNDS, FREE = Schedule(rounds=True), Schedule(rounds=False)

LAWS = st.sampled_from(["fixed", "exponential", "lognormal", "gamma"])
NETWORKS = st.tuples(LAWS, st.sampled_from([0.0, 0.5]), st.sampled_from([0.0, 0.5])).map(
    lambda choice: Network(download=Delay(choice[0]), spread=choice[1], dropout=choice[2])
)
CLIENTS = st.lists(st.integers(0, 100), min_size=1, max_size=8, unique=True).map(sorted)
SEEDS = st.integers(0, 10_000)
HORIZON = 500.0  # nobody's first round is longer; one in two thousand is longer than 100


@given(NETWORKS, CLIENTS, st.floats(0.01, 1.0), SEEDS)
@settings(max_examples=50, deadline=None)
def test_rounds_never_overlap_and_each_starts_when_the_last_one_closes(network, clients, participation, seed):
    table = draw_timeline(network, clients, Schedule(True, participation), horizon=HORIZON, seed=seed)
    now = 0.0
    for number in range(int(table.round.max()) + 1):
        members = table.round == number
        assert members.any()
        np.testing.assert_array_equal(table.offered[members], now)
        now = table.arrived[members].max()
    assert now <= HORIZON
    assert table.round.min() == 0


@given(NETWORKS, CLIENTS, st.floats(0.01, 1.0), SEEDS)
@settings(max_examples=50, deadline=None)
def test_a_round_has_its_share_of_the_participating_clients_and_nobody_twice(network, clients, participation, seed):
    table = draw_timeline(network, clients, Schedule(True, participation), horizon=HORIZON, seed=seed)
    for number in set(table.round.tolist()):
        cohort = table.client[table.round == number].tolist()
        assert len(cohort) == len(set(cohort)) == max(1, round(participation * len(clients)))
        assert set(cohort) <= set(clients)


def test_cohorts_are_drawn_anew_and_everyone_s_turn_comes():
    table = draw_timeline(Network(), list(range(10)), Schedule(True, 0.3), horizon=2000, seed=0)
    cohorts = {tuple(table.client[table.round == number]) for number in range(int(table.round.max()) + 1)}
    assert len(cohorts) > 20
    assert set(table.client.tolist()) == set(range(10))


@given(NETWORKS, CLIENTS, SEEDS)
@settings(max_examples=50, deadline=None)
def test_without_rounds_a_client_takes_one_turn_at_a_time_and_all_are_over_by_the_horizon(network, clients, seed):
    table = draw_timeline(network, clients, FREE, horizon=HORIZON, seed=seed)
    assert (table.round == NO_ROUND).all()
    assert set(table.client.tolist()) <= set(clients)
    assert table.arrived.max() <= HORIZON
    assert table.offered.min() >= 0
    for client in set(table.client.tolist()):
        mine = table.client == client
        assert (table.offered[mine][1:] >= table.arrived[mine][:-1]).all()


def test_without_rounds_everyone_keeps_its_own_rhythm_however_slow_the_others_are():
    """With fixed times a client's turns are evenly spaced; in rounds, all share the rhythm of the slowest."""
    network = Network(Delay("fixed", 1), Delay("fixed", 1), Delay("fixed", 1), Delay("fixed", 1), spread=1.0)
    free, rounds = (draw_timeline(network, list(range(12)), s, horizon=1000, seed=1) for s in (FREE, ROUNDS))
    length = free.arrived - free.offered
    periods = set()
    for client in range(12):
        mine = free.client == client
        period = length[mine][0] + 1  # its own turn, and one unit of idling
        np.testing.assert_allclose(np.diff(free.offered[mine]), period)
        assert free.arrived[mine][-1] + period > 1000  # and it goes on to the end
        periods.add(round(period, 6))
    assert len(periods) == 12
    gaps = [np.diff(rounds.offered[rounds.client == client]) for client in range(12)]
    np.testing.assert_allclose(np.concatenate(gaps), max(periods) - 1)


def test_without_rounds_clients_do_not_all_start_at_once():
    table = draw_timeline(Network(), list(range(20)), FREE, horizon=100, seed=0)
    firsts = [table.offered[table.client == client][0] for client in range(20)]
    assert len(set(firsts)) == 20


def mean_activity(table: Timeline, clients: int, horizon: float) -> float:
    """Between a warm-up and the time near the horizon, where turns that would end too late are left out."""
    return float(active_share(table, clients, np.linspace(0.1, 0.7, 500) * horizon).mean())


@pytest.mark.parametrize("seed", range(3))
def test_by_default_four_fifths_of_the_clients_are_active_without_rounds_and_far_fewer_with_them(seed):
    """PersA-FL, Fig. 2a."""
    clients, horizon = 100, 400.0
    free, rounds = (
        mean_activity(draw_timeline(Network(), list(range(clients)), s, horizon=horizon, seed=seed), clients, horizon)
        for s in (FREE, ROUNDS)
    )
    assert 0.75 < free < 0.85
    assert rounds < free / 2


@pytest.mark.parametrize("schedule", [FREE, ROUNDS])
def test_a_share_of_turns_is_lost(schedule):
    table = draw_timeline(Network(dropout=0.3), list(range(50)), schedule, horizon=1000, seed=0)
    assert abs(1 - table.delivered.mean() - 0.3) < 5 * np.sqrt(0.3 * 0.7 / table.turns)


@pytest.mark.parametrize("schedule", [FREE, Schedule(True, 0.5)])
def test_the_seed_decides_everything(schedule):
    first, again, other = (
        draw_timeline(Network(dropout=0.2), [1, 3, 5, 7], schedule, horizon=100, seed=seed) for seed in (4, 4, 5)
    )
    for before, after in zip(first, again, strict=True):
        assert before.tobytes() == after.tobytes()
    assert first.arrived.tobytes() != other.arrived.tobytes()


@pytest.mark.parametrize(("schedule", "what"), [(FREE, "turn"), (ROUNDS, "round")])
def test_a_horizon_too_short_for_anything_is_refused(schedule, what):
    with pytest.raises(UserMistake, match=rf"horizon is 0\.05: too short for a single {what}"):
        draw_timeline(Network(), [0, 1], schedule, horizon=0.05, seed=0)


@pytest.mark.parametrize("horizon", [0.0, -3.0, float("nan")])
def test_a_horizon_that_is_no_positive_time_is_refused(horizon):
    with pytest.raises(UserMistake, match=f"horizon is {horizon}"):
        draw_timeline(Network(), [0], FREE, horizon=horizon, seed=0)


@pytest.mark.parametrize("idle", [0.0, 1.0])
@pytest.mark.parametrize("schedule", [FREE, ROUNDS])
def test_a_network_where_nothing_takes_time_is_refused_rather_than_drawn_forever(schedule, idle, monkeypatch):
    draw, calls = Devices.turns, itertools.count()

    def counted(self: Devices, clients: np.ndarray) -> object:
        assert next(calls) < 200, "the schedule draws turn after turn and never gets on"
        return draw(self, clients)

    monkeypatch.setattr(Devices, "turns", counted)
    nothing = Delay("fixed", 0.0)
    with pytest.raises(UserMistake):
        draw_timeline(Network(nothing, nothing, nothing, Delay("fixed", idle)), [0, 1], schedule, horizon=9, seed=0)


@pytest.mark.parametrize("schedule", [FREE, ROUNDS])
def test_a_problem_in_which_nobody_takes_part_is_refused_and_not_blamed_on_the_horizon(schedule):
    with pytest.raises(UserMistake) as mistake:
        draw_timeline(Network(), [], schedule, horizon=100, seed=0)
    assert "too short" not in str(mistake.value)
