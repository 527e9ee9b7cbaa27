"""A timeline's events in blocks are the events, and their ages the staleness, whatever the size of a block."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idiolect.contracts import Schedule
from idiolect.network import Delay, Network, draw_timeline, staleness, timeline
from idiolect.network.event_blocks import event_blocks
from idiolect.network.timelines import ARRIVAL, Timeline, closing_turns, events

from .test_timeline import timelines


def joined(table: Timeline, updates_per_step: int, block: int) -> list[np.ndarray]:
    return [np.concatenate(parts) for parts in zip(*event_blocks(table, updates_per_step, block), strict=True)]


def agrees(table: Timeline, updates_per_step: int, block: int) -> None:
    time, kind, turn, age = joined(table, updates_per_step, block)
    assert list(zip(time.tolist(), kind.tolist(), turn.tolist(), strict=True)) == events(table)
    arrives = kind == ARRIVAL
    assert age[arrives].tolist() == staleness(table, updates_per_step)[turn[arrives]].tolist()
    assert not age[~arrives].any()


@given(timelines(), st.integers(1, 4), st.integers(1, 30))
def test_blocks_of_any_size_are_the_events_and_their_staleness(table, updates_per_step, block):
    agrees(table, updates_per_step, block)


@pytest.mark.parametrize("rounds", [True, False])
@pytest.mark.parametrize("block", [1, 7, 100, 10_000])
def test_the_same_of_drawn_timelines(rounds, block):
    network = Network(dropout=0.2, compute=Delay("fixed", 0.5))
    table = draw_timeline(network, list(range(20)), Schedule(rounds=rounds), horizon=60.0, seed=1)
    agrees(table, 3, block)


def test_offers_of_one_moment_stay_together_and_come_after_what_arrives_then():
    table = timeline([0, 1, 2, 3, 0], [0, 1, 1, 1, 1], [1, 2, 2, 2, 3])
    assert [block.turn.tolist() for block in event_blocks(table, block=2)] == [[0], [0, 1, 2, 3, 4, 1, 2, 3, 4]]


@given(timelines(rounds=True), st.integers(1, 10))
def test_rounds_in_order_close_a_few_at_a_time_as_all_at_once(table, few):
    in_order = table._replace(round=np.sort(table.round))
    expected = [
        max(np.flatnonzero(in_order.round == number), key=lambda turn: (in_order.arrived[turn], turn))
        for number in np.unique(in_order.round)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("idiolect.network.timelines._ROUNDS_AT_ONCE", few)
        assert closing_turns(in_order).tolist() == expected
