"""What Ray costs: an update of the same recipe by the simulator's threads and by Ray's actors.

For models of all sizes, for short turns and for long ones, for few clients and for many.

Turns on Ray pay for two messages (models there, what clients send back), which several of them share, and for copies at
both ends: a constant, and something for each megabyte. What it buys, work on many machines, is not to be seen on one.
Both run in turns in the same minutes. What a repeat of Ray adds, and its share of the simulator's throughput, are taken
against the repeat of the simulator beside it, and shown as the median with the least and the most.

Ray listens on every interface that it finds, so this runs in a network of its own, with nothing but loopback, where one
can be made.
"""

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import jax
import numpy as np

from figures import Figure, Found, Pace, Row, Table, asked, once, write
from idiolect.contracts import Clients
from idiolect.engines import Backend, Program, ThreadBackend, Workers, prepare, simulate
from idiolect.engines.ray import ActorPool, RayBackend, connected
from idiolect.experiments.building import build_seed
from idiolect.experiments.recipe_files import parse_recipe
from idiolect.experiments.sources import cell_maker, source_of
from idiolect.experiments.value import Experiment
from idiolect.network.timelines import Timeline
from standing_by import apart
from tasks import wait_for

REPEATS, APART = 7, "IDIOLECT_RAY_APART"


class Case(NamedTuple):
    """A model, how long a turn is, of how many clients, and how many updates are timed."""

    hidden: tuple[int, ...]
    updates: int
    steps: int = 10
    clients: int = 20

    @property
    def model(self) -> str:
        """Its layers."""
        return "-".join(map(str, (64, *self.hidden, 10)))

    def __str__(self) -> str:
        return f"{self.model}, {self.steps} steps, {self.clients} clients"


CASES = (
    Case((16,), 400),
    Case((16,), 400, clients=100),
    Case((80, 60), 200, steps=200),
    Case((512, 512), 100, steps=30),
    Case((80, 60), 400),
    Case((512, 512), 100),
    Case((1024, 1024), 40),
    Case((2048, 2048), 20),
)


def experiment(case: Case) -> Experiment:
    """The asynchronous server and plain clients, on digits."""
    return parse_recipe(
        {
            "horizon": 2000.0,
            "problem": {
                "name": "digits",
                "clients": case.clients,
                "model": {"name": "mlp", "hidden": list(case.hidden)},
            },
            "training": {"local_steps": case.steps, "batch_size": 32},
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


def compare(ray: Any, case: Case, repeats: int) -> dict[str, Any]:
    """Milliseconds per update by the simulator and by Ray, repeat by repeat."""
    chosen = experiment(case)
    _, problem, cells, _ = build_seed(chosen, 0)
    algorithm, drawn, _, _ = cells["fedasync"]
    assert isinstance(drawn, Timeline)
    table, program = begin_of(drawn, case.updates), prepare(problem, algorithm)
    size = sum(leaf.size for leaf in jax.tree.leaves(program.init(jax.random.key(0))))
    make = partial(cell_maker, source_of(chosen))
    with Workers() as workers, ActorPool(ray, make, count=workers.count) as pool:
        crews = (ThreadBackend(program, problem.clients, workers, 0), RayBackend(pool, program, problem.clients, 0))
        runs = [timed(program, problem.clients, table, backend) for backend in crews]
        for run in runs:
            run()
        here, there = 1e3 * np.array([[run() for run in runs] for _ in range(repeats)]).T
    return {
        "case": str(case),
        "parameters": size,
        "simulator_ms": here.tolist(),
        "ray_ms": there.tolist(),
        "ray_adds_ms": (there - here).tolist(),
        "throughput_share": (here / there).tolist(),
    }


def row(found: dict[str, Any]) -> str:
    """A row of the table."""
    names = ("simulator_ms", "ray_ms", "ray_adds_ms", "throughput_share")
    spread = [f"{np.median(x):.2f} ({np.min(x):.2f} to {np.max(x):.2f})" for x in (found[name] for name in names)]
    megabytes = 4e-6 * found["parameters"]
    return f"| {found['case']} | {found['parameters']:,} | {megabytes:.2g} | {' | '.join(spread)} |"


def again_apart() -> None:
    """Start again in a network that has nothing but loopback, if that can be had."""
    if APART not in os.environ and (inside := apart()):
        os.environ[APART] = "1"
        os.execvp(inside[0], [*inside, sys.executable, *sys.argv])


def as_row(found: dict[str, Any]) -> Row:
    """The same for the file."""
    facts = {"parameters": once(found["parameters"]), "each way": once(4e-6 * found["parameters"], "MB")}
    measured = {"simulator": "simulator_ms", "Ray": "ray_ms", "Ray adds": "ray_adds_ms"}
    shown = {name: Figure("ms", found[key]) for name, key in measured.items()}
    return Row(found["case"], {**facts, **shown, "throughput": Figure("", found["throughput_share"])})


def main() -> None:
    """Print the table, or why there is none."""
    parser = asked(__doc__, REPEATS)
    parser.add_argument("--cases", type=int, default=len(CASES), help="how many of them, in their order")
    options = parser.parse_args()
    if find_spec("ray") is None:
        print("The cost of Ray is not measured: it is not installed; pip install -e '.[ray]'")
        return
    again_apart()
    print("Milliseconds per update, batch 32, by as many threads or actors as there are cores:")
    print("| MLP | parameters | MB each way | simulator | Ray | Ray adds | throughput |\n| --- |" + " ---: |" * 6)
    found, pace = [], Pace(min(options.cases, len(CASES)), "cases")
    with connected() as ray:
        for case in CASES[: options.cases]:
            found.append(compare(ray, case, options.repeats))
            print(row(found[-1]), flush=True)
            pace.step()
    says = "Milliseconds per update by the simulator's threads and by actors of Ray, on one machine"
    write(options.json, Found({"updates": Table(says, [as_row(one) for one in found])}))


if __name__ == "__main__":
    main()
