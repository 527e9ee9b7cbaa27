"""What the engine adds to the arithmetic, and whether the cost of an update grows with the number of clients.

The bare loop runs the same objective's local steps on the same threads, on batches that are already drawn and lie one
after the other in memory: no drawing of samples, no timeline, no server, no bookkeeping. What the simulator takes
longer is what the engine adds.
"""

import time
from collections.abc import Callable

import jax
import numpy as np

from cases import BATCH, OBJECTIVES
from idiolect.contracts import Algorithm, Key, Oracle, Params, Problem, Scalar, Shard
from idiolect.engines import Workers, prepare, simulate
from idiolect.engines.learner import learner
from idiolect.engines.side_by_side import threads
from idiolect.engines.workers import compile_for_clients
from idiolect.network import Network, draw_timeline
from tasks import algorithm, loss, problem, wait_for

UPDATES, REPEATS = {"mlp": 300, "cnn": 40}, 5
WIDTHS = (1, 4, 8, 16)  # turns at once


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


def interleaved(*runs: Callable[[], float]) -> list[float]:
    """The best of several timings of each, taken in turn so that all see the same machine."""
    for run in runs:
        run()
    times = [[run() for run in runs] for _ in range(REPEATS)]
    return np.min(times, axis=0).tolist()


def main() -> None:
    """Print the tables."""
    print("What the engine adds to the bare arithmetic (sampling, timeline, server, bookkeeping):")
    with Workers() as workers:
        for model in BATCH:
            task = problem(model)
            for objective in OBJECTIVES:
                chosen, updates = algorithm(task, model, objective), UPDATES[model]
                runs = (bare(task, model, chosen, workers, updates), engine(task, chosen, workers, updates))
                alone, whole = interleaved(*runs)
                print(
                    f"  {model} {objective:18} {1e3 * alone:8.3f} ms {1e3 * whole:8.3f} ms {whole / alone - 1:+7.1%}",
                    flush=True,
                )
        print("Cost of an update of the MLP with so many turns side by side, as a share of one at a time:")
        task = problem("mlp")
        for objective in ("plain", "exact MAML"):
            chosen = algorithm(task, "mlp", objective)
            costs = interleaved(*(engine(task, chosen, workers, UPDATES["mlp"], width) for width in WIDTHS))
            shares = "".join(f"  {width}: {cost / costs[0]:.2f}" for width, cost in zip(WIDTHS, costs, strict=True))
            print(f"  {objective:18} {1e3 * costs[0]:8.3f} ms{shares}", flush=True)
        print("Cost of an update of the MLP against the number of clients (60 samples each):")
        base = None
        for clients in (30, 300, 3_000, 10_000):
            task = problem("mlp", clients, 60 * clients)
            (cost,) = interleaved(engine(task, algorithm(task, "mlp", "plain"), workers, 600))
            base = base or cost
            print(
                f"  {clients:6} clients {1e3 * cost:8.3f} ms per update, {cost / base:.2f} times that of 30", flush=True
            )


if __name__ == "__main__":
    main()
