"""From the command to the table: the demo where nothing is compiled yet, and again; and what the time goes to.

Each is a process of its own, with a cache of its own for compiled programs. The whole is by the clock. Parts are
seconds of all threads, so that they may come to more: tracing and lowering (Python), compiling (XLA), reading what a
run before has compiled, and scoring (adapting and testing clients), which includes what it waits for meanwhile.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from typing import Any

from figures import Figure, Found, Pace, Row, Table, asked, write

EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "tracing",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowering",
    "/jax/core/compile/backend_compile_duration": "compiling or reading",
    "/jax/compilation_cache/cache_retrieval_time_sec": "reading",
}
PARTS = ("importing", "tracing", "lowering", "compiling", "reading", "scoring")


def watched(recipe: str, seeds: str, out: str) -> dict[str, float]:
    """Run a recipe in this process, and say what it spent its time on."""
    began, spent = time.perf_counter(), defaultdict[str, float](float)
    import jax.monitoring

    from idiolect.cli import main
    from idiolect.experiments.recording import Recorder

    spent["importing"] = time.perf_counter() - began

    def listen(event: str, duration_secs: float, **_: str | int) -> None:
        if event in EVENTS:
            spent[EVENTS[event]] += duration_secs

    jax.monitoring.register_event_duration_secs_listener(listen)
    add = Recorder.add

    def timed(self: Recorder, snapshot: Any) -> Any:
        began = time.perf_counter()
        try:
            return add(self, snapshot)
        finally:
            spent["scoring"] += time.perf_counter() - began

    Recorder.add = timed  # type: ignore[method-assign]
    if main(["run", recipe, "--out", out, *(["--set", f"seeds=[{seeds}]"] if seeds else [])]):
        raise SystemExit(f"the recipe {recipe} did not run")
    # What is read from the cache counts as compiled there, too.
    spent["compiling"] = max(0.0, spent["compiling or reading"] - spent["reading"])
    return {part: spent[part] for part in PARTS}


def measured(recipe: str, seeds: str, cache: str) -> dict[str, float]:
    """The whole by the clock, from starting the process to its end, and its parts."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as out, tempfile.NamedTemporaryFile("r") as told:
        command = [sys.executable, __file__, "--watched", recipe, seeds, out, told.name]
        environment = {**os.environ, "XDG_CACHE_HOME": cache}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        whole = time.perf_counter() - began
        return {"whole": whole, **json.loads(told.read())}


def main() -> None:
    """Print the table."""
    parser = asked(__doc__, 3)
    parser.add_argument("--recipe", default="demo")
    parser.add_argument("--seeds", default="", help="such as 0,1; the recipe's own unless told")
    parser.add_argument("--watched", nargs=4, metavar=("RECIPE", "SEEDS", "OUT", "FILE"))
    options = parser.parse_args()
    if options.watched:
        recipe, seeds, out, path = options.watched
        spent = watched(recipe, seeds, out)
        with open(path, "w") as file:
            json.dump(spent, file)
        return
    cases: dict[str, list[dict[str, float]]] = {"nothing compiled yet": [], "again": []}
    pace = Pace(len(cases) * options.repeats, "runs")
    for _ in range(options.repeats):
        with tempfile.TemporaryDirectory() as cache:
            for found in cases.values():
                found.append(measured(options.recipe, options.seeds, cache))
                pace.step()
    rows = []
    for case, found in cases.items():
        figures = {name: Figure("s", [one[name] for one in found]) for name in ("whole", *PARTS)}
        figures["scoring share"] = Figure("", [one["scoring"] / one["whole"] for one in found])
        which = f"{options.recipe}, seeds {options.seeds}" if options.seeds else options.recipe
        rows.append(Row(f"{which}, {case}", figures))
        print(f"  {rows[-1].case:28} " + "  ".join(f"{name} {one}" for name, one in figures.items()), flush=True)
    write(options.json, Found({"starting": Table("Seconds from the command to the table", rows)}))


if __name__ == "__main__":
    main()
