"""Time of a client update of a PyTorch module through each bridge, against a hand-written PyTorch loop.

`python benchmarks/torch_bridges.py` measures, all cores at work, in turn, each in a process of its own:

- `loop`: PyTorch by hand, with clients on threads of one core each, or one after the other on all cores, whichever is
  faster;
- `call` and `trace`: the simulator with each of the bridges, sampling, timeline, bookkeeping and all;
- `host`: what a turn loop on the host would take, in place of calls from the compiled program: the same functions of
  PyTorch, and NumPy for the steps.

It prints milliseconds per update of ten steps, the best of a few rounds, their ratio to `loop`, and how many cores were
busy.
"""

import argparse
import copy
import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from torch_models import BATCH, CLIENTS, LOCAL_STEPS, MODELS, STEP_SIZE, Case, case

SIDES = ("loop", "call", "trace", "host")
ROUNDS = 3


def measured(updates: Callable[[int], int], budget: float) -> dict[str, float]:
    """Seconds per update, and cores at work, of a function that takes about so many updates and says how many."""
    updates(CLIENTS)  # compiles
    began = time.perf_counter()
    done = updates(CLIENTS)
    count = max(CLIENTS, int(budget / 3 * done / (time.perf_counter() - began)))
    best = {"seconds": float("inf"), "cores": 0.0}
    for _ in range(3):
        began, worked = time.perf_counter(), time.process_time()
        done = updates(count)
        wall = time.perf_counter() - began
        if wall / done < best["seconds"]:
            best = {"seconds": wall / done, "cores": (time.process_time() - worked) / wall}
    return best


def by_hand(given: Case, cores: int, budget: float) -> dict[str, float]:
    """PyTorch without idiolect: clients side by side, or all cores for one after the other."""
    rows = [{name: torch.from_numpy(values) for name, values in client.items()} for client in given.data]

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
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(lambda number: update(number, 1), range(count)))
        return count

    def one_by_one(count: int) -> int:
        for number in range(count):
            update(number, cores)
        return count

    return min((measured(way, budget / 2) for way in (one_by_one, side_by_side)), key=lambda found: found["seconds"])


def by_bridge(given: Case, bridge: str, budget: float) -> dict[str, float]:
    """The simulator, with a server that waits for nobody."""
    import jax

    import idiolect.torch
    from idiolect import Algorithm, objectives, protocols
    from idiolect.engines import Workers, prepare, simulate
    from idiolect.network import timeline

    problem = idiolect.torch.problem(given.module, given.loss, given.data, train=given.train, bridge=bridge)  # type: ignore[arg-type]
    mine = Algorithm("plain", objectives.plain(), protocols.asynchronous(), LOCAL_STEPS, STEP_SIZE, BATCH)
    program = prepare(problem, mine)

    def updates(count: int) -> int:
        rounds = max(1, count // CLIENTS)
        clients = np.tile(np.arange(CLIENTS), rounds).tolist()
        offered = np.repeat(np.arange(rounds), CLIENTS) + np.tile(np.arange(CLIENTS), rounds) / 1000 + 0.001
        table = timeline(clients, offered=offered.tolist(), arrived=(offered + 0.9).tolist())
        times = [float(table.arrived.max())]
        (end,) = simulate(program, problem.clients, table, workers, seed=0, times=times)
        jax.block_until_ready(end.params)  # type: ignore[no-untyped-call]
        return end.updates

    with Workers() as workers:
        return measured(updates, budget)


def by_host(given: Case, cores: int, budget: float) -> dict[str, float]:
    """A turn loop on the host: gradients by PyTorch, steps by NumPy, nothing compiled."""
    import jax

    from idiolect.torch.module_trial import try_module
    from idiolect.torch.torch_functions import Told, TorchFunctions

    few = {name: torch.from_numpy(values[:4]) for name, values in given.data[0].items()}
    tried = try_module(given.module, given.loss, None, few, given.train)
    functions = TorchFunctions(
        tried.module, given.loss, given.loss, Told({name: rows.dtype for name, rows in few.items()}, tried.draws)
    )
    start = jax.tree.leaves({name: tensor.numpy() for name, tensor in tried.module.start().items()})

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

    with ThreadPoolExecutor(cores) as pool:
        return measured(updates, budget)


def one(side: str, model: str, budget: float) -> dict[str, float]:
    """Measure one side in this process."""
    import os

    cores, given = len(os.sched_getaffinity(0)), case(model)
    if side == "loop":
        return by_hand(given, cores, budget)
    return by_host(given, cores, budget) if side == "host" else by_bridge(given, side, budget)


def apart(side: str, model: str, budget: float) -> dict[str, float]:
    """Measure one side in a process of its own."""
    command = [sys.executable, str(Path(__file__)), "--measure", side, model, "--seconds", str(budget)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


def main() -> None:
    """Measure everything and print a table."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--measure", nargs=2, metavar=("SIDE", "MODEL"))
    asked.add_argument("--seconds", type=float, default=6.0, help="of measuring, per side and round")
    asked.add_argument("--rounds", type=int, default=ROUNDS)
    given = asked.parse_args()
    if given.measure:
        side, model = given.measure
        print(json.dumps(one(side, model, given.seconds)))
        return
    print(f"milliseconds per client update of {LOCAL_STEPS} steps, best of {given.rounds} rounds (cores at work)")
    print(f"{'model':10}" + "".join(f"{side:>16}" for side in SIDES) + "   ratios to loop")
    for model in MODELS:
        best: dict[str, dict[str, float]] = {}
        for _ in range(given.rounds):
            for side in SIDES:
                found = apart(side, model, given.seconds)
                if side not in best or found["seconds"] < best[side]["seconds"]:
                    best[side] = found
        cells = "".join(f"{best[s]['seconds'] * 1e3:>10.2f} ({best[s]['cores']:.1f})" for s in SIDES)
        ratios = ", ".join(f"{side} {best[side]['seconds'] / best['loop']['seconds']:.2f}" for side in SIDES[1:])
        print(f"{model:10}{cells}   {ratios}", flush=True)


if __name__ == "__main__":
    main()
