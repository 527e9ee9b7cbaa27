"""How time and memory grow with the number of clients: 100 to 100,000, each with 20 samples and a small network.

Every number of clients is measured in a process of its own, through the whole engine: a timeline of about one update a
client, an evaluation of 20 clients at the end. Memory is what the process holds, without the files it maps. Models that
clients have received and not yet worked on go to such a file beyond 64 MiB.
"""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

from idiolect import catalog
from idiolect.contracts import Batch, Clients, Key, Metric, Params, Problem, Protocol, Scalar, Split
from idiolect.engines import Workers
from idiolect.engines.checkpointing import NO_CHECKPOINTS
from idiolect.engines.tree_store import MemoryBudget
from idiolect.evaluation.scores import OWN, Budget
from idiolect.experiments.evaluation_plan import EvaluationPlan
from idiolect.experiments.recording import Cell, prepare_cell
from idiolect.experiments.running import CellRun, Services, run_together
from idiolect.network import Network, Timeline, draw_timeline
from idiolect.problems.models.networks import mlp
from idiolect.problems.supervised import supervised_problem

COUNTS, SAMPLES, FEATURES, CLASSES = (100, 1_000, 10_000, 100_000), 20, 16, 10
HORIZON, ROOM = 12.0, MemoryBudget(64 * 2**20)
ALGORITHMS = {"fedasync": {}, "persa_fl_me": {"lambda": 20.0, "iterations": 2}, "local": {}}  # the last keeps models


def problem(clients: int) -> Problem:
    """Random points and labels, the same number for everybody: 10 samples to train on, 4, 2 and 4 for the rest."""
    rng, parts = np.random.default_rng(0), np.array([10, 4, 2, 4], np.int32)
    x = rng.standard_normal((clients * SAMPLES, FEATURES), np.float32)
    store = {"x": jnp.asarray(x), "label": jnp.asarray(rng.integers(0, CLASSES, len(x), np.int32))}
    starts = (np.arange(clients)[:, None] * SAMPLES + np.cumsum(parts) - parts).astype(np.int32)
    train, adapt, validation, test = (
        Split(store, starts[:, k], np.full(clients, part, np.int32)) for k, part in enumerate(parts)
    )
    model = mlp((FEATURES,), CLASSES, hidden=(32,))

    def loss(params: Params, batch: Batch, key: Key) -> Scalar:
        logits = model.apply(params, batch["x"], None)
        return optax.losses.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()

    def accuracy(params: Params, batch: Batch) -> Scalar:
        return (model.apply(params, batch["x"], None).argmax(-1) == batch["label"]).mean()

    everyone = Clients(train, adapt, validation, test)
    return supervised_problem("points", model.init, loss, Metric("accuracy", accuracy, True), everyone)


def measure(clients: int, name: str) -> dict[str, float]:
    """One run of so many clients: milliseconds per update, and the most memory that was held while it ran."""
    task = problem(clients)
    chosen = catalog.algorithm(name, task, objective=ALGORITHMS[name], local_steps=10, batch_size=10)
    plan = EvaluationPlan([HORIZON], Budget(steps=(0,), batch_size=4, at_most=20), OWN)
    prepared, checkpointer = prepare_cell(task, chosen, plan.budget), NO_CHECKPOINTS._replace(memory=ROOM)
    cell = _cell(task, chosen.protocol)
    assert isinstance(cell.table, Timeline)
    few = Timeline(*(column[:50] for column in cell.table))
    data = sum(leaf.nbytes for leaf in task.clients.train.rows.values())
    with Workers() as workers:
        services = Services(workers)
        run_together([CellRun(prepared, cell._replace(table=few))], plan, services, checkpointer)  # compiles
        before = _held() - data
        with _Watcher() as watcher:
            began = time.perf_counter()
            (outcome,) = run_together([CellRun(prepared, cell)], plan, services, checkpointer)
            seconds = time.perf_counter() - began
    updates = outcome.points[-1].updates
    return {"updates": updates, "ms": 1000 * seconds / updates, "bytes": watcher.most - before}


def _cell(task: Problem, protocol: Any) -> Cell:
    assert isinstance(protocol, Protocol)
    everyone = task.clients.participating
    return Cell(task.clients, draw_timeline(Network(), everyone, protocol.schedule, horizon=HORIZON, seed=0), 0)


def _held() -> int:
    """Bytes of memory that belong to no file."""
    text = Path("/proc/self/status").read_text()
    return int(text.split("RssAnon:")[1].split()[0]) * 1024


class _Watcher:
    """Looks at the memory every so often."""

    def __enter__(self) -> "_Watcher":
        self.most, self._over = _held(), threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._over.wait(0.05):
            self.most = max(self.most, _held())

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def main() -> None:
    """Measure each in a process of its own, and fit how they grow."""
    if len(sys.argv) > 1:
        print(json.dumps(measure(int(sys.argv[1]), sys.argv[2])))
        return
    model = 4 * (FEATURES * 32 + 32 + 32 * CLASSES + CLASSES)
    data = 4 * SAMPLES * (FEATURES + 1)
    print(f"Scale: {SAMPLES} samples ({data:,} bytes) a client, and a model of {model:,} bytes")
    print(f"  {'':<12} {'clients':>8} {'updates':>8} {'ms per update':>14} {'MB held':>8} {'bytes a client':>15}")
    for name in ALGORITHMS:
        found = []
        for clients in COUNTS:
            told = subprocess.run([sys.executable, __file__, str(clients), name], capture_output=True, check=True)
            one = json.loads(told.stdout)
            found.append((clients, one["ms"], max(one["bytes"], 1)))
            cost = f"{one['ms']:>14.3f} {one['bytes'] / 1e6:>8.1f} {one['bytes'] / clients:>15,.0f}"
            print(f"  {name:<12} {clients:>8,} {one['updates']:>8,} {cost}")
        count, ms, held = np.log(np.array(found[1:], float).T)
        print(
            f"  {name}: time per update grows like clients^{np.polyfit(count, ms, 1)[0]:.2f}, memory like "
            f"clients^{np.polyfit(count, held, 1)[0]:.2f}, from 1,000 clients on"
        )


if __name__ == "__main__":
    main()
