"""Timelines longer than memory: drawn, written and read in blocks, and the same to the bit as all at once."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect.contracts import Schedule
from idiolect.errors import UserMistake
from idiolect.network import Delay, Network, draw_counted, draw_timeline, read_timeline
from idiolect.network.column_files import write_columns
from idiolect.network.mapped_columns import MappedColumns, in_order_of_offers, joined
from idiolect.network.timelines import Timeline, timeline

from .test_timeline import exact_tables, timelines

NETWORK = Network(dropout=0.2, compute=Delay("fixed", 0.5))
WHOLE = 10**9


def same(one: Timeline, other: Timeline) -> None:
    for name, mine, theirs in zip(Timeline._fields, one, other, strict=True):
        assert (mine.dtype, mine.tobytes()) == (theirs.dtype, theirs.tobytes()), name


def in_files(table: Timeline) -> bool:
    """Whether a timeline lies in files and not in memory."""
    base = table.offered
    while isinstance(base, np.ndarray):
        base = base.base
    return base is not None and "mmap" in type(getattr(base, "obj", base)).__name__


@pytest.mark.parametrize("large", [0, 1, 17, 300])
@pytest.mark.parametrize("block", [1, 5, 64, 10_000])
@pytest.mark.parametrize("rounds", [True, False])
def test_a_timeline_drawn_in_blocks_is_the_one_drawn_whole(monkeypatch, large, block, rounds):
    monkeypatch.setattr("idiolect.network.mapped_columns.in_order_of_offers.__defaults__", (block,))
    schedule, members = Schedule(rounds=rounds, participation=0.4), [*range(3, 20), 31]
    whole = draw_timeline(NETWORK, members, schedule, horizon=90.0, seed=3, large=WHOLE)
    parts = draw_timeline(NETWORK, members, schedule, horizon=90.0, seed=3, large=large)
    same(whole, parts)
    assert in_files(parts) == (parts.turns > large)
    assert not in_files(whole)


def test_what_nobody_calls_large_stays_in_memory():
    schedule = Schedule(rounds=True)
    assert not in_files(draw_timeline(NETWORK, [0, 1, 2], schedule, horizon=90.0, seed=3))
    assert not in_files(draw_counted(NETWORK, [0, 1, 2], schedule, rounds=11, seed=1))


def test_counted_rounds_as_well():
    for large in (0, 20, WHOLE):
        table = draw_counted(NETWORK, [4, 2, 9], Schedule(rounds=True), rounds=11, seed=1, large=large)
        assert table.turns == 33
        same(table, draw_counted(NETWORK, [4, 2, 9], Schedule(rounds=True), rounds=11, seed=1))


@given(timelines(), st.integers(1, 12), st.integers(1, 9), st.randoms())
def test_turns_in_any_order_come_in_that_of_their_offers(table, block, width, random):
    """Those of one moment as they came: what a stable sort of all of them gives."""
    order = list(range(table.turns))
    random.shuffle(order)
    mixed = Timeline(*(column[order] for column in table))
    parts = [Timeline(*(column[k : k + width] for column in mixed)) for k in range(0, table.turns, width)]
    found = joined(in_order_of_offers(iter(parts), block), WHOLE)
    expected = np.argsort(mixed.offered, kind="stable")
    same(found, Timeline(*(column[expected] for column in mixed)))


@given(exact_tables(), st.integers(1, 9))
@settings(max_examples=40)
def test_columns_written_and_read_back_are_the_same_to_the_bit_for_any_block(tmp_path_factory, table, block):
    path = tmp_path_factory.getbasetemp() / "exact.turns.npz"
    with path.open("wb") as file:
        write_columns(table, file, block)
    same(read_timeline(path), table)


def test_equal_timelines_are_equal_files_wherever_their_columns_lie():
    table = draw_timeline(NETWORK, [0, 1, 2], Schedule(rounds=False), horizon=40.0, seed=0)
    far = MappedColumns()
    far.append(table)
    written = []
    for one in (table, far.timeline()):
        packed = io.BytesIO()
        write_columns(one, packed)
        written.append(packed.getvalue())
    assert written[0] == written[1]


def written(tmp_path: Path, table: Timeline, block: int = 2) -> Path:
    path = tmp_path / "mine.turns.npz"
    with path.open("wb") as file:
        write_columns(table, file, block)
    return path


def replaced(path: Path, name: str, column: np.ndarray) -> None:
    """Write another column in place of one of an archive."""
    with np.load(path) as arrays:
        columns = dict(arrays)
    with zipfile.ZipFile(path, "w") as archive:
        for key, value in {**columns, name: column}.items():
            packed = io.BytesIO()
            np.lib.format.write_array(packed, value, allow_pickle=True)
            archive.writestr(f"{key}.npy", packed.getvalue())


TABLE = timeline([0, 1, 0, 1], [0.0, 0.0, 2.0, 6.0], [1.0, 5.0, 3.0, 7.0])


@pytest.mark.parametrize(
    ("name", "column", "needle"),
    [
        ("000001/offered", np.array([2.0, 4.0]), "turn 3: client 1 is offered the model at 4.0"),
        ("000001/offered", np.array([-2.0, 6.0]), "turn 2 is offered at -2.0, before"),
        ("000000/arrived", np.array([np.inf, 5.0]), "turn 0 .client 0. has times"),
        ("000000/client", np.array([0, 1], np.int64), "has int64 .2,., not up to"),
        ("000000/client", np.array([0], np.int32), "block 0 has columns of different lengths"),
        ("000000/client", np.zeros((2, 1), np.int32), "has int32 .2, 1."),
        ("000000/client", np.array([{}, {}]), "has object"),
    ],
)
def test_columns_that_make_no_sense_are_one_sentence(tmp_path, name, column, needle):
    path = written(tmp_path, TABLE)
    replaced(path, name, column)
    with pytest.raises(UserMistake, match=needle) as mistake:
        read_timeline(path)
    assert str(path) in str(mistake.value)


@pytest.mark.parametrize("damage", [lambda content: content[:200], lambda content: b"", lambda content: b"no archive"])
def test_a_damaged_file_is_one_sentence(tmp_path, damage):
    path = written(tmp_path, TABLE)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserMistake, match=r"mine.turns.npz cannot be read"):
        read_timeline(path)


def test_a_file_without_blocks_is_refused(tmp_path):
    path = tmp_path / "none.turns.npz"
    with zipfile.ZipFile(path, "w"):
        pass
    with pytest.raises(UserMistake, match="is empty"):
        read_timeline(path)


def test_a_file_does_not_tell_when_it_was_written(tmp_path):
    """All parts have the first day that an archive can say, and not a day that no calendar has."""
    path = tmp_path / "mine.turns.npz"
    with path.open("wb") as file:
        write_columns(draw_timeline(NETWORK, [4, 2], Schedule(rounds=False), horizon=20.0, seed=1), file)
    with zipfile.ZipFile(path) as archive:
        assert {part.date_time for part in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
