"""FedAvg rounds against Flower's simulation, Apple's pfl and PyTorch by hand, on the same work.

30 clients with 600 images each, all of them in every round, ten local steps of batch 50 on the MLP 784-80-60-10, plain
SGD; nothing is scored. Every side is a process that stands by, with its workers started and its first rounds done, and
all are asked in turn: what is measured is rounds, not starting up.

- `idiolect`: the recipe `fedavg` through the whole engine, on all cores;
- `PyTorch`: the loop of `torch_loop.py` and an average, one client after the other with one or two threads, or clients
  on two threads, whichever was faster when tried beforehand;
- `Flower`: `run_simulation` with as many of its workers as there are cores, the same loop of PyTorch in its clients;
- `pfl`: its simulated backend in one process, its own loop over PyTorch, with one or two threads.

Flower and pfl may live in an environment of their own: `--rivals ITS/bin/python`.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cases import CLIENTS, SAMPLES
from figures import Figure, Found, Pace, Row, Table, asked, once, ratio, times, write
from standing_by import Answer, apart, in_turn, serve, values

HERE = Path(__file__).parent
PACKAGES = {"PyTorch": "torch", "Flower": "flwr", "pfl": "pfl"}
INSTALL = {
    "PyTorch": "pip install torch",
    "Flower": "pip install 'flwr[simulation]>=1.41,<1.42' torch",
    "pfl": "pip install 'pfl[pytorch]' torch",
}
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}


def ours(rounds: int) -> Callable[[], Answer]:
    """The engine: timeline, sampling, server, screening, bookkeeping."""
    from idiolect import catalog
    from idiolect.engines import Workers, prepare, simulate
    from idiolect.network import Network, draw_timeline
    from tasks import fedavg_options, problem, wait_for

    task, workers = problem("mlp", CLIENTS, SAMPLES), Workers()
    program, everyone = prepare(task, catalog.algorithm("fedavg", task, **fedavg_options())), list(range(CLIENTS))
    horizon = 100.0 * (rounds + 1)  # more than enough: a round is as long as its slowest client
    drawn = draw_timeline(Network(), everyone, program.protocol.schedule, horizon=horizon, seed=0)
    table = type(drawn)(*(column[drawn.round < rounds] for column in drawn))
    assert len(np.unique(table.round)) == rounds, "the horizon is too short for so many rounds"

    def measure() -> Answer:
        began = time.perf_counter()
        (end,) = simulate(program, task.clients, table, workers, seed=0, times=[float(table.arrived.max())])
        wait_for(end.params)
        return {"seconds": (time.perf_counter() - began) / end.updates}

    return measure


def command(side: str, python: str, rounds: int) -> list[str]:
    """What starts a side. Ray, which Flower simulates by, listens on every interface, so it gets loopback alone."""
    script = {"Flower": "flower_rounds.py", "pfl": "pfl_rounds.py", "PyTorch": "torch_rounds.py"}.get(side)
    own = [python, str(HERE / (script or Path(__file__).name)), "--rounds", str(rounds)]
    return [*(apart() if side == "Flower" else []), *own, *([] if script else ["--measure"])]


def missing(side: str, python: str) -> str:
    """Why a side cannot be measured, or nothing."""
    look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({PACKAGES[side]!r}) is None)"
    if subprocess.run([python, "-c", look], check=False).returncode:
        return f"not installed: {INSTALL[side]}"
    if side == "Flower" and not apart() and "IDIOLECT_RAY_ANYWHERE" not in os.environ:
        return "no network of its own can be made for Ray, and IDIOLECT_RAY_ANYWHERE is not set"
    return ""


def measured(left_out: dict[str, str], rivals: str, repeats: int, rounds: int) -> list[Row]:
    """A row for each side."""
    python = {"idiolect": sys.executable, "PyTorch": sys.executable, "Flower": rivals, "pfl": rivals}
    sides = {side: command(side, python[side], rounds) for side in python if side not in left_out}
    found = in_turn(sides, repeats, Pace(repeats), left_out)
    mine, rows = times(values(found["idiolect"])), []
    for side, answers in found.items():
        theirs = times(values(answers))
        extra: dict[str, Figure] = {n: once(answers[0][n]) for n in ("threads", "workers") if n in answers[0]}
        against = {} if side == "idiolect" else {"ratio": ratio(theirs, mine)}
        rows.append(Row(side, {"time": theirs, **against, **extra}))
    return rows


def main() -> None:
    """Measure everything and print a table."""
    parser = asked(__doc__, 7)
    parser.add_argument("--rounds", type=int, default=5, help="of FedAvg, in each repeat")
    parser.add_argument("--rivals", default=sys.executable, help="the Python that has Flower and pfl")
    parser.add_argument("--measure", action="store_true", help="our own side, and nothing else")
    options = parser.parse_args()
    if options.measure:
        serve(ours(options.rounds))
        return
    os.environ.update(QUIET)
    python = {side: sys.executable if side == "PyTorch" else options.rivals for side in PACKAGES}
    left_out = {side: why for side in PACKAGES if (why := missing(side, python[side]))}
    rows = measured(left_out, options.rivals, options.repeats, options.rounds)
    for side, why in left_out.items():
        print(f"{side} is left out: {why}")
    print(f"Milliseconds per client update in rounds of FedAvg, {CLIENTS} clients a round, {options.repeats} repeats:")
    for row in rows:
        against = f"{row.figures['ratio']} times idiolect's" if "ratio" in row.figures else ""
        print(f"  {row.case:10} {row.figures['time']!s:>24}  {against}")
    says = "Milliseconds per client update in rounds of FedAvg, starting up not counted"
    write(options.json, Found({"rounds": Table(says, rows)}, left_out))


if __name__ == "__main__":
    main()
