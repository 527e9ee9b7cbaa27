"""How time and memory grow with the number of clients: 100 to 1,000,000, each with 20 samples and a small network.

Every number of clients is measured in a process of its own, through the whole engine: a timeline of about one and a
half updates a client, an evaluation of 20 clients at the end. Memory is what the process holds beyond its start and the
clients' data, without the files it maps. Models that clients have received and not yet worked on go to such a file
beyond 64 MiB, and so does what clients keep: nothing, or (`local`) a model of their own.

python benchmarks/scale.py                      everything; the million takes as long as its million and a half updates
python benchmarks/scale.py --up-to 100000       up to so many clients
python benchmarks/scale.py --until 4            no longer than this virtual time, when most clients are under way
python benchmarks/scale.py --turns 10000000     and a timeline of so many turns: drawing, writing and reading it
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

from figures import Figure, Found, Pace, Row, Table, asked, once, ratio, write
from idiolect import catalog
from idiolect.contracts import Batch, Clients, Key, Metric, Params, Problem, Protocol, Scalar, Schedule, Split
from idiolect.engines import Workers
from idiolect.engines.checkpointing import NO_CHECKPOINTS
from idiolect.engines.tree_store import MemoryBudget
from idiolect.evaluation.scores import OWN, Budget
from idiolect.experiments.evaluation_plan import EvaluationPlan
from idiolect.experiments.preparing import prepare_cell
from idiolect.experiments.recording import Cell
from idiolect.experiments.running import CellRun, Progress, Services, run_together
from idiolect.network import Network, Timeline, draw_timeline, read_timeline
from idiolect.network.column_files import write_columns
from idiolect.problems.models.networks import mlp
from idiolect.problems.supervised import supervised_problem

COUNTS, SAMPLES, FEATURES, CLASSES = (100, 1_000, 10_000, 100_000, 1_000_000), 20, 16, 10
TEN_MILLION = 10_000_000
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


class _Enough(Exception):
    """A run has reached the time until which it is watched."""


def measure(clients: int, name: str, until: float) -> dict[str, float]:
    """One run of so many clients: milliseconds per update, and the most memory beyond their data while it ran."""
    task = problem(clients)
    chosen = catalog.algorithm(name, task, objective=ALGORITHMS[name], local_steps=10, batch_size=10)
    plan = EvaluationPlan([HORIZON], Budget(steps=(0,), batch_size=4, at_most=20), OWN)
    prepared, checkpointer = prepare_cell(task, chosen, plan.budget), NO_CHECKPOINTS._replace(memory=ROOM)
    cell = _cell(task, chosen.protocol)
    assert isinstance(cell.table, Timeline)
    few = Timeline(*(column[:50] for column in cell.table))
    data = sum(leaf.nbytes for leaf in task.clients.train.rows.values())

    def stop(state: Progress) -> None:
        if state.time > until:
            raise _Enough

    with Workers() as workers:
        services = Services(workers)
        run_together([CellRun(prepared, cell._replace(table=few))], plan, services, checkpointer)  # compiles
        before = _held()
        with _Watcher() as watcher:
            began, worked = time.perf_counter(), time.process_time()
            with suppress(_Enough):
                run_together([CellRun(prepared, cell)], plan, services._replace(progress=stop), checkpointer)
            seconds, worked = time.perf_counter() - began, time.process_time() - worked
    updates = int((cell.table.delivered & (cell.table.arrived <= until)).sum())
    found = {
        "turns": cell.table.turns,
        "updates": updates,
        "ms": 1000 * seconds / updates,
        "cpu": 1000 * worked / updates,
    }
    return {**found, "bytes": watcher.most - before, "data": data}


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


def measure_timeline(turns: int) -> dict[str, float]:
    """Draw, write and read a timeline of about so many turns: seconds, and how much was held meanwhile."""
    clients = turns // 10
    with tempfile.TemporaryDirectory() as folder, _Watcher() as watcher:
        path, stamps, before = Path(folder) / "drawn.turns.npz", [time.perf_counter()], watcher.most
        table = draw_timeline(Network(), range(clients), Schedule(rounds=False), horizon=82.0, seed=0)
        stamps.append(time.perf_counter())
        with path.open("wb") as file:
            write_columns(table, file)
        stamps.append(time.perf_counter())
        again = read_timeline(path)
        stamps.append(time.perf_counter())
        assert again.turns == table.turns
        size = path.stat().st_size
    drawn, written, read = np.diff(stamps).tolist()
    columns = sum(column.nbytes for column in table)
    held = {"held": watcher.most - before, "file": size, "columns": columns}
    return {"turns": table.turns, "clients": clients, "drawn": drawn, "written": written, "read": read, **held}


def _timeline_rows(options: argparse.Namespace) -> list[Row]:
    """A row for the timeline that was asked for, each time in a process of its own."""
    if options.turns is None:
        return []
    found = [_apart("timeline", str(options.turns)) for _ in range(options.repeats)]
    figures = {name: Figure("s", [one[name] for one in found]) for name in ("drawn", "written", "read")}
    figures |= {name: Figure("MB", [one[name] / 1e6 for one in found]) for name in ("held", "file", "columns")}
    figures["turns"] = once(found[0]["turns"])
    row = Row(f"{found[0]['turns']:,} turns of {found[0]['clients']:,} clients", figures)
    print(f"A timeline, {row.case}: " + ", ".join(f"{name} {one} {one.unit}" for name, one in figures.items()))
    return [row]


def _ten_million(clients: list[Row], timelines: list[Row]) -> list[Row]:
    """What ten million clients would take, each part as much more as there are more clients than a million."""
    found = []
    for row in clients:
        count = row.figures["clients"].median
        if count != COUNTS[-1] or not timelines:
            continue
        more, table = TEN_MILLION / count, timelines[0].figures
        drawn = table["drawn"].median * row.figures["turns"].median / table["turns"].median
        hours = row.figures["turns"].median * row.figures["time"].median / 3.6e6
        figures = {
            "updates": once(more * row.figures["turns"].median),
            "hours": once(more * hours, "h"),
            "timeline": once(more * drawn / 60, "min"),
            "memory": once(more * row.figures["memory"].median / 1e3, "GB"),
            "data": once(TEN_MILLION * 4 * SAMPLES * (FEATURES + 1) / 1e9, "GB"),
        }
        found.append(Row(row.case.split(",")[0], figures))
        print(f"  ten million, {found[-1].case}: " + ", ".join(f"{n} {f} {f.unit}" for n, f in figures.items()))
    return found


def _apart(*one: str) -> dict[str, Any]:
    """What a process of its own measures."""
    done = subprocess.run([sys.executable, __file__, *one], stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout))


def main() -> None:
    """Measure each in a process of its own, and tell how they grow."""
    parser = asked(__doc__, 1)
    parser.add_argument("--up-to", type=int, default=COUNTS[-1])
    parser.add_argument("--from", dest="least", type=int, default=COUNTS[0])
    parser.add_argument("--until", type=float, default=HORIZON)
    parser.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS))
    parser.add_argument("--turns", type=int)
    parser.add_argument(
        "one", nargs="*", help="an algorithm and how many clients, or `timeline N`: this alone, as JSON"
    )
    options = parser.parse_args()
    if options.one:
        name, count = options.one[0], int(options.one[1])
        alone = measure_timeline(count) if name == "timeline" else measure(count, name, options.until)
        print(json.dumps(alone))
        return
    counts = [count for count in COUNTS if options.least <= count <= options.up_to]
    rows, timelines = measure_all(counts, options), _timeline_rows(options)
    tables = {"clients": Table("Time and memory against the number of clients", rows)}
    if timelines:
        tables["timelines"] = Table("Drawing, writing and reading a timeline, which is not held as a whole", timelines)
    if more := _ten_million(rows, timelines):
        tables["ten million"] = Table("What ten million clients would take, from the parts measured here", more)
    write(options.json, Found(tables))


def measure_all(counts: list[int], options: argparse.Namespace) -> list[Row]:
    """A row for each algorithm and number of clients, which are measured in turn; and how they grow from 1,000 on."""
    model = 4 * (FEATURES * 32 + 32 + 32 * CLASSES + CLASSES)
    print(f"Scale: {SAMPLES} samples ({4 * SAMPLES * (FEATURES + 1):,} bytes) a client, a model of {model:,} bytes")
    pairs = [(name, clients) for name in options.algorithms for clients in counts]
    found: dict[tuple[str, int], list[dict[str, float]]] = {pair: [] for pair in pairs}
    pace = Pace(len(pairs) * options.repeats, "runs")
    for _ in range(options.repeats):
        for name, clients in pairs:
            found[name, clients].append(_apart(name, str(clients), "--until", str(options.until)))
            pace.step()
    base = {name: found[name, 1_000] for name in options.algorithms if (name, 1_000) in found}
    return [_row(name, clients, found[name, clients], base.get(name)) for name, clients in pairs]


def _row(name: str, clients: int, found: list[dict[str, float]], base: list[dict[str, float]] | None) -> Row:
    figures = {
        "clients": once(clients),
        "turns": once(found[0]["turns"]),  # of the whole timeline; those until then are measured
        "updates": once(found[0]["updates"]),
        "time": Figure("ms", [one["ms"] for one in found]),
        "processor time": Figure("ms", [one["cpu"] for one in found]),
        "memory": Figure("MB", [one["bytes"] / 1e6 for one in found]),
        "bytes a client": Figure("B", [one["bytes"] / clients for one in found]),
    }
    if base is not None and clients >= 1_000:
        for kind, key in (("time", "ms"), ("processor time", "cpu")):
            figures[f"{kind} against 1,000"] = ratio(figures[kind], Figure("ms", [one[key] for one in base]))
    print(f"  {name:<12} " + ", ".join(f"{kind} {one} {one.unit}".strip() for kind, one in figures.items()), flush=True)
    return Row(f"{name}, {clients:,} clients", figures)


if __name__ == "__main__":
    main()
