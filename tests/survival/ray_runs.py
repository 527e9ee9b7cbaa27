"""What tests on Ray share: small experiments, their results, deaths at chosen moments, and a network with nobody in it.

Ray listens on every interface that it finds. So tests that start it are in files that are not collected by name, and
run in a network that has nothing but loopback.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from idiolect.engines import Workers
from idiolect.engines.checkpointing import NO_CHECKPOINTS, Checkpointer
from idiolect.engines.ray import ActorPool, RayBackend, connected
from idiolect.experiments.cell_results import Result
from idiolect.experiments.recipe_files import parse_recipe
from idiolect.experiments.running import Execution, Progress, Services, run_cells
from idiolect.experiments.sources import cell_maker, source_of
from idiolect.experiments.value import Experiment

ROOT = Path(__file__).parents[2]
APART = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]


@cache
def prefix() -> tuple[str, ...]:
    """What a command that starts Ray begins with; where that cannot be, the test is skipped and says so."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed; pip install -e '.[test]'")
    if shutil.which("unshare") and not subprocess.run([*APART, "true"], capture_output=True, check=False).returncode:
        return tuple(APART)
    if "IDIOLECT_RAY_ANYWHERE" in os.environ:
        return ()
    return pytest.skip(
        "no network namespace can be made for Ray here (unshare --user --net); IDIOLECT_RAY_ANYWHERE=1 does without one"
    )


def pass_there(file: str, marks: str) -> None:
    """Run the tests of a file beside this one in a network of their own, all on one cluster."""
    tests = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-s",
        "-p",
        "no:xdist",
        "-m",
        marks,
        str(Path(__file__).with_name(file)),
    ]
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run([*prefix(), *tests], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr


QUADRATICS = {"name": "quadratics", "clients": 5, "dimension": 3, "noise": 0.1}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "fedbuff": {"protocol": {"size": 3}},
    "persa_fl_me": {"objective": {"iterations": 2}},
    "scaffold": {},
    "qupel_async": {"objective": {"bits": 1, "keep": []}},
}


@cache
def experiment_of(name: str, **changes: Any) -> Experiment:
    tables = {
        "seeds": [0, 1],
        "horizon": 60.0,
        "problem": QUADRATICS,
        "training": {"local_steps": 2, "batch_size": 4},
        "evaluation": {"points": 2},
        "algorithms": [{"name": name, **ALGORITHMS.get(name, {})}],
    }
    return parse_recipe({**tables, **changes})


def outcomes(
    experiment: Experiment,
    execution: Execution = Execution(),
    progress: Callable[[Progress], None] = lambda state: None,
) -> list[Result]:
    with Workers(1) as workers:
        return list(run_cells(experiment, Services(workers, progress, execution=execution)))


@cache
def plainly(name: str) -> list[Result]:
    return outcomes(experiment_of(name))


def pool_of(ray: Any, experiment: Experiment, **settings: Any) -> ActorPool:
    """Actors that make the experiment from its source."""
    return ActorPool(ray, partial(cell_maker, source_of(experiment)), **settings)


def same(left: list[Result], right: list[Result]) -> bool:
    """To rounding: actors compile for another number of rows."""
    assert [one.points[-1].updates for one in left] == [one.points[-1].updates for one in right]
    for a, b in zip(left, right, strict=True):
        assert a.personal.keys() == b.personal.keys()
        ends = [(one.params, dict(one.personal), [p.reports for p in one.points]) for one in (a, b)]
        for one, other in zip(*map(jax.tree.leaves, ends), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    return True


def cluster() -> Iterator[Any]:
    """Ray, and then no longer; for a fixture."""
    # Ray's workers are nice to others by default; on a busy machine they then take minutes to start.
    os.environ.setdefault("RAY_worker_niceness", "0")
    with connected() as module:
        yield module


def on_ray(
    ray: Any,
    experiment: Experiment,
    clock: str = "virtual",
    *,
    disturb: Callable[[ActorPool, Progress], None] = lambda pool, state: None,
    checkpointer: Checkpointer = NO_CHECKPOINTS,
    **settings: Any,
) -> tuple[list[Result], ActorPool]:
    """What an experiment comes to; `disturb` is told of every moment, and has the pool at its mercy."""
    with pool_of(ray, experiment, **{"count": 2, **settings}) as pool, Workers(1) as workers:
        execution, progress = Execution(partial(RayBackend, pool), clock), partial(disturb, pool)
        services = Services(workers, progress, lambda label, cells: checkpointer, execution)
        return list(run_cells(experiment, services)), pool


def by_ray(ray: Any, pool: ActorPool) -> None:
    ray.kill(pool.actor(0))


def by_signal(ray: Any, pool: ActorPool) -> None:
    os.kill(ray.get(pool.actor(1).process.remote()), signal.SIGKILL)


def killing(ray: Any, how: list[Callable[[Any, ActorPool], None]], every: int) -> Callable[[ActorPool, Progress], None]:
    """Kill an actor at every so many moments, as long as there are ways to."""
    heard = 0

    def disturb(pool: ActorPool, state: Progress) -> None:
        nonlocal heard
        heard += 1
        if how and heard % every == 0:
            how.pop(0)(ray, pool)

    return disturb
