"""Every benchmark, one after the other, into one file.

python benchmarks/run_all.py                    short sizes, about twelve minutes on two quiet cores
python benchmarks/run_all.py --full             full sizes, which take hours
python benchmarks/run_all.py --only scale       these alone; --again: also what the file has already
python benchmarks/run_all.py --list             what there is, what is missing, and the plan

Each runs in a process of its own, and one that fails does not lose the others. The file has the machine, and for each
benchmark its tables with all repeats, or why there are none. What was measured at the same commit in the same size is
not measured again, so that a run that was broken off goes on where it was.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from figures import as_data, from_data
from machine import ROOT, commit, facts
from records import BENCHMARKS, PLAN, Benchmark

QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
Pythons = dict[str, str]  # main, torch, rivals


def missing(needs: Sequence[str], python: str) -> list[str]:
    """Which of these packages a Python does not have."""
    code = "import sys, importlib.util as u; print(*[n for n in sys.argv[1:] if u.find_spec(n) is None])"
    try:
        done = subprocess.run([python, "-c", code, *needs], check=False, capture_output=True, text=True)
    except OSError:
        return list(needs)
    return done.stdout.split() if done.returncode == 0 else list(needs)


def command(chosen: Benchmark, size: str, pythons: Pythons, path: Path) -> list[str]:
    """What runs it."""
    script = str(Path(__file__).parent / chosen.script)
    rivals = ["--rivals", pythons["rivals"]] if chosen.rivals else []
    return [pythons[chosen.environment], script, *chosen.options(size), *rivals, "--json", str(path)]


def measured(chosen: Benchmark, size: str, pythons: Pythons) -> dict[str, Any]:
    """Run one; its tables, or what went wrong."""
    entry: dict[str, Any] = {"size": size, "commit": commit(), "options": list(chosen.options(size))}
    if lacking := missing(chosen.needs, pythons[chosen.environment]):
        return {**entry, "state": "left out", "why": f"{', '.join(lacking)} not installed: {chosen.install}"}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        done = subprocess.run(
            command(chosen, size, pythons, path), cwd=ROOT, check=False, env={**os.environ, **QUIET}
        ).returncode
        entry["seconds"] = round(time.perf_counter() - began, 1)
        try:
            found = as_data(from_data(json.loads(path.read_text())))
        except (OSError, ValueError, KeyError, TypeError) as reason:
            return {**entry, "state": "failed", "why": f"it ended with {done}, and its file is not there: {reason}"}
    if done:
        return {**entry, "state": "failed", "why": f"it ended with {done}"}
    return {**entry, "state": "done", **found}


def finished(entry: dict[str, Any] | None, size: str) -> bool:
    """Whether this is there already: measured at this commit, in this size."""
    return entry is not None and (entry["state"], entry["size"], entry["commit"]) == ("done", size, commit())


def read(path: Path) -> dict[str, Any]:
    """The file so far."""
    return json.loads(path.read_text()) if path.exists() else {"machine": {}, "benchmarks": {}}


def run(path: Path, chosen: Sequence[Benchmark], size: str, pythons: Pythons, again: bool) -> dict[str, Any]:
    """Measure what is not in the file yet; it is written anew after every benchmark."""
    whole = read(path)
    whole["machine"] = facts({name: python for name, python in pythons.items() if python != sys.executable})
    for place, one in enumerate(chosen, 1):
        head = f"[{place}/{len(chosen)}] {one.name}: {one.measures}"
        if finished(whole["benchmarks"].get(one.name), size) and not again:
            print(f"{head}: measured already", flush=True)
            continue
        planned = f", planned for {one.planned} s at most" if size == "short" else ""
        print(f"{head}{planned}", flush=True)
        entry = whole["benchmarks"][one.name] = measured(one, size, pythons)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(whole, indent=1) + "\n")
        ended = f"{entry['state']}, {entry['why']}" if "why" in entry else f"took {entry['seconds']:.0f} s"
        print(f"    {ended}\n", flush=True)
    return whole


def summary(whole: dict[str, Any]) -> str:
    """How it went, in a line for each."""
    lines, took = [], 0.0
    for name, entry in whole["benchmarks"].items():
        took += entry.get("seconds", 0.0)
        lines.append(
            f"  {name:15} {entry['state']:9} {entry.get('seconds', 0.0):6.0f} s  {entry.get('why', '')}".rstrip()
        )
        lines += [f"  {'':15} without {side}: {why}" for side, why in entry.get("left_out", {}).items()]
    return "\n".join([*lines, f"  {'all':15} {'':9} {took:6.0f} s"])


def plan(pythons: Pythons) -> str:
    """What would be run, and what is missing for it."""
    lines = []
    for one in BENCHMARKS:
        lacking = missing(one.needs, pythons[one.environment])
        told = f"left out, {', '.join(lacking)} not installed: {one.install}" if lacking else one.measures
        lines.append(f"  {one.name:15} {one.planned:4} s  {told}")
    return "\n".join([*lines, f"  {'all':15} {sum(one.planned for one in BENCHMARKS):4} s  of {PLAN}"])


def main() -> int:
    """Measure, write, and say what failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="full sizes")
    parser.add_argument("--only", nargs="+", choices=[one.name for one in BENCHMARKS], metavar="NAME")
    parser.add_argument("--again", action="store_true", help="also what the file has already")
    parser.add_argument("--list", action="store_true", help="the plan, and nothing else")
    parser.add_argument("--out", type=Path, help="the file; .bench/short.json or .bench/full.json unless told")
    parser.add_argument("--torch", default=sys.executable, help="the Python that has torchax, transformers and peft")
    parser.add_argument("--rivals", default=sys.executable, help="the Python that has Flower and pfl")
    options = parser.parse_args()
    pythons = {"main": sys.executable, "torch": options.torch, "rivals": options.rivals}
    if options.list:
        print(plan(pythons))
        return 0
    size = "full" if options.full else "short"
    path = options.out or ROOT / ".bench" / f"{size}.json"
    chosen = [one for one in BENCHMARKS if options.only is None or one.name in options.only]
    whole = run(path, chosen, size, pythons, options.again)
    print(f"{path}:\n{summary(whole)}")
    return int(any(whole["benchmarks"][one.name]["state"] == "failed" for one in chosen))


if __name__ == "__main__":
    sys.exit(main())
