"""What Ray costs: an update of the same recipe by the simulator's threads and by Ray's actors, for models of all sizes.

A turn on Ray pays for two messages (the model there, what the client sends back) and for the copies at both ends: a
constant, and something for each megabyte. What it buys, work on many machines, is not to be seen on one. Ray listens on
every interface that it finds, so this runs in a network of its own, with nothing but loopback, where one can be made.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import jax
import numpy as np

from idiolect.contracts import Clients
from idiolect.engines import Backend, Program, ThreadBackend, Workers, prepare, simulate
from idiolect.engines.ray import ActorPool, RayBackend, connected
from idiolect.experiments.building import build_seed
from idiolect.experiments.recipe_files import parse_recipe
from idiolect.experiments.sources import cell_maker, source_of
from idiolect.experiments.value import Experiment
from idiolect.network.timelines import Timeline
from tasks import wait_for

HIDDEN = {(16,): 400, (80, 60): 400, (512, 512): 100, (1024, 1024): 40, (2048, 2048): 20}  # -> updates
REPEATS, APART = 3, "IDIOLECT_RAY_APART"


def experiment(hidden: tuple[int, ...]) -> Experiment:
    """The asynchronous server and plain clients, on digits."""
    model = {"name": "mlp", "hidden": list(hidden)}
    return parse_recipe(
        {
            "horizon": 2000.0,
            "problem": {"name": "digits", "clients": 20, "model": model},
            "training": {"local_steps": 10, "batch_size": 32},
            "algorithms": [{"name": "fedasync"}],
        }
    )


def begin_of(table: Timeline, updates: int) -> Timeline:
    """The turns whose updates arrive first."""
    rows = np.sort(np.argsort(table.arrived)[:updates])
    return Timeline(*(column[rows] for column in table))


def timed(program: Program, clients: Clients, table: Timeline, backend: Backend) -> Callable[[], float]:
    """Seconds per update."""

    def run() -> float:
        began = time.perf_counter()
        (end,) = simulate(program, clients, table, backend, seed=0, times=[table.arrived.max()])
        wait_for(end.params)
        return (time.perf_counter() - began) / end.updates

    return run


def compare(ray: Any, hidden: tuple[int, ...], updates: int) -> str:
    """A row of the table."""
    chosen = experiment(hidden)
    _, problem, cells, _ = build_seed(chosen, 0)
    algorithm, drawn, _, _ = cells["fedasync"]
    assert isinstance(drawn, Timeline)
    table, program = begin_of(drawn, updates), prepare(problem, algorithm)
    size = sum(leaf.size for leaf in jax.tree.leaves(program.init(jax.random.key(0))))
    make = partial(cell_maker, source_of(chosen))
    with Workers() as workers, ActorPool(ray, make, count=workers.count) as pool:
        crews = (ThreadBackend(program, problem.clients, workers, 0), RayBackend(pool, program, problem.clients, 0))
        runs = [timed(program, problem.clients, table, backend) for backend in crews]
        for run in runs:
            run()
        here, there = np.min([[run() for run in runs] for _ in range(REPEATS)], axis=0)
    name = "-".join(map(str, (64, *hidden, 10)))
    return (
        f"| {name} | {size:,} | {4e-6 * size:.2g} | {1e3 * here:.2f} | {1e3 * there:.2f} | "
        f"{1e3 * (there - here):+.2f} | {there / here:.1f} |"
    )


def apart() -> None:
    """Start again in a network that has nothing but loopback, if that can be had."""
    inside = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c"]
    if APART in os.environ or shutil.which("unshare") is None:
        return
    if not subprocess.run([*inside, "ip link set lo up"], check=False, capture_output=True).returncode:
        os.environ[APART] = "1"
        os.execvp("unshare", [*inside, 'ip link set lo up; exec "$@"', "sh", sys.executable, *sys.argv])


def main() -> None:
    """Print the table, or why there is none."""
    if find_spec("ray") is None:
        print("The cost of Ray is not measured: it is not installed; pip install -e '.[ray]'")
        return
    apart()
    print("Milliseconds per update of ten local steps, batch 32, by as many threads or actors as there are cores:")
    print("| MLP | parameters | MB each way | simulator | Ray | Ray adds | ratio |\n| --- |" + " ---: |" * 6)
    with connected() as ray:
        for hidden, updates in HIDDEN.items():
            print(compare(ray, hidden, updates), flush=True)


if __name__ == "__main__":
    main()
