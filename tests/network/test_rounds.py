"""The table of rounds: it agrees with the obvious way to count, and drawn ones keep the bounds they were drawn in."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect.errors import UserMistake
from idiolect.network.round_tables import Rounds, accumulated, arrivals, delivered_share, oldest, rounds, taken_in
from idiolect.network.topologies import complete, erdos_renyi, topology
from idiolect.network.unreliable_links import Links, draw_rounds
from idiolect.theory import contact_period

PAIR = topology(2, [(0, 1), (1, 0)])
WHOLE = np.ones((3, 2), bool)


@st.composite
def tables(draw: st.DrawFn) -> Rounds:
    """A small random graph, anyone asleep at any time, and messages lost, late, doubled and in any order."""
    agents, count = draw(st.integers(2, 4)), draw(st.integers(1, 7))
    chance, seed = draw(st.floats(0, 1)), draw(st.integers(0, 1000))
    graph = erdos_renyi(probability=chance)(agents, np.random.default_rng(seed))
    row = st.lists(st.booleans(), min_size=agents, max_size=agents)
    awake = draw(st.lists(row, min_size=count, max_size=count))
    pairs = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    sends = [(i, j, t) for i, j in pairs for t in range(count) if awake[t][i]]
    message = st.tuples(st.sampled_from(sends or [None]), st.integers(0, count))
    sent = draw(st.lists(message, max_size=25)) if sends else []
    return rounds(graph, awake, [(i, j, t, t + delay) for (i, j, t), delay in sent])


def listed(table: Rounds) -> list[tuple[int, int, int]]:
    """Every message as (link, sent, taken in), found by waiting for its receiver; never is the number of rounds."""
    found = []
    for link, sent, arrives in zip(table.link.tolist(), table.sent.tolist(), table.arrives.tolist(), strict=True):
        t = arrives
        while t < table.length and not table.awake[t, table.graph.targets[link]]:
            t += 1
        found.append((link, sent, min(t, table.length)))
    return found


@given(tables())
@settings(max_examples=50, deadline=None)
def test_a_message_is_taken_in_when_its_receiver_next_wakes(table):
    assert taken_in(table).tolist() == [when for _, _, when in listed(table)]


@given(tables())
@settings(max_examples=50, deadline=None)
def test_arrivals_list_every_message_that_is_taken_in_by_rounds_and_links_and_oldest_first(table):
    every, newest = [], []
    for t in range(table.length):
        for link in range(table.graph.links):
            old = sorted((t - s for k, s, when in listed(table) if (k, when) == (link, t)), reverse=True)
            every += [(t, slot, link, age) for slot, age in enumerate(old)]
            newest += [(t, 0, link, old[-1])] if old else []
    assert entries(arrivals(table, newest_only=False)) == every
    assert entries(arrivals(table, newest_only=True)) == newest


def entries(found):
    return list(zip(*(column.tolist() for column in found), strict=True))


@given(tables())
@settings(max_examples=50, deadline=None)
def test_the_oldest_message_bounds_how_far_back_an_engine_must_remember(table):
    waits = [min(when, table.length - 1) - sent for _, sent, when in listed(table)]
    assert oldest(table, taken_in(table)) == max(waits, default=0)


@given(tables())
@settings(max_examples=50, deadline=None)
def test_the_delivered_share_counts_a_doubled_message_once(table):
    for link, share in enumerate(delivered_share(table)):
        sends = int(table.awake[:, table.graph.sources[link]].sum())
        arrived = len({sent for k, sent, _ in listed(table) if k == link})
        assert share == (arrived / sends if sends else 0)


@given(tables(), st.integers(0, 1000), st.sampled_from([None, 1, 2]))
@settings(max_examples=50, deadline=None)
def test_the_step_sizes_of_rounds_slept_through_add_up_and_no_more_of_them_than_are_allowed(table, seed, most):
    theta = np.random.default_rng(seed).uniform(0, 1, table.length)
    found = accumulated(theta, table.awake, most)
    for agent in range(table.graph.agents):
        kappa = -1  # PARS-Push, Alg. 1, l. 1
        for t in range(table.length):
            if table.awake[t, agent]:
                slept = theta[kappa + 1 : t + 1].tolist()  # l. 4
                assert found[t, agent] == pytest.approx(sum(slept[-(most or len(slept)) :]), abs=1e-12)
                kappa = t
            else:
                assert found[t, agent] == 0


@given(tables())
@settings(max_examples=50, deadline=None)
def test_messages_are_kept_in_the_order_of_arrival_whatever_order_they_are_given_in(table):
    links = table.graph.sources[table.link], table.graph.targets[table.link]
    messages = np.stack([*links, table.sent, table.arrives], axis=1)
    assert table.arrives.tolist() == sorted(table.arrives)
    again = rounds(table.graph, table.awake, messages[::-1])
    for left, right in zip(table[1:], again[1:], strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(
    ("awake", "messages", "said"),
    [
        (np.ones((3, 3)), [], "awake has shape (3, 3), but must have a row"),
        (np.ones(3), [], "awake has shape (3,), but must have a row"),
        (WHOLE, [(0, 0, 0, 1)], "from agent 0 to agent 0, but the graph has no such link"),
        (WHOLE, [(0, 1, 0, 1), (0, 2, 0, 1)], "from agent 0 to agent 2, but the graph has no such link"),
        ([[1, 1], [1, 0], [1, 1]], [(1, 0, 1, 2)], "agent 1 sends in round 1, but sleeps then"),
        (WHOLE, [(0, 1, 2, 1)], "a message sent in round 2 arrives in round 1, before that"),
        (WHOLE, [(0, 1, 3, 4)], "a message is sent in round 3, but rounds go from 0 to 2"),
        (WHOLE, [(0, 1, -1, 4)], "a message is sent in round -1, but rounds go from 0 to 2"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused_with_a_sentence(awake, messages, said):
    with pytest.raises(UserMistake, match=re.escape(said)):
        rounds(PAIR, awake, messages)


def test_a_message_may_arrive_in_the_round_it_is_sent_or_after_the_last():
    table = rounds(PAIR, WHOLE, [(0, 1, 1, 1), (1, 0, 2, 9)])
    assert taken_in(table).tolist() == [1, 3]
    assert oldest(table, taken_in(table)) == 0


def test_rounds_in_which_nothing_is_heard_are_fine():
    for awake in (WHOLE, ~WHOLE):
        table = rounds(PAIR, awake, [])
        assert oldest(table, taken_in(table)) == 0
        assert entries(arrivals(table, newest_only=False)) == entries(arrivals(table, newest_only=True)) == []
        assert delivered_share(table).tolist() == [0, 0]


@st.composite
def bounded(draw: st.DrawFn, least_delay: int = 0) -> tuple[Links, Rounds]:
    """Links with every bound set, and rounds drawn from them."""
    shortest = draw(st.integers(least_delay, 2))
    links = Links(
        wake=draw(st.floats(0.05, 1)),
        gamma_w=draw(st.integers(1, 4)),
        loss=draw(st.floats(0, 0.95)),
        gamma_f=draw(st.integers(0, 3)),
        least_delay=shortest,
        gamma_d=shortest + draw(st.integers(0, 3)),
        duplication=draw(st.floats(0, 0.9)),
    )
    seed = draw(st.integers(0, 10_000))
    graph = erdos_renyi(probability=0.4)(draw(st.integers(2, 5)), np.random.default_rng(seed))
    return links, draw_rounds(links, graph, 40, seed)


@given(bounded())
@settings(max_examples=50, deadline=None)
def test_nobody_sleeps_for_gamma_w_rounds(drawn):
    links, table = drawn
    for agent in range(table.graph.agents):
        wakings = [-1, *np.flatnonzero(table.awake[:, agent]), table.length]
        assert max(np.diff(wakings)) <= links.gamma_w


@given(bounded())
@settings(max_examples=50, deadline=None)
def test_no_link_loses_more_than_gamma_f_in_a_row(drawn):
    links, table = drawn
    for link in range(table.graph.links):
        arrived, failures = set(table.sent[table.link == link].tolist()), 0
        for t in np.flatnonzero(table.awake[:, table.graph.sources[link]]):
            failures = 0 if t in arrived else failures + 1
            assert failures <= links.gamma_f


@given(bounded())
@settings(max_examples=50, deadline=None)
def test_delays_keep_their_bounds_and_nothing_comes_three_times(drawn):
    links, table = drawn
    delays = table.arrives - table.sent
    assert ((delays >= links.least_delay) & (delays <= links.gamma_d)).all()
    pairs, counts = np.unique(np.stack([table.link, table.sent]), axis=1, return_counts=True)
    assert counts.max(initial=0) <= (2 if links.duplication else 1)
    assert table.awake[pairs[1], table.graph.sources[pairs[0]]].all()


@given(bounded(least_delay=1))
@settings(max_examples=50, deadline=None)
def test_every_link_is_heard_from_within_gamma_s_rounds(drawn):
    """PARS-Push, under Assumption 1: in any Gamma_s rounds an agent takes in a message of each of its in-neighbours."""
    links, table = drawn
    period = contact_period(links.gamma_w, links.gamma_d, links.gamma_f)
    for link in range(table.graph.links):
        heard = sorted({when for k, _, when in listed(table) if k == link and when < table.length})
        assert max(np.diff([-1, *heard, table.length])) <= period


@given(bounded())
@settings(max_examples=30, deadline=None)
def test_the_same_seed_draws_the_same_table(drawn):
    links, _ = drawn
    graph = complete()(4, np.random.default_rng(0))
    first, again, other = (draw_rounds(links._replace(wake=0.5, gamma_w=3), graph, 40, seed) for seed in (7, 7, 8))
    for left, right in zip(first[1:], again[1:], strict=True):
        np.testing.assert_array_equal(left, right)
    assert not np.array_equal(first.awake, other.awake)


def test_bounds_can_be_lifted():
    graph = complete()(5, np.random.default_rng(0))
    free = Links(wake=0.1, gamma_w="unbounded", loss=0.8, gamma_f="unbounded", gamma_d="unbounded", extra_delay=6.0)
    table = draw_rounds(free._replace(duplication=0.5), graph, 3000, 1)
    assert table.awake.mean() == pytest.approx(0.1, abs=0.01)
    assert max(np.diff(np.flatnonzero(table.awake[:, 0]))) > 20
    assert delivered_share(table).mean() == pytest.approx(0.2, abs=0.02)
    delays = table.arrives - table.sent
    assert delays.min() == 1
    assert delays.mean() == pytest.approx(1 + 6, abs=0.5)
    assert delays.max() > 20
    pairs = np.unique(np.stack([table.link, table.sent]), axis=1)
    assert len(table.sent) / pairs.shape[1] == pytest.approx(1.5, abs=0.05)


def test_without_extra_delay_an_unbounded_link_is_as_fast_as_it_can_be():
    graph = complete()(3, np.random.default_rng(0))
    table = draw_rounds(Links(gamma_d="unbounded", least_delay=2, extra_delay=0.0), graph, 50, 0)
    assert set(table.arrives - table.sent) == {2}


def test_a_greatest_delay_below_the_least_is_refused():
    with pytest.raises(UserMistake, match=r"links\.gamma_d is 1, below links\.least_delay, which is 2"):
        draw_rounds(Links(least_delay=2, gamma_d=1), PAIR, 10, 0)
