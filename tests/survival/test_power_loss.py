"""The power goes at any moment, on a disk that loses what was not synced; the run goes on to the same bytes."""

from pathlib import Path

import pytest

from idiolect.cli import main
from idiolect.files import make_folder, write_atomically
from tests.survival.losing_disk import LosingDisk, PowerLoss
from tests.survival.test_damaged_folders import kept, whole

__all__ = ["whole"]  # a fixture


def test_a_file_that_was_written_outlives_a_power_loss(tmp_path, monkeypatch):
    disk = LosingDisk(tmp_path, monkeypatch)
    make_folder(tmp_path / "run" / "cells")
    write_atomically(tmp_path / "run" / "cells" / "a.json", b"content")
    (tmp_path / "run" / "cells" / "careless").write_bytes(b"never synced")
    disk.lose()
    assert [path.name for path in (tmp_path / "run" / "cells").iterdir()] == ["a.json"]
    assert (tmp_path / "run" / "cells" / "a.json").read_bytes() == b"content"


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 13])
def test_wherever_the_power_goes_the_run_goes_on_to_the_same_bytes(every: int, whole: Path, tmp_path, monkeypatch):
    """At every so many syncs: once a run is finished, it has survived them all."""
    disk, out = LosingDisk(tmp_path / "disk", monkeypatch), tmp_path / "disk" / "run"
    (tmp_path / "disk").mkdir()
    command = ["run", str(whole.parent / "mine.toml"), "--out", str(out)]
    for losses in range(200):
        disk.syncs, disk.fails_at = 0, 1 + every * (losses % 8)
        try:
            assert main(command) == 0
            break
        except PowerLoss:
            disk.lose()
    assert losses > 1
    assert kept(out) == kept(whole)
