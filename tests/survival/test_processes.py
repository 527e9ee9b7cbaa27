"""Real processes and real signals: killed, asked to stop, started twice, and on a full disk."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from idiolect.watching import watcher

HEAD = """
seeds = [0, 1]
horizon = {horizon}

[training]
step_size = 0.02
batch_size = 4

[evaluation]
points = 4
batch_size = 4
"""
QUADRATICS = '[problem]\nname = "quadratics"\nclients = 6\n'
BUFFERED = '[[algorithms]]\nname = "fedbuff"\n\n'
SERVER = BUFFERED + '[[algorithms]]\nname = "scaffold"\n'
PEERS = '[[algorithms]]\nname = "pars_push"\nobjective = { step_size = 0.02 }\n'
ENDING = '[[algorithms]]\nname = "sgp"\n[links]\nloss = 0.9\ngamma_f = "unbounded"\n'  # after some 500 rounds
RECIPES = {
    "both": HEAD.format(horizon=600) + QUADRATICS + BUFFERED + PEERS,
    "server": HEAD.format(horizon=8000) + QUADRATICS + SERVER,
    "peers": HEAD.format(horizon=200_000) + QUADRATICS + PEERS,
    "ending": HEAD.format(horizon=40_000).replace("points = 4", "points = 200") + QUADRATICS + ENDING,
    "qupel": HEAD.format(horizon=3000)
    + '[problem]\nname = "digits"\nclients = 6\n[[algorithms]]\nname = "qupel"\nobjective = { bits = 2, keep = [] }\n',
    "memrl": HEAD.format(horizon=2000)
    + '[problem]\nname = "navigation"\n[[algorithms]]\nname = "pfedme"\nobjective = { lambda = 0.1, iterations = 5 }\n',
}
PROGRAM = "import sys; from idiolect.cli import main; sys.exit(main())"
KILLED_WHILE_WRITING = """
import os, sys
from idiolect.cli import main

replace = os.replace

def killed(source, target):
    if "/{part}" in str(source):
        os.kill(os.getpid(), 9)
    replace(source, target)

os.replace = killed
sys.exit(main())
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Processes that compile once for all of them."""
    compiled = tmp_path_factory.mktemp("compiled")
    settings = {"JAX_COMPILATION_CACHE_DIR": str(compiled), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    return {**os.environ, **settings}


@contextmanager
def started(environment: dict[str, str], *arguments: object, program: str = PROGRAM) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", program, *map(str, arguments), "--checkpoint-every", "0.05"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def finished(environment: dict[str, str], *arguments: object) -> None:
    with started(environment, *arguments) as process:
        _, errors = process.communicate()
        assert process.returncode == 0, errors


def results(folder: Path) -> dict[str, bytes]:
    """All that a run leaves, but for the clock's part of it."""
    files = [*(folder / "params").iterdir(), *(folder / "timelines").iterdir(), folder / "metrics.jsonl"]
    return {str(file.relative_to(folder)): file.read_bytes() for file in [*files, folder / "clients.csv"]}


def assert_the_same(folder: Path, other: Path) -> None:
    """Two runs left the same files, to the byte."""
    left, right = results(folder), results(other)
    assert sorted(left) == sorted(right)
    assert [name for name in left if left[name] != right[name]] == []


def under_way(folder: Path, process: subprocess.Popen[str]) -> None:
    """Wait until something of a cell is saved."""
    while process.poll() is None and not list(folder.glob("checkpoints/*.safetensors")):
        time.sleep(0.02)
    assert process.poll() is None, f"it was over before anything could be done to it: {process.communicate()}"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """A run that nobody disturbed, beside its recipe."""
    return undisturbed(tmp_path_factory.mktemp("whole"), environment, "both")


def undisturbed(place: Path, environment: dict[str, str], kind: str) -> Path:
    (place / "recipe.toml").write_text(RECIPES[kind])
    finished(environment, "run", place / "recipe.toml", "--out", place / "run")
    return place


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_who_asks_a_run_to_stop_is_told_how_to_go_on_and_loses_nothing_even_elsewhere(
    whole, tmp_path, environment, number
):
    out = tmp_path / "run"
    with started(environment, "run", whole / "recipe.toml", "--out", out) as process:
        under_way(out, process)
        assert watcher(out)().state == "under way"
        process.send_signal(number)
        _, errors = process.communicate()
    assert process.returncode == 128 + number
    assert watcher(out)().state == "stopped"
    assert f"go on with: idiolect resume {out}" in errors
    assert "Traceback" not in errors
    moved = tmp_path / "moved"
    shutil.move(out, moved)
    finished(environment, "resume", moved)
    assert_the_same(moved, whole / "run")
    assert not list((moved / "checkpoints").iterdir())


def kill_until_finished(place: Path, environment: dict[str, str], out: Path, rng: random.Random, kills: int) -> None:
    """Kill -9 as soon as work is under way, then at random moments (some before it begins); then let it finish."""
    command = ("run", place / "recipe.toml", "--out", out)
    for kill in range(kills):
        with started(environment, *command) as process:
            if kill == 0:
                under_way(out, process)
            else:
                time.sleep(rng.uniform(0, 4))
            process.kill()  # of one that is over already, nothing
        command = ("resume", out)
    finished(environment, *command)


def test_a_run_killed_while_it_writes_goes_on_to_the_same_bytes_and_leaves_nothing_behind(whole, tmp_path, environment):
    out = tmp_path / "run"
    for part in [".recipe", "checkpoints/", "params/.fedbuff-seed1", "cells/.pars_push"]:
        command = ("run", whole / "recipe.toml", "--out", out)
        with started(environment, *command, program=KILLED_WHILE_WRITING.format(part=part)) as process:
            process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not out.joinpath("recipe.toml").exists() or watcher(out)().state == "died"
        assert [file for file in out.rglob(".*") if file.name.endswith(".unfinished")]
    finished(environment, "run", whole / "recipe.toml", "--out", out)
    assert_the_same(out, whole / "run")
    assert {file.name for file in out.rglob(".*")} <= {".lock"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["server", "peers", "ending", "qupel", "memrl"])
def test_a_run_killed_again_and_again_goes_on_to_the_same_bytes(kind, tmp_path, environment):
    place = undisturbed(tmp_path, environment, kind)
    rng = random.Random(kind)
    for trial in range(3):
        kill_until_finished(place, environment, tmp_path / f"run{trial}", rng, kills=8)
        assert_the_same(tmp_path / f"run{trial}", place / "run")


def test_a_second_process_in_the_same_folder_is_refused_and_disturbs_nothing(whole, tmp_path, environment):
    out = tmp_path / "run"
    with started(environment, "run", whole / "recipe.toml", "--out", out) as first:
        under_way(out, first)
        first.send_signal(signal.SIGSTOP)  # so that it cannot be over before the second comes
        with started(environment, "resume", out) as second:
            _, errors = second.communicate()
            assert second.returncode == 2
            assert f"{out} is in use" in errors
            assert len(errors.splitlines()) == 1
        first.send_signal(signal.SIGCONT)
        first.communicate()
        assert first.returncode == 0
    assert_the_same(out, whole / "run")


TINY_DISK = """
mount -t tmpfs -o size=640k none "$1" || exit 77
head -c 560k /dev/zero > "$1/ballast"
shift_to="$2"; place="$1"; shift 2
"$@"; code=$?
ls "$place/run/recipe.toml" > /dev/null || exit 1
mount -o remount,size=64m "$place"
cp -r "$place/run" "$shift_to"
exit $code
"""


def test_a_full_disk_stops_the_run_with_a_sentence_and_it_goes_on_when_there_is_room(whole, tmp_path, environment):
    """On a file system of 640 kB, most of which is taken."""
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare to make a small file system with")
    disk = tmp_path / "disk"
    disk.mkdir()
    run = [sys.executable, "-c", PROGRAM, "run", str(whole / "recipe.toml"), "--out", str(disk / "run")]
    shell = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", TINY_DISK, "sh"]
    command = [*shell, str(disk), str(tmp_path / "rescued"), *run, "--checkpoint-every", "0.05"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode in (1, 77):
        pytest.skip(f"no small file system can be mounted here: {done.stderr}")
    assert done.returncode == 2, done.stderr
    assert "cannot be written: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    finished(environment, "resume", tmp_path / "rescued")
    assert_the_same(tmp_path / "rescued", whole / "run")
