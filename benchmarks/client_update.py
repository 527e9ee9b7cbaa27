"""Time of a client update (ten local steps) through the real engine, against a hand-written PyTorch loop.

`python benchmarks/client_update.py` has a process for each side, so that peak memory can be read off, and one that
multiplies large matrices, and asks them in turn. Times vary from minute to minute on shared machines; ratios, and the
share of the matrix product's rate, are of what was measured side by side, repeat by repeat.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from cases import BATCH, LOCAL_STEPS, OBJECTIVES, flops
from figures import Figure, Found, Pace, Row, Table, asked, once, ratio, times, write
from standing_by import Answer, in_turn, serve, values

REPEATS, SECONDS = 7, 1.0
SIDES = ("theirs", "ours", "peak")
FEW = 10.0  # virtual time in which every client has its turn about once


def ours(model: str, objective: str, budget: float) -> Callable[[], Answer]:
    """Seconds per update of the simulator: sampling, timeline, bookkeeping and all."""
    from idiolect.engines import Workers, prepare, simulate
    from idiolect.network import Network, draw_timeline
    from tasks import algorithm, problem, wait_for

    task = problem(model)
    program, workers = prepare(task, algorithm(task, model, objective)), Workers()

    def timed(horizon: float) -> float:
        table = draw_timeline(Network(), list(range(30)), program.protocol.schedule, horizon=horizon, seed=0)
        began = time.perf_counter()
        (end,) = simulate(program, task.clients, table, workers, seed=0, times=[horizon])
        wait_for(end.params)
        return (time.perf_counter() - began) / end.updates

    timed(FEW)  # compiles
    began = time.perf_counter()
    timed(FEW)
    horizon = max(FEW, FEW * budget / (time.perf_counter() - began))
    return lambda: {"seconds": timed(horizon)}


def theirs(model: str, objective: str, budget: float) -> Callable[[], Answer]:
    """Seconds per update of PyTorch, with one or two threads, whichever was faster when tried beforehand."""
    import torch

    from torch_loop import updates

    timed = updates(model, objective)

    def with_threads(count: int) -> float:
        torch.set_num_threads(count)
        timed(1)
        return min(timed(max(1, int(budget / 4 / timed(1)))) for _ in range(2))

    tried = {count: with_threads(count) for count in (1, 2)}
    best = min(tried, key=lambda count: tried[count])
    torch.set_num_threads(best)
    count = max(1, int(budget / tried[best]))
    return lambda: {"seconds": timed(count), "threads": best}


def peak(model: str, objective: str, budget: float) -> Callable[[], Answer]:
    """GFLOP/s of a large matrix product on all cores."""
    from yardsticks import product_rate

    return lambda: {"rate": product_rate()}


def measured(model: str, objective: str, repeats: int, budget: float, pace: Pace) -> Row:
    """A row: both sides and the peak, in turn."""
    own = [sys.executable, str(Path(__file__)), "--measure"]
    commands = {side: [*own, side, model, objective, "--seconds", str(budget)] for side in SIDES}
    found = in_turn(commands, repeats, pace)
    mine, torch = times(values(found["ours"])), times(values(found["theirs"]))
    rate = Figure("GFLOP/s", [flops(model, objective) / ms / 1e6 for ms in mine.repeats])
    figures = {
        "idiolect": mine,
        "PyTorch": torch,
        "PyTorch ratio": ratio(torch, mine),
        "PyTorch threads": once(found["theirs"][0]["threads"]),
        "rate": rate,
        "matrix product": Figure("GFLOP/s", values(found["peak"], "rate")),
        "of peak": Figure("", [a / b["rate"] for a, b in zip(rate.repeats, found["peak"], strict=True)]),
        "idiolect memory": once(found["ours"][-1]["memory"], "MB"),
        "PyTorch memory": once(found["theirs"][-1]["memory"], "MB"),
    }
    return Row(f"{model}, {objective}", figures)


def main() -> None:
    """Measure everything and print a table."""
    parser = asked(__doc__, REPEATS)
    parser.add_argument("--measure", nargs=3, metavar=("SIDE", "MODEL", "OBJECTIVE"))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of measuring, per side and repeat")
    parser.add_argument("--models", nargs="+", choices=BATCH, default=list(BATCH))
    parser.add_argument("--objectives", nargs="+", choices=OBJECTIVES, default=list(OBJECTIVES))
    options = parser.parse_args()
    if options.measure is not None:
        side, model, objective = options.measure
        serve({"ours": ours, "theirs": theirs, "peak": peak}[side](model, objective, options.seconds))
        return
    print(f"Milliseconds per client update of {LOCAL_STEPS} steps, median (least..most) of {options.repeats} repeats")
    header = f"{'case':24} {'idiolect':>22} {'PyTorch':>22} {'ratio':>20}"
    print(f"{header} {'GFLOP/s':>8} {'of peak':>8} {'memory MB, idiolect / PyTorch':>30}", flush=True)
    rows, pace = [], Pace(len(options.models) * len(options.objectives) * options.repeats)
    for model in options.models:
        for objective in options.objectives:
            rows.append(row := measured(model, objective, options.repeats, options.seconds, pace))
            found = row.figures
            memory = f"{found['idiolect memory'].median:.0f} / {found['PyTorch memory'].median:.0f}"
            cells = f"{found['idiolect']!s:>22} {found['PyTorch']!s:>22} {found['PyTorch ratio']!s:>20}"
            share = f"{found['rate'].median:8.0f} {found['of peak'].median:8.0%}"
            print(f"{row.case:24} {cells} {share} {memory:>30}", flush=True)
    says = "Milliseconds per client update of ten local steps, through the whole engine"
    write(options.json, Found({"updates": Table(says, rows)}))


if __name__ == "__main__":
    main()
