"""The write-ahead log and a device's record: after a kill, a torn write, a flipped bit or a power loss."""

import numpy as np
import pytest

from idiolect.deploy.joining.device_record import DeviceRecord, RecordFile
from idiolect.deploy.serving.write_ahead_log import WriteAheadLog
from idiolect.errors import UserMistake
from tests.survival.losing_disk import LosingDisk, PowerLoss

GROUPS = [[b"a"], [b"bb", b"", b"ccc"], [b"d" * 300], [b"e", b"f"]]


def contents(folder, after=0):
    log = WriteAheadLog(folder)
    found = [record.content for record in log.records(after)]
    assert log.last == after + len(found)
    log.close()
    return found


def write(folder, groups=GROUPS):
    log = WriteAheadLog(folder)
    for group in groups:
        log.append(group)
    log.close()
    return next(folder.glob("*.wal"))


def test_what_is_written_is_read_in_order_and_numbered(tmp_path):
    write(tmp_path)
    assert contents(tmp_path) == [one for group in GROUPS for one in group]
    assert contents(tmp_path, after=3) == [b"ccc", b"d" * 300, b"e", b"f"]


def test_wherever_the_end_is_cut_whole_groups_are_left_and_the_log_goes_on(tmp_path):
    whole = write(tmp_path).read_bytes()
    ends = [0]
    for group in GROUPS:
        ends.append(ends[-1] + 32 + sum(4 + len(one) for one in group))
    assert ends[-1] == len(whole)
    for cut in range(0, len(whole), 11):
        (file,) = tmp_path.glob("*.wal")
        file.write_bytes(whole[:cut])
        left = sum(end <= cut for end in ends) - 1
        expected = [one for group in GROUPS[:left] for one in group]
        assert contents(tmp_path) == expected
        write(tmp_path, [[b"next"]])
        assert contents(tmp_path) == [*expected, b"next"]


def test_a_flipped_bit_before_the_end_is_told_and_never_skipped(tmp_path):
    file = write(tmp_path)
    whole = bytearray(file.read_bytes())
    for place in range(0, len(whole) - 60, 7):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        file.write_bytes(damaged)
        with pytest.raises(UserMistake, match=r"is damaged at byte \d+, before its end; restore it from a backup"):
            WriteAheadLog(tmp_path)


def test_old_files_go_and_a_missing_one_is_told(tmp_path):
    log = WriteAheadLog(tmp_path)
    for number in range(6):
        log.append([bytes([number])])
        log.rotate(keep_after=max(0, number - 1))
    log.close()
    assert contents(tmp_path, after=4) == [b"\x04", b"\x05"]
    with pytest.raises(UserMistake, match="lacks record 1"):
        contents(tmp_path)
    _, second, *_ = sorted(tmp_path.glob("*.wal"))
    second.unlink()
    with pytest.raises(UserMistake, match="lacks record"):
        contents(tmp_path, after=4)


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    log = WriteAheadLog(tmp_path)

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserMistake, match="cannot be written: No space left on device"):
        log.append([b"x"])
    monkeypatch.undo()
    write(tmp_path, [[b"y"]])  # there is room again; what nobody was told of may be there or not
    assert contents(tmp_path) in ([b"y"], [b"x", b"y"])


def test_wherever_the_power_goes_what_was_told_is_in_the_log(tmp_path, monkeypatch):
    for fails_at in range(1, 12):
        root = tmp_path / str(fails_at)
        root.mkdir()
        disk, told = LosingDisk(root, monkeypatch), []
        disk.fails_at = fails_at
        try:
            log = WriteAheadLog(root)
            for number in range(8):
                log.append([f"{number}".encode()])
                told.append(f"{number}".encode())
                if number % 3 == 2:
                    log.rotate(keep_after=0)
        except PowerLoss:
            pass
        disk.fails_at = -1
        disk.lose()
        assert contents(root)[: len(told)] == told
        monkeypatch.undo()


RECORD = DeviceRecord("id", "0" * 16, 2, 7, "committed", 9, {"a": np.ones(3)}, {"a": np.zeros(3)}, b"upload")


def test_a_record_comes_back_as_it_was(tmp_path):
    files = RecordFile(tmp_path / "state")
    assert files.read("id", {"a": np.zeros(3)}).stage == "idle"
    files.write(RECORD)
    found = files.read("id", {"a": np.zeros(3)})
    assert found._replace(before=None, after=None) == RECORD._replace(before=None, after=None)
    assert (found.before["a"] == 1).all()
    assert (found.after["a"] == 0).all()
    files.write(RECORD._replace(before=None, stage="taken", upload=b""))
    assert files.read("id", {"a": np.zeros(3)}).before is None


def test_whoever_only_knocks_does_not_sweep_away_what_another_process_is_writing(tmp_path):
    (tmp_path / ".record.half.unfinished").write_bytes(b"half")
    files = RecordFile(tmp_path)
    assert (tmp_path / ".record.half.unfinished").exists(), "whoever has the lock may be writing it"
    files.read("id", {"a": np.zeros(3)})
    assert list(tmp_path.iterdir()) == [], "under the lock, it is of a process that was killed"


def test_a_damaged_or_foreign_record_is_one_sentence(tmp_path):
    files = RecordFile(tmp_path)
    files.write(RECORD)
    with pytest.raises(UserMistake, match="another experiment"):
        files.read("other", {"a": np.zeros(3)})
    whole = (tmp_path / "record").read_bytes()
    (tmp_path / "record").write_bytes(whole[:-1])
    with pytest.raises(UserMistake, match="is damaged"):
        files.read("id", {"a": np.zeros(3)})


def test_wherever_the_power_goes_a_record_is_the_old_one_or_the_new_one(tmp_path, monkeypatch):
    for fails_at in range(1, 5):
        root = tmp_path / str(fails_at)
        root.mkdir()
        disk = LosingDisk(root, monkeypatch)
        files, after = RecordFile(root), RECORD._replace(stage="taken", last=9, upload=b"")
        files.write(RECORD)
        disk.fails_at = disk.syncs + fails_at
        lost = False
        try:
            files.write(after)
        except PowerLoss:
            lost = True
        disk.fails_at = -1
        disk.lose()
        found = RecordFile(root).read("id", {"a": np.zeros(3)}).stage
        assert found in (("committed", "taken") if lost else ("taken",))
        monkeypatch.undo()
