"""Time of a client update of a PyTorch module through each bridge, against a hand-written PyTorch loop.

`python benchmarks/torch_bridges.py` measures, all cores at work:

- `loop`: PyTorch by hand, with clients on threads of one core each, or one after the other on all cores, whichever is
  faster;
- `call` and `trace`: the simulator with each of the bridges, sampling, timeline, bookkeeping and all;
- `host`: what a turn loop on the host would take, in place of calls from the compiled program: the same functions of
  PyTorch, and NumPy for the steps.

Each side is a process of its own, which compiles first and then waits. They are asked in turn, so that whatever else
the machine does falls on all of them. Printed are milliseconds per update of ten steps; how many cores were busy; and
the ratios to `loop` in the same repeat.
"""

import copy
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from figures import Figure, Found, Pace, Row, Table, asked, ratio, times, write
from standing_by import in_turn, serve, values
from torch_models import BATCH, CLIENTS, LOCAL_STEPS, MODELS, STEP_SIZE, Case, case

SIDES = ("loop", "call", "trace", "host")
Updates = Callable[[int], int]  # takes about so many updates and says how many


def seconds_each(updates: Updates, count: int) -> tuple[float, float]:
    """Seconds per update, and how many cores were busy."""
    began, worked = time.perf_counter(), time.process_time()
    done = updates(count)
    wall = time.perf_counter() - began
    return wall / done, (time.process_time() - worked) / wall


def by_hand(given: Case, cores: int) -> Updates:
    """PyTorch without idiolect: clients side by side, or all cores for one after the other."""
    rows = [{name: torch.from_numpy(values) for name, values in client.items()} for client in given.data]
    pool = ThreadPoolExecutor(cores)

    def update(number: int, threads: int) -> None:
        torch.set_num_threads(threads)
        module, mine = copy.deepcopy(given.module).train(), rows[number % CLIENTS]
        learning = [p for p in module.parameters() if p.requires_grad]
        optimizer = torch.optim.SGD(learning, STEP_SIZE)
        for _ in range(LOCAL_STEPS):
            drawn = torch.randint(0, len(next(iter(mine.values()))), (BATCH,))
            optimizer.zero_grad()
            given.loss(module, {name: values[drawn] for name, values in mine.items()}).backward()
            optimizer.step()

    def side_by_side(count: int) -> int:
        list(pool.map(lambda number: update(number, 1), range(count)))
        return count

    def one_by_one(count: int) -> int:
        for number in range(count):
            update(number, cores)
        return count

    ways = (one_by_one, side_by_side)
    tried = [min(seconds_each(way, 2 * CLIENTS) for _ in range(3))[0] for way in ways]
    return ways[tried.index(min(tried))]


def by_bridge(given: Case, bridge: str) -> Updates:
    """The simulator, with a server that waits for nobody."""
    import jax

    import idiolect.torch
    from idiolect import Algorithm, objectives, protocols
    from idiolect.engines import Workers, prepare, simulate
    from idiolect.network import timeline

    problem = idiolect.torch.problem(given.module, given.loss, given.data, train=given.train, bridge=bridge)  # type: ignore[arg-type]
    mine = Algorithm("plain", objectives.plain(), protocols.asynchronous(), LOCAL_STEPS, STEP_SIZE, BATCH)
    program, workers = prepare(problem, mine), Workers()

    def updates(count: int) -> int:
        rounds = max(1, count // CLIENTS)
        clients = np.tile(np.arange(CLIENTS), rounds).tolist()
        offered = np.repeat(np.arange(rounds), CLIENTS) + np.tile(np.arange(CLIENTS), rounds) / 1000 + 0.001
        table = timeline(clients, offered=offered.tolist(), arrived=(offered + 0.9).tolist())
        times = [float(table.arrived.max())]
        (end,) = simulate(program, problem.clients, table, workers, seed=0, times=times)
        jax.block_until_ready(end.params)  # type: ignore[no-untyped-call]
        return end.updates

    return updates


def by_host(given: Case, cores: int) -> Updates:
    """A turn loop on the host: gradients by PyTorch, steps by NumPy, nothing compiled."""
    import jax

    from idiolect.torch.module_trial import try_module
    from idiolect.torch.torch_functions import Told, TorchFunctions

    few = {name: torch.from_numpy(values[:4]) for name, values in given.data[0].items()}
    tried = try_module(given.module, given.loss, None, few, given.train)
    functions = TorchFunctions(
        tried.module, given.loss, None, Told({name: rows.dtype for name, rows in few.items()}, tried.draws)
    )
    pool = ThreadPoolExecutor(cores)
    start = [tensor.numpy() for tensor in tried.module.start().values()]

    def update(number: int) -> None:
        rng, mine, weights = np.random.default_rng(number), given.data[number % CLIENTS], start
        for _ in range(LOCAL_STEPS):
            drawn = rng.integers(0, len(next(iter(mine.values()))), BATCH)
            rows = jax.tree.leaves({name: values[drawn] for name, values in mine.items()})
            _, *grads = functions.gradient(*weights, *rows, np.array([0, number], np.uint32))
            weights = [w - np.float32(STEP_SIZE) * g for w, g in zip(weights, grads, strict=True)]

    def updates(count: int) -> int:
        list(pool.map(update, range(count)))
        return count

    return updates


def stand_by(side: str, model: str, budget: float) -> None:
    """Compile, then measure for so many seconds whenever a line comes in."""
    cores, given = len(os.sched_getaffinity(0)), case(model)
    if side == "loop":
        updates = by_hand(given, cores)
    else:
        updates = by_host(given, cores) if side == "host" else by_bridge(given, side)
    updates(CLIENTS)
    count = max(CLIENTS, int(budget / min(seconds_each(updates, CLIENTS) for _ in range(2))[0]))
    serve(lambda: dict(zip(("seconds", "cores"), seconds_each(updates, count), strict=True)))


def main() -> None:
    """Measure everything and print a table."""
    parser = asked(__doc__, 7)
    parser.add_argument("--measure", nargs=2, metavar=("SIDE", "MODEL"))
    parser.add_argument("--seconds", type=float, default=0.7, help="of measuring, per side and round")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--sides", nargs="+", choices=SIDES[1:], default=SIDES[1:])
    given = parser.parse_args()
    if given.measure:
        side, model = given.measure
        stand_by(side, model, given.seconds)
        return
    sides, rows, pace = ["loop", *given.sides], [], Pace(len(given.models) * given.repeats)
    print(f"milliseconds per client update of {LOCAL_STEPS} steps, {given.repeats} repeats (cores at work)")
    own = [sys.executable, str(Path(__file__)), "--seconds", str(given.seconds), "--measure"]
    for model in given.models:
        found = in_turn({side: [*own, side, model] for side in sides}, given.repeats, pace)
        figures = {side: times(values(answers)) for side, answers in found.items()}
        ratios = {f"{side} ratio": ratio(figures[side], figures["loop"]) for side in given.sides}
        cores = {f"{side} cores": Figure("", values(answers, "cores")) for side, answers in found.items()}
        rows.append(Row(model, {**figures, **ratios, **cores}))
        cells = "".join(f"  {side} {figures[side]} ({cores[f'{side} cores'].median:.1f})" for side in sides)
        print(f"{model:10}{cells}   {', '.join(f'{name} {one}' for name, one in ratios.items())}", flush=True)
    write(given.json, Found({"updates": Table("Milliseconds per client update of a PyTorch module", rows)}))


if __name__ == "__main__":
    main()
