"""Agents without a server on a real Ray, in a network that has nothing but loopback: see `agents_on_ray.py`."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

INSIDE = 'ip link set lo up; exec "$@"'  # Ray listens on all interfaces that there are


def in_a_network_of_its_own(*chosen: str) -> None:
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed; pip install -e '.[test,ray]'")
    file = Path(__file__).with_name("agents_on_ray.py")
    run = [sys.executable, "-m", "pytest", "-q", "-s", "-m", "", "-p", "no:xdist", str(file), *chosen]
    apart = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c"]
    if shutil.which("unshare") and not subprocess.run([*apart, "ip link set lo up"], check=False).returncode:
        run = [*apart, INSIDE, "sh", *run]
    elif "IDIOLECT_RAY_ANYWHERE" not in os.environ:
        pytest.skip("no network of its own can be made for Ray here; IDIOLECT_RAY_ANYWHERE=1 runs it all the same")
    quiet = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(run, cwd=Path(__file__).parents[2], env=quiet, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr


def test_agents_on_actors_come_to_what_the_simulator_comes_to():
    in_a_network_of_its_own("-k", "same_results and sgp")


@pytest.mark.slow
def test_all_of_it():
    in_a_network_of_its_own()
