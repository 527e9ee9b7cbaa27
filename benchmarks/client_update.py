"""Time of a client update (ten local steps) through the real engine, against a hand-written PyTorch loop.

`python benchmarks/client_update.py` runs both sides in turn, twice, each in a process of its own so that peak memory
can be read off, and prints ratios. Times vary from minute to minute on shared machines; the ratio is of what was
measured side by side.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from cases import BATCH, LOCAL_STEPS, OBJECTIVES, flops

ROUNDS, BUDGET = 2, 4.0


def ours(model: str, objective: str) -> float:
    """Seconds per update of the simulator: sampling, timeline, bookkeeping and all."""
    from idiolect.engines import Workers, prepare, simulate
    from idiolect.network import Network, draw_timeline
    from tasks import algorithm, problem, wait_for

    task = problem(model)
    chosen = algorithm(task, model, objective)
    program = prepare(task, chosen)

    def timed(horizon: float) -> tuple[float, int]:
        table = draw_timeline(Network(), list(range(30)), program.protocol.schedule, horizon=horizon, seed=0)
        began = time.perf_counter()
        (end,) = simulate(program, task.clients, table, workers, seed=0, times=[horizon])
        wait_for(end.params)
        return time.perf_counter() - began, end.updates

    with Workers() as workers:
        timed(25.0)  # compiles
        seconds, _ = timed(25.0)
        horizon = max(25.0, 25.0 * BUDGET / 6 / seconds)
        return min(seconds / updates for seconds, updates in (timed(horizon) for _ in range(6)))


def theirs(model: str, objective: str) -> float:
    """Seconds per update of PyTorch, with one or two threads, whichever is faster."""
    from torch_loop import seconds_per_update

    return min(seconds_per_update(model, objective, threads, BUDGET) for threads in (1, 2))


def gemm_peak(side: str, objective: str) -> float:
    """GFLOP/s of a large matrix product on all cores."""
    import jax
    import jax.numpy as jnp

    square = jnp.ones((2048, 2048))
    product = jax.jit(lambda a: a @ a)
    product(square).block_until_ready()
    best = float("inf")
    for _ in range(20):
        began = time.perf_counter()
        product(square).block_until_ready()
        best = min(best, time.perf_counter() - began)
    return 2 * 2048**3 / best / 1e9


def measured(what: str, model: str = "-", objective: str = "-") -> dict[str, float]:
    """Run one side in a process of its own; its number, and its peak memory in MB."""
    command = [sys.executable, str(Path(__file__)), "--measure", what, model, objective]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Measure everything and print a table."""
    peak = max(measured("peak")["value"] for _ in range(2))
    print(
        f"GEMM peak {peak:.0f} GFLOP/s; milliseconds per client update of {LOCAL_STEPS} steps, best of {ROUNDS} rounds"
    )
    header = f"{'model':5} {'objective':18} {'idiolect':>9} {'PyTorch':>9} {'ratio':>6} {'(rounds)':>12}"
    print(f"{header} {'GFLOP/s':>8} {'of peak':>8} {'memory MB, idiolect / PyTorch':>30}")
    for model in BATCH:
        for objective in OBJECTIVES:
            rounds = [(measured("theirs", model, objective), measured("ours", model, objective)) for _ in range(ROUNDS)]
            torch_ms, our_ms = (1e3 * min(pair[side]["value"] for pair in rounds) for side in (0, 1))
            ratios = " ".join(f"{torch['value'] / mine['value']:.2f}" for torch, mine in rounds)
            rate = flops(model, objective) / our_ms / 1e6
            memory = f"{rounds[0][1]['memory']:.0f} / {rounds[0][0]['memory']:.0f}"
            row = f"{model:5} {objective:18} {our_ms:9.2f} {torch_ms:9.2f} {torch_ms / our_ms:6.2f} {ratios:>12}"
            print(f"{row} {rate:8.0f} {rate / peak:8.0%} {memory:>30}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", nargs=3, metavar=("WHAT", "MODEL", "OBJECTIVE"))
    chosen = parser.parse_args().measure
    if chosen is None:
        main()
    else:
        value = {"ours": ours, "theirs": theirs, "peak": gemm_peak}[chosen[0]](*chosen[1:])
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"value": value, "memory": memory}))
