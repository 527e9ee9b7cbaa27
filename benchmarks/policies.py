"""MEMRL on the grid through the engine, against the same loop in PyTorch: one step at a time, and batched.

`python benchmarks/policies.py` first checks that all sides compute the same thing. Then it times them in turn, each in
a process of its own, PyTorch with one thread and with two, and prints medians. Slow loops run for fewer iterations,
which all cost the same.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from figures import Figure, Found, Pace, Row, Table, once, ratio, write
from policy_case import Case

THREADS, TOLERANCE = (1, 2), 1e-4


class Side(NamedTuple):
    """Something to be timed: for how many iterations (all of them if None), how often, and the ratio we ask for."""

    name: str
    iterations: int | None
    repeats: int
    asked: str = ""


SIDES = {
    "idiolect": Side("idiolect, the recipe", None, 5),
    "together": Side("PyTorch, tasks batched as well", 10, 3),
    "batched": Side("PyTorch, environments batched", 10, 3, "at least 5"),
    "loop": Side("PyTorch, one step at a time", 1, 2, "at least 30"),
}


def measure(what: str, threads: int, case: Case) -> dict[str, Any]:
    """The times of one side, in this process. Imports are here so that no side has the other's threads about it."""
    if what == "check":
        from policy_check import differences

        return differences(case)
    side = SIDES[what]
    if what == "idiolect":
        from policy_tasks import measure as whole_runs

        return whole_runs(case, side.repeats)
    from torch_policies import batched, one_at_a_time, seconds_per_iteration

    draw = one_at_a_time(case) if what == "loop" else batched(case)
    iterations = side.iterations or len(case.rounds)
    return {"times": seconds_per_iteration(case, draw, threads, iterations, side.repeats, what == "together")}


def apart(what: str, case: Case | None = None, threads: int = 1) -> dict[str, Any]:
    """The same in a process of its own, which compiles everything itself."""
    command = [sys.executable, str(Path(__file__)), "--measure", what, str(threads), json.dumps(case)]
    environment = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout)


def main(rounds: int, sides: Sequence[str], path: Path | None) -> None:
    """Check, measure in turn, and print the table."""
    case = Case(**apart("describe"))
    print(
        f"MEMRL, {len(case.goals)} tasks on a {case.size} x {case.size} grid, {case.trajectories} trajectories of "
        f"{case.horizon} steps a gradient, {case.inner_steps} inner steps: {case.environment_steps:,} environment "
        f"steps an iteration, {len(case.rounds)} iterations"
    )
    for name, difference in apart("check", case).items():
        assert difference < TOLERANCE, f"tasks {name}: the models differ by {difference}"
        print(f"  on the same trajectories, tasks {name}: largest difference between the models {difference:.1e}")
    times, compiling = defaultdict[tuple[str, int], list[float]](list), list[float]()
    pace = Pace(rounds)
    for _ in range(rounds):
        for what in sides:
            for threads in (1,) if what == "idiolect" else THREADS:
                found = apart(what, case, threads)
                times[what, threads] += found["times"]
                compiling += [found["compiling"]] if what == "idiolect" else []
        pace.step()
    report(case, times)
    print(f"  idiolect compiles for {statistics.median(compiling):.1f} s before its first run, not counted above")
    write(path, Found({"iterations": Table("Milliseconds per iteration of MEMRL", rows_of(times, rounds))}))


def rows_of(times: dict[tuple[str, int], list[float]], rounds: int) -> list[Row]:
    """A row for each side with its better number of threads; a repeat is the median of one process."""

    def by_round(seconds: list[float]) -> Figure:
        each = len(seconds) // rounds
        return Figure("ms", [1e3 * statistics.median(seconds[k * each : (k + 1) * each]) for k in range(rounds)])

    ours, rows = by_round(times["idiolect", 1]), []
    for what in dict.fromkeys(name for name, _ in times):
        side = SIDES[what]
        measured = {threads: by_round(seconds) for (name, threads), seconds in times.items() if name == what}
        best = min(measured, key=lambda threads: measured[threads].median)
        against = {} if what == "idiolect" else {"ratio": ratio(measured[best], ours), "threads": once(best)}
        rows.append(Row(side.name, {"time": measured[best], **against}))
    return rows


def report(case: Case, times: dict[tuple[str, int], list[float]]) -> None:
    """A row for each side: medians and ranges over all repeats, and how many times idiolect is faster."""
    ours = statistics.median(times["idiolect", 1])
    print(f"  {'milliseconds per iteration':32} {'threads':>7} {'median':>9} {'range':>18} {'ratio':>7}  iterations")
    for what in dict.fromkeys(name for name, _ in times):
        side = SIDES[what]
        measured = {threads: seconds for (name, threads), seconds in times.items() if name == what}
        best = min(measured, key=lambda threads: statistics.median(measured[threads]))
        for threads, seconds in measured.items():
            spread, median = f"{1e3 * min(seconds):.2f} - {1e3 * max(seconds):.2f}", statistics.median(seconds)
            asked = side.asked if threads == best else ""
            print(
                f"  {side.name:32} {'' if what == 'idiolect' else threads:>7} {1e3 * median:9.2f} {spread:>18} "
                f"{median / ours:7.1f}  {side.iterations or len(case.rounds)} x {len(seconds)}  {asked}"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", nargs=3, metavar=("WHAT", "THREADS", "CASE"))
    parser.add_argument("--rounds", type=int, default=3, help="how often each side is measured")
    parser.add_argument("--json", type=Path, help="a file for every repeat of every figure")
    rivals = [side for side in SIDES if side != "idiolect"]
    parser.add_argument("--rivals", nargs="+", choices=rivals, default=rivals, help="which loops in PyTorch")
    given = parser.parse_args()
    chosen = given.measure
    if chosen is None:
        main(given.rounds, ["idiolect", *given.rivals], given.json)
    elif chosen[0] == "describe":
        from policy_tasks import describe

        print(json.dumps(describe()._asdict()))
    else:
        print(json.dumps(measure(chosen[0], int(chosen[1]), Case(*json.loads(chosen[2])))))
