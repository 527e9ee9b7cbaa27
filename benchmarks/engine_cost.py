"""What the engine adds to the arithmetic, and whether the cost of an update grows with the number of clients.

The bare loop runs the same objective's local steps on the same threads, on batches that are already drawn and lie one
after the other in memory: no drawing of samples, no timeline, no server, no bookkeeping. What the simulator takes
longer is what the engine adds.
"""

import argparse
import time
from collections.abc import Callable

import jax
import numpy as np

from cases import BATCH, OBJECTIVES
from figures import Figure, Found, Pace, Row, Table, asked, interleaved, ratio, times, write
from idiolect.contracts import Algorithm, Key, Oracle, Params, Problem, Scalar, Shard
from idiolect.engines import Workers, prepare, simulate
from idiolect.engines.learner import learner
from idiolect.engines.side_by_side import threads
from idiolect.engines.workers import compile_for_clients
from idiolect.network import Network, draw_timeline
from tasks import algorithm, loss, problem, wait_for

UPDATES, COUNTS = {"mlp": 300, "cnn": 40}, (30, 300, 3_000, 10_000)
WIDTHS = (4, 8, 16)  # turns at once
SIDE_BY_SIDE = ("plain", "exact MAML")


def bare(task: Problem, model: str, chosen: Algorithm, workers: Workers, updates: int) -> Callable[[], float]:
    """Seconds per update of the objective's local steps on ready batches, over the workers."""
    ready = task.clients.train.rows
    count = len(ready["label"]) // chosen.batch_size
    whole = Shard(ready, np.int32(0), np.int32(count * chosen.batch_size))

    def without_sampling(shard: Shard, batch_size: int) -> Oracle:
        def value(params: Params, key: Key) -> Scalar:
            place = (jax.random.key_data(key)[-1] % count).astype(np.int32) * batch_size  # one of the ready batches
            batch = jax.tree.map(lambda rows: jax.lax.dynamic_slice_in_dim(rows, place, batch_size), shard.rows)
            return loss(model, params, batch)

        return Oracle(
            value=value,
            gradient=jax.value_and_grad(value),
            hessian_product=lambda params, vector, key: jax.jvp(
                jax.grad(lambda point: value(point, key)), (params,), (vector,)
            )[1],
        )

    descend = compile_for_clients(learner(task._replace(oracle=without_sampling), chosen).descend)
    params, key = task.init(jax.random.key(0)), jax.random.key(1)

    def timed() -> float:
        began = time.perf_counter()
        for future in [workers.submit(descend, (), params, None, whole, key) for _ in range(updates)]:
            future.result()
        return (time.perf_counter() - began) / updates

    return timed


def engine(task: Problem, chosen: Algorithm, workers: Workers, updates: int, width: int = 1) -> Callable[[], float]:
    """Seconds per update of the simulator on a timeline with about this many updates, so many turns at once."""
    program, everyone = prepare(task, chosen), task.clients.participating
    horizon = max(12.0, 8.0 * updates / len(everyone))
    table = draw_timeline(Network(), everyone, program.protocol.schedule, horizon=horizon, seed=0)
    order = np.argsort(table.arrived)[:updates]
    table = type(table)(*(column[np.sort(order)] for column in table))

    def timed() -> float:
        began = time.perf_counter()
        backend = threads(program, task.clients, workers, 0, width)
        end = list(simulate(program, task.clients, table, backend, seed=0, times=[horizon]))[-1]
        wait_for(end.params)
        return (time.perf_counter() - began) / end.updates

    return timed


def adds(workers: Workers, options: argparse.Namespace, pace: Pace) -> list[Row]:
    """What the engine adds to the bare arithmetic, for every model and objective."""
    print("What the engine adds to the bare arithmetic (sampling, timeline, server, bookkeeping):")
    rows = []
    for model in options.models:
        task = problem(model)
        for objective in options.objectives:
            chosen, updates = algorithm(task, model, objective), UPDATES[model] // options.part
            sides = {
                "bare": bare(task, model, chosen, workers, updates),
                "engine": engine(task, chosen, workers, updates),
            }
            found = {side: times(seconds) for side, seconds in interleaved(sides, options.repeats, pace).items()}
            more = Figure("", [share - 1 for share in ratio(found["engine"], found["bare"]).repeats])
            rows.append(Row(f"{model}, {objective}", {**found, "adds": more}))
            print(
                f"  {rows[-1].case:24} {found['bare']!s:>22} ms {found['engine']!s:>22} ms {more.median:+7.1%}",
                flush=True,
            )
    return rows


def side_by_side(workers: Workers, options: argparse.Namespace, pace: Pace) -> list[Row]:
    """What an update costs with several turns at once."""
    print("Cost of an update of the MLP with so many turns side by side, as a share of one at a time:")
    rows, task = [], problem("mlp")
    for objective in [one for one in SIDE_BY_SIDE if one in options.objectives]:
        chosen, updates = algorithm(task, "mlp", objective), UPDATES["mlp"] // options.part
        sides = {str(width): engine(task, chosen, workers, updates, width) for width in (1, *options.widths)}
        found = {side: times(seconds) for side, seconds in interleaved(sides, options.repeats, pace).items()}
        shares = {f"{width} at once": ratio(found[str(width)], found["1"]) for width in options.widths}
        rows.append(Row(objective, {"one by one": found["1"], **shares}))
        told = "".join(f"  {name}: {share}" for name, share in shares.items())
        print(f"  {objective:18} {found['1']!s:>20} ms{told}", flush=True)
    return rows


def many_clients(workers: Workers, options: argparse.Namespace, pace: Pace) -> list[Row]:
    """What an update costs where there are more clients."""
    print("Cost of an update of the MLP against the number of clients (60 samples each):")
    sides = {}
    for clients in COUNTS:
        task = problem("mlp", clients, 60 * clients)
        sides[f"{clients:,}"] = engine(task, algorithm(task, "mlp", "plain"), workers, 600 // options.part)
    found = {side: times(seconds) for side, seconds in interleaved(sides, options.repeats, pace).items()}
    least = found[f"{COUNTS[0]:,}"]
    rows = [Row(f"{name} clients", {"time": one, "ratio": ratio(one, least)}) for name, one in found.items()]
    for row in rows:
        against = f"{row.figures['ratio']} times that of {COUNTS[0]}"
        print(f"  {row.case:>15} {row.figures['time']} ms per update, {against}", flush=True)
    return rows


def main() -> None:
    """Print the tables."""
    parser = asked(__doc__, 5)
    parser.add_argument("--models", nargs="+", choices=BATCH, default=list(BATCH))
    parser.add_argument("--part", type=int, default=1, help="one of so many parts of the updates, to be done sooner")
    parser.add_argument("--objectives", nargs="+", choices=OBJECTIVES, default=list(OBJECTIVES))
    parser.add_argument("--widths", nargs="+", type=int, default=list(WIDTHS), help="turns at once")
    options = parser.parse_args()
    beside = len(set(SIDE_BY_SIDE) & set(options.objectives))
    pace = Pace((len(options.models) * len(options.objectives) + beside + 1) * options.repeats)
    with Workers() as workers:
        tables = {
            "adds": Table(
                "Milliseconds per update: bare arithmetic, the engine, and what it adds", adds(workers, options, pace)
            ),
            "side by side": Table(
                "An update with several turns at once, as a share of one by one", side_by_side(workers, options, pace)
            ),
            "clients": Table("An update against the number of clients", many_clients(workers, options, pace)),
        }
    write(options.json, Found(tables))


if __name__ == "__main__":
    main()
