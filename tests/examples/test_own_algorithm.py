"""One file outside the package: its objective, its protocol and its arrays get all that a recipe gets."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.survival.ray_runs import prefix

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "own_algorithm.py"
KILLED = """
import os, runpy, sys

replace = os.replace

def killed(source, target):
    if "/params/.sharpness+momentum-seed1" in str(source):
        os.kill(os.getpid(), 9)
    replace(source, target)

os.replace = killed
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(*arguments: object, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, *map(str, arguments)]
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def numbers(folder: Path) -> dict[str, object]:
    """All that a run leaves, but for the clock's part of it."""
    found: dict[str, object] = {}
    for path in sorted([*folder.glob("params/*"), *folder.glob("timelines/*"), folder / "clients.csv"]):
        found[str(path.relative_to(folder))] = path.read_bytes()
    for path in sorted(folder.glob("cells/*")):
        record = json.loads(path.read_text())
        found[path.name] = {key: record[key] for key in record if key not in ("seconds", "stopwatch")}
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run that nobody disturbed, and what it printed."""
    folder = tmp_path_factory.mktemp("own") / "run"
    done = run(EXAMPLE, folder)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_it_is_short():
    assert len(EXAMPLE.read_text().splitlines()) <= 60


def test_it_runs_reports_and_compares(whole):
    folder, printed = whole
    assert len(list((folder / "cells").iterdir())) == 12, "four algorithms on three seeds"
    assert "sharpness+momentum" in (folder / "report.html").read_text()
    lines = printed.strip().splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        "sharpness+asynchronous",
        "plain+momentum",
        "sharpness+momentum",
    ]
    assert all(" p=" in line for line in lines)


@pytest.mark.slow
def test_killed_it_goes_on_to_the_same_bytes(whole, tmp_path):
    killed = run("-c", KILLED, EXAMPLE, tmp_path / "run")
    assert killed.returncode == -9, killed.stderr
    assert not (tmp_path / "run" / "summary.json").exists()
    again = run(EXAMPLE, tmp_path / "run")
    assert again.returncode == 0, again.stderr
    assert numbers(tmp_path / "run") == numbers(whole[0])


def test_the_command_line_goes_on_with_it_if_it_names_the_file(whole, tmp_path):
    folder = shutil.copytree(whole[0], tmp_path / "run")
    lost = folder / "cells" / "plain+momentum-seed2.json"
    lost.unlink()
    refused = run("-m", "idiolect", "resume", folder)
    assert refused.returncode == 2
    assert f"allow it with --with {EXAMPLE}" in refused.stderr
    assert not lost.exists()
    resumed = run("-m", "idiolect", "resume", folder, "--with", EXAMPLE)
    assert resumed.returncode == 0, resumed.stderr
    assert f"importing {EXAMPLE}, which the command line names" in resumed.stderr
    assert numbers(folder) == numbers(whole[0])


@pytest.mark.slow
def test_on_ray_it_gives_the_same_bytes(whole, tmp_path):
    done = run(EXAMPLE, tmp_path / "run", "ray", before=prefix())
    assert done.returncode == 0, done.stderr
    assert numbers(tmp_path / "run") == numbers(whole[0])
