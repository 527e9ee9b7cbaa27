"""The table a run is folded over: its events, its versions and its file agree with the obvious way to count them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect.errors import UserMistake
from idiolect.network import timelines as timelines_module
from idiolect.network.recorder import TimelineRecorder
from idiolect.network.timeline_checks import TurnChecks
from idiolect.network.timelines import (
    ARRIVAL,
    CLOSE,
    NO_ROUND,
    OFFER,
    Timeline,
    active_share,
    closing_turns,
    events,
    read_timeline,
    staleness,
    timeline,
    write_timeline,
)

# gap before the turn, download, compute, upload (in eighths, so that many things happen at the same moment), arrives?
TURN = st.tuples(*[st.integers(0, 3)] * 3, st.integers(1, 3), st.booleans())


@st.composite
def timelines(draw: st.DrawFn, rounds: bool | None = None) -> Timeline:
    """Random turns of a few clients, one at a time each, with or without (possibly overlapping) rounds."""
    rows = []
    for client in range(draw(st.integers(1, 4))):
        now = 0
        for gap, *phases, delivered in draw(st.lists(TURN, min_size=1, max_size=6)):
            stamps = np.cumsum([now + gap, *phases])
            rows.append((client, *(stamps / 8), delivered))
            now = int(stamps[-1])
    rows = draw(st.permutations(rows))
    client, offered, received, computed, arrived, delivered = map(list, zip(*rows, strict=True))
    numbered = draw(st.booleans()) if rounds is None else rounds
    numbers = draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows))) if numbered else None
    more = {"received": received, "computed": computed, "delivered": delivered, "round": numbers}
    return timeline(client, offered, arrived, **more)


def round_ends(table: Timeline) -> dict[int, float]:
    ends: dict[int, float] = {}
    for number, arrived in zip(table.round.tolist(), table.arrived.tolist(), strict=True):
        if number != NO_ROUND:
            ends[number] = max(arrived, ends.get(number, arrived))
    return ends


def count_versions(table: Timeline, updates_per_step: int) -> list[int]:
    """The staleness of every turn, by living through the timeline moment by moment."""
    moments = [(table.offered[turn], 2, turn) for turn in range(table.turns)]
    moments += [(table.arrived[turn], 0, turn) for turn in range(table.turns)]
    moments += [(end, 1, -1) for end in round_ends(table).values()]
    version = absorbed = 0
    at_offer, result = {}, [0] * table.turns
    for _, kind, turn in sorted(moments):
        if kind == 2:
            at_offer[turn] = version
        elif kind == 1:
            version += 1
        else:
            result[turn] = version - at_offer[turn]
            absorbed += bool(table.delivered[turn])
            if not round_ends(table):
                version = absorbed // updates_per_step
    return result


@given(timelines())
def test_events_come_in_order_and_none_is_missing(table):
    found = events(table)
    assert [(e.time, e.kind, e.turn) for e in found] == sorted((e.time, e.kind, e.turn) for e in found)
    rows = range(table.turns)
    offers = sorted((e.turn, e.time) for e in found if e.kind == OFFER)
    arrivals = sorted((e.turn, e.time) for e in found if e.kind == ARRIVAL)
    closes = sorted((int(table.round[e.turn]), e.time) for e in found if e.kind == CLOSE)
    assert offers == [(row, table.offered[row]) for row in rows]
    assert arrivals == [(row, table.arrived[row]) for row in rows if table.delivered[row]]
    assert closes == sorted(round_ends(table).items())


def test_at_one_moment_updates_arrive_before_the_round_closes_and_before_anyone_is_offered_the_result():
    table = timeline([0, 1, 0], [0, 0, 2], [2, 2, 3], round=[0, 0, 1])
    at_two = [(event.kind, event.turn) for event in events(table) if event.time == 2]
    assert at_two == [(ARRIVAL, 0), (ARRIVAL, 1), (CLOSE, 1), (OFFER, 2)]


@given(timelines(rounds=True))
def test_a_round_closes_with_the_last_upload_it_waits_for_lost_ones_included(table):
    closing = closing_turns(table)
    assert {int(table.round[turn]): table.arrived[turn] for turn in closing} == round_ends(table)
    assert len(closing) == len(round_ends(table))


@given(timelines(rounds=False))
def test_nothing_closes_without_rounds(table):
    assert len(closing_turns(table)) == 0


@given(timelines(), st.integers(1, 4))
def test_staleness_is_what_counting_event_by_event_gives(table, updates_per_step):
    assert staleness(table, updates_per_step).tolist() == count_versions(table, updates_per_step)


def test_staleness_of_a_worked_example():
    """Client 1 sees both of client 0's updates go by, of which a buffer of two makes one version."""
    table = timeline([0, 1, 0], [0, 0, 1], [1, 3, 2])
    assert staleness(table).tolist() == [0, 2, 0]
    assert staleness(table, updates_per_step=2).tolist() == [0, 1, 0]


@given(timelines())
def test_active_share_is_what_counting_clients_gives(table):
    clients = int(table.client.max()) + 1
    times = np.arange(-1, 8 * table.arrived.max() + 2) / 8
    times = np.sort(np.concatenate([times, times + 1 / 16]))
    expected = [
        len({c for c, a, b in zip(table.client, table.offered, table.arrived, strict=True) if a <= t < b}) / clients
        for t in times
    ]
    np.testing.assert_array_equal(active_share(table, clients, times), expected)


@st.composite
def exact_tables(draw: st.DrawFn) -> Timeline:
    """Any finite times at all, the smallest and the largest included; a client takes one turn."""
    finite = st.floats(allow_nan=False, allow_infinity=False)
    stamps = st.lists(finite, min_size=4, max_size=4).map(sorted).filter(lambda four: four[0] < four[3])
    rows = draw(st.lists(st.tuples(stamps, st.booleans(), st.integers(0, 2**31 - 1)), min_size=1, max_size=8))
    offered, received, computed, arrived = map(list, zip(*(row[0] for row in rows), strict=True))
    delivered, rounds = [row[1] for row in rows], [row[2] for row in rows]
    more = {"received": received, "computed": computed, "delivered": delivered, "round": rounds}
    return timeline(range(len(rows)), offered, arrived, **more)


@given(exact_tables())
def test_a_table_written_and_read_back_is_the_same_to_the_bit(tmp_path_factory, table):
    path = tmp_path_factory.getbasetemp() / "exact.csv"
    path.write_text(write_timeline(table), encoding="utf-8")
    for name, before, after in zip(Timeline._fields, table, read_timeline(path), strict=True):
        assert (before.dtype, before.tobytes()) == (after.dtype, after.tobytes()), name


@given(timelines(), st.randoms())
@settings(max_examples=30)
def test_the_order_of_the_rows_does_not_matter_where_no_two_offers_coincide(table, random):
    first_of_each = np.unique(table.offered, return_index=True)[1]
    table = Timeline(*(column[first_of_each] for column in table))
    shuffled = list(range(table.turns))
    random.shuffle(shuffled)
    again = timeline(**Timeline(*(column[shuffled] for column in table))._asdict())
    for before, after in zip(table, again, strict=True):
        np.testing.assert_array_equal(before, after)


def test_clients_offers_and_arrivals_are_enough():
    table = timeline([4, 2], [1.0, 0.0], [2.0, 5.0])
    assert table.client.tolist() == [2, 4]
    assert table.received.tolist() == table.computed.tolist() == table.offered.tolist() == [0.0, 1.0]
    assert table.delivered.all()
    assert (table.round == NO_ROUND).all()


def test_a_hand_written_file_needs_three_columns_and_understands_flags(tmp_path):
    path = tmp_path / "hand.csv"
    path.write_text("client,offered,arrived,delivered\n0,0,1,true\n1,0.5,2,False\n2,1,2,1\n3,1,2,0\n")
    table = read_timeline(path)
    assert table.arrived.tolist() == [1, 2, 2, 2]
    assert table.delivered.tolist() == [True, False, True, False]


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("columns", "needles"),
    [
        ({"client": [3, 3], "offered": [0, 1.25], "arrived": [2, 3]}, ["client 3", "1.25", "one turn at a time"]),
        ({"client": [1, 3, 3], "offered": [0, 0, 1.25], "arrived": [2, 2, 3]}, ["turn 2: client 3", "1.25"]),
        ({"client": [3], "offered": [1.5], "arrived": [1.5]}, ["client 3", "1.5", "must take time"]),
        ({"client": [3], "offered": [NAN], "arrived": [1.5]}, ["client 3", "nan", "finite"]),
        ({"client": [3], "offered": [0], "arrived": [INF]}, ["client 3", "inf", "finite"]),
        ({"client": [3], "offered": [0], "arrived": [2], "received": [2.5]}, ["client 3", "2.5", "not decrease"]),
        ({"client": [3], "offered": [0], "arrived": [2], "computed": [-1.5]}, ["client 3", "-1.5", "not decrease"]),
        ({"client": [3, 4], "offered": [0, 1], "arrived": [2]}, ["lengths", "'offered': 2", "'arrived': 1"]),
        ({"client": [3], "offered": [0], "arrived": [2], "round": [0, 1]}, ["lengths", "'round': 2"]),
        ({"client": [], "offered": [], "arrived": []}, ["empty"]),
        ({"client": [0.5], "offered": [0], "arrived": [2]}, ["client", "0.5"]),
    ],
)
def test_an_impossible_table_is_refused_by_field_and_value(columns, needles):
    with pytest.raises(UserMistake) as mistake:
        timeline(**columns)
    for needle in needles:
        assert needle in str(mistake.value)


@pytest.mark.parametrize(
    ("text", "needles"),
    [
        ("client,offered\n0,0\n", ["'client', 'offered'", "arrived"]),
        ("client,offered,arrived,speed\n0,0,1,2\n", ["speed"]),
        ("", ["client, offered and arrived"]),
        ("client,offered,arrived,delivered\n0,0,1,maybe\n", ["delivered", "'maybe'", "True or False"]),
        ("client,offered,arrived\n0,0,soon\n", ["arrived", "'soon'"]),
        ("client,offered,arrived\n1.5,0,1\n", ["client", "'1.5'"]),
        ("client,offered,arrived\n0,0,nan\n", ["client 0", "nan"]),
        ("client,offered,arrived\n0,0,2\n0,1,3\n", ["client 0", "1.0"]),
        ("client,offered,arrived\n0,0,2\n1,1\n", ["arrived"]),
        ("client,offered,arrived,delivered\n0,0,2\n", ["delivered"]),
        ("client,offered,arrived\n99999999999,0,2\n", ["client", "99999999999"]),
        ("client,offered,arrived\n0,0,2,7\n", ["columns"]),
    ],
)
def test_a_wrong_file_is_refused_by_field_and_value(tmp_path, text, needles):
    path = tmp_path / "wrong.csv"
    path.write_text(text)
    with pytest.raises(UserMistake) as mistake:
        read_timeline(path)
    for needle in ["wrong.csv", *needles]:
        assert needle in str(mistake.value)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00client"])
def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path, content):
    path = tmp_path / "unreadable.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserMistake, match=r"unreadable\.csv cannot be read"):
        read_timeline(path)


def test_a_turn_that_was_given_up_stands_in_the_table_as_not_delivered_and_makes_no_version():
    recorder = TimelineRecorder()
    lost, other = recorder.offer(0, 1.0), recorder.offer(1, 2.0)
    recorder.give_up(lost, 3.0)
    again = recorder.offer(0, 4.0)
    assert recorder.under_way == [other, again]
    assert recorder.arrival(other, 5.0, 1) == 0
    assert recorder.arrival(again, 6.0, 1) == 1
    table = recorder.table(7.0)
    assert table.delivered.tolist() == [False, True, True]
    assert table.arrived.tolist() == [3.0, 5.0, 6.0]
    assert staleness(table).tolist()[1:] == [0, 1]
    copy = TimelineRecorder()
    copy.restore(recorder.tensors())
    assert copy.table(7.0).arrived.tolist() == [3.0, 5.0, 6.0]
    old = {name: column for name, column in recorder.tensors().items() if name != "recorder.lost"}
    copy.restore(old)  # of a checkpoint that knew nothing of lost turns
    assert copy.under_way == [lost]


@given(timelines(rounds=True), st.integers(1, 4))
def test_the_turns_that_close_rounds_are_the_same_however_many_are_looked_at_together(table, at_once):
    table = table._replace(round=np.sort(table.round))  # as drawn rounds are, and only these are taken by parts
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timelines_module, "_ROUNDS_AT_ONCE", at_once)
        found = closing_turns(table)
    assert {int(table.round[k]): float(table.arrived[k]) for k in found} == round_ends(table)


def test_a_turn_above_which_a_later_one_stands_is_named():
    table = timeline([0, 1, 2, 3], [0.0, 1.0, 2.0, 3.0], [5.0] * 4)
    astray = Timeline(*(column[[0, 1, 3, 2]] for column in table))
    with pytest.raises(UserMistake, match=r"turn 3 is offered at 2\.0, before the turn that stands above it"):
        TurnChecks().look_at(astray)


@pytest.mark.parametrize("client", [1, 2, 3])
def test_a_client_that_is_offered_too_early_is_found_from_block_to_block(client):
    checks = TurnChecks()
    checks.look_at(timeline([1, 2, 3], [0.0] * 3, [5.0] * 3))
    with pytest.raises(UserMistake, match=f"turn 3: client {client} is offered the model at 4.5, before"):
        checks.look_at(timeline([client], [4.5], [6.0]))
