"""Checkpoints on disk: two of them in turns; damaged and foreign ones are named and passed over."""

from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from idiolect.engines.checkpointing import Checkpoint, Checkpointer
from idiolect.errors import Interrupted, UserMistake
from idiolect.experiments.recording import Cell
from idiolect.network.timelines import timeline
from idiolect.results import checkpoint_files as module
from idiolect.results.checkpoint_files import Pace, checkpoints

ALWAYS = Pace(seconds=0, share=float("inf"))
TABLE = timeline(client=[0, 1], offered=[0.0, 0.0], arrived=[1.0, 2.0])


def checkpointer(folder: Path, recipe: str = "a recipe", table: Any = TABLE, **options: Any) -> Checkpointer:
    return checkpoints(folder, recipe, "fedavg", [Cell(None, table, 3)], **{"pace": ALWAYS, **options})


def state(number: int) -> Checkpoint:
    tensors = {"x": np.full((2, 3), number, np.float32), "y": np.int32(number), "z": np.array([number], np.float64)}
    return Checkpoint(
        {"number": number, "half": number / 2, "list": [1, "é"]}, {k: np.asarray(v) for k, v in tensors.items()}
    )


def keep(folder: Path, *numbers: int) -> list[Path]:
    """The files after these states were saved, the latest last."""
    mine = checkpointer(folder)
    for number in numbers:
        mine.tick(lambda number=number: state(number))
    return sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)


def found(folder: Path, **options: Any) -> tuple[int | None, list[str]]:
    notices: list[str] = []
    saved = checkpointer(folder, notice=notices.append, **options).load()
    return (None if saved is None else saved.facts["number"]), notices


def test_what_was_saved_comes_back_to_the_last_bit(tmp_path):
    keep(tmp_path, 7)
    saved = checkpointer(tmp_path).load()
    assert saved.facts == state(7).facts
    for name, leaf in state(7).tensors.items():
        assert (saved.tensors[name].dtype, saved.tensors[name].shape) == (leaf.dtype, leaf.shape)
        assert saved.tensors[name].tobytes() == leaf.tobytes()


def test_the_last_two_are_kept_and_the_later_one_counts(tmp_path):
    assert len(keep(tmp_path, 1, 2, 3)) == 2
    assert found(tmp_path) == (3, [])


def test_going_on_writes_over_the_older_one(tmp_path):
    keep(tmp_path, 1, 2)
    mine = checkpointer(tmp_path)
    mine.load()
    mine.tick(lambda: state(3))
    assert found(tmp_path) == (3, [])
    for file in tmp_path.iterdir():
        if b'"number": 3' in file.read_bytes().replace(b"\\", b""):
            file.unlink()
    assert found(tmp_path) == (2, [])


def test_nothing_is_left_when_the_run_is_over(tmp_path):
    keep(tmp_path, 1, 2)
    checkpointer(tmp_path).clear()
    assert list(tmp_path.iterdir()) == []
    assert found(tmp_path) == (None, [])


def test_a_truncated_one_is_named_and_the_one_before_is_used(tmp_path):
    *_, latest = keep(tmp_path, 1, 2)
    content = latest.read_bytes()
    for length in (0, 1, 7, 8, 9, len(content) // 2, len(content) - 1):
        latest.write_bytes(content[:length])
        number, (notice,) = found(tmp_path)
        assert number == 1
        assert str(latest) in notice


def test_no_flipped_bit_goes_unnoticed(tmp_path):
    *_, latest = keep(tmp_path, 1, 2)
    content = latest.read_bytes()
    for place in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[place] ^= 1 << (place % 8)
        latest.write_bytes(damaged)
        number, notices = found(tmp_path)
        # The text of a header can say the same in other bytes; if so, it must say exactly the same.
        assert (number, len(notices)) in ((1, 1), (2, 0)), place
        if number == 2:
            assert checkpointer(tmp_path).load().facts == state(2).facts


@pytest.mark.parametrize(
    "other",
    [{"recipe": "another recipe"}, {"table": timeline(client=[0, 1], offered=[0.0, 0.0], arrived=[1.0, 2.5])}],
)
def test_one_of_another_recipe_or_timeline_is_named_and_not_used(tmp_path, other):
    keep(tmp_path, 1)
    number, (notice,) = found(tmp_path, **other)
    assert number is None
    assert "belongs to another recipe, timeline or version" in notice


def test_if_both_are_lost_the_run_begins_anew_and_says_so(tmp_path):
    for file in keep(tmp_path, 1, 2):
        file.write_bytes(b"nothing")
    number, notices = found(tmp_path)
    assert (number, len(notices)) == (None, 2)


def test_who_asks_to_stop_gets_a_checkpoint_and_the_run_ends(tmp_path):
    mine = checkpointer(tmp_path, pace=Pace(seconds=1e9), stop=lambda: True)
    with pytest.raises(Interrupted):
        mine.tick(lambda: state(5))
    assert found(tmp_path) == (5, [])


@pytest.mark.parametrize(("seconds", "moments"), [(30.0, 10**9), (1e9, 100)])
def test_saving_takes_its_share_of_the_time_and_no_more(tmp_path, monkeypatch, seconds, moments):
    """A moment takes 0.1 s, and saving one second for the first 50 times, as if the disk were slow at first."""
    now, saves = [0.0], []
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    mine = checkpointer(tmp_path, pace=Pace(seconds, moments, share=0.01))

    def save() -> Checkpoint:
        cost = 1.0 if now[0] < 2000 else 0.01
        now[0] += cost
        saves.append(cost)
        return state(1)

    for _ in count():
        now[0] += 0.1
        mine.tick(save)
        if now[0] > 4000:
            break
    assert sum(saves) <= 0.011 * now[0]
    calm = [cost for cost in saves if cost == 0.01]
    assert len(calm) == pytest.approx(2000 / min(seconds, moments * 0.1), rel=0.15), "as often as asked for, if cheap"


def test_a_full_disk_is_one_sentence_and_the_last_good_state_stays(tmp_path, monkeypatch):
    keep(tmp_path, 1)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    mine = checkpointer(tmp_path)
    mine.load()
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserMistake, match="cannot be written: No space left on device"):
        mine.tick(lambda: state(2))
    assert found(tmp_path) == (1, [])
    assert len(list(tmp_path.iterdir())) == 1


def test_a_checkpoint_says_which_data_and_which_jax_made_it(tmp_path, monkeypatch):
    def mine(rows: list[float]) -> tuple[Any, list[str]]:
        notices: list[str] = []
        clients = ({"x": np.array(rows)}, {}, {}, {})
        cell = type("Cell", (), {"clients": clients, "table": (), "seed": 0})
        saved = checkpoints(tmp_path, "recipe", "fedavg", [cell], pace=Pace(seconds=0), notice=notices.append)  # type: ignore[list-item]
        return saved, notices

    mine([1.0])[0].tick(lambda: Checkpoint({}, {"x": np.zeros(1)}))
    assert mine([1.0])[0].load() is not None
    saved, notices = mine([2.0])
    assert saved.load() is None
    assert "was made from other data" in notices[0]
    monkeypatch.setattr("jax.__version__", "0.0.1")
    saved, notices = mine([1.0])
    assert saved.load() is None
    assert "and this is JAX 0.0.1" in notices[0]
