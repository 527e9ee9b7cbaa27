"""Writes docs/speed.md: words from speed_words.md, every number from a file of run_all.py.

python benchmarks/speed_page.py                      from benchmarks/speed.json
python benchmarks/speed_page.py .bench/full.json     this file becomes benchmarks/speed.json first
"""

import argparse
import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from figures import Figure, Found, Row, Table, from_data, short

HERE = Path(__file__).parent
DATA, WORDS, PAGE = HERE / "speed.json", HERE / "speed_words.md", HERE.parent / "docs" / "speed.md"
ABSENT = "*Not measured at this commit.*"


class Column(NamedTuple):
    """A column of a table: its head, which figure, and how that is shown."""

    head: str
    figure: str
    shown: Callable[[Figure], str] = str


def percent(figure: Figure) -> str:
    """Of a share."""
    spread = f" ({100 * figure.least:.0f}..{100 * figure.most:.0f})" if len(figure.repeats) > 1 else ""
    return f"{100 * figure.median:.0f} %{spread}"


def count(figure: Figure) -> str:
    """A whole number."""
    return f"{figure.median:,.0f}"


def small(figure: Figure) -> str:
    """Two digits, however small."""
    return f"{figure.median:.2g}"


def markdown(head: str, rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """A table; columns that no row has are left out, and what one row has not is empty."""
    there = [column for column in columns if any(column.figure in row.figures for row in rows)]
    lines = [f"| {head} | " + " | ".join(column.head for column in there) + " |", "| --- |" + " ---: |" * len(there)]
    for row in rows:
        cells = [c.shown(row.figures[c.figure]) if c.figure in row.figures else "" for c in there]
        lines.append(f"| {row.case} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


class Part(NamedTuple):
    """A place of the page: which benchmark and table fill it, and with which columns."""

    benchmark: str
    table: str
    head: str
    columns: tuple[Column, ...]


PARTS = {
    "yardsticks": Part("yardsticks", "yardsticks", "the machine", (Column("GFLOP/s or GB/s", "rate"),)),
    "client_update": Part(
        "client_update",
        "updates",
        "ms per update",
        (
            Column("idiolect", "idiolect"),
            Column("PyTorch", "PyTorch"),
            Column("ratio", "PyTorch ratio"),
            Column("of the matrix product", "of peak", percent),
        ),
    ),
    "fedavg_rounds": Part(
        "fedavg_rounds",
        "rounds",
        "ms per update",
        (Column("time", "time"), Column("ratio", "ratio"), Column("workers", "workers", count)),
    ),
    "engine_adds": Part(
        "engine_cost",
        "adds",
        "ms per update",
        (Column("bare", "bare"), Column("engine", "engine"), Column("adds", "adds", percent)),
    ),
    "engine_clients": Part(
        "engine_cost", "clients", "MLP, plain", (Column("ms per update", "time"), Column("ratio", "ratio"))
    ),
    "engine_side_by_side": Part(
        "engine_cost",
        "side by side",
        "MLP",
        (Column("ms, one by one", "one by one"), *(Column(f"{n}", f"{n} at once") for n in (4, 8, 16))),
    ),
    "convolution_ways": Part(
        "convolutions", "ways", "ms per update", (Column("time", "time"), Column("ratio", "ratio"))
    ),
    "convolution_parts": Part(
        "convolutions", "parts", "ms per update", (Column("time", "time"), Column("of the whole", "share", percent))
    ),
    "serverless": Part(
        "serverless",
        "agents",
        "microseconds per round and run",
        (
            Column("NumPy", "NumPy"),
            Column("idiolect", "idiolect"),
            Column("ratio", "idiolect ratio"),
            Column("together", "together"),
            Column("ratio", "together ratio"),
            Column("links", "links", count),
            Column("MB moved", "moved"),
            Column("times the copy", "times the copy"),
            Column("times XLA's moving", "times XLA's moving"),
            Column("compiling, s", "compiling"),
        ),
    ),
    "serverless_batch": Part(
        "serverless",
        "batch",
        "microseconds per round and run",
        (
            Column("one u after the other", "apart"),
            Column("as one batch", "batch"),
            Column("first time, s", "apart compiling"),
            Column("as one batch, s", "batch compiling"),
        ),
    ),
    "serverless_most": Part(
        "serverless",
        "most",
        "many agents",
        (
            Column("links", "links", count),
            Column("rounds", "rounds", count),
            Column("seconds", "all rounds"),
            Column("1,000 rounds would be, s", "1,000 rounds"),
            Column("peak memory, MB", "memory"),
        ),
    ),
    "policies": Part("policies", "iterations", "ms per iteration", (Column("time", "time"), Column("ratio", "ratio"))),
    "scale": Part(
        "scale",
        "clients",
        "algorithm",
        (
            Column("updates", "updates", count),
            Column("ms per update", "time"),
            Column("against 1,000", "time against 1,000"),
            Column("MB", "memory"),
            Column("bytes a client", "bytes a client"),
        ),
    ),
    "starting": Part(
        "starting",
        "starting",
        "seconds",
        (
            Column("whole", "whole"),
            *(Column(part, part) for part in ("importing", "tracing", "lowering", "compiling", "reading", "scoring")),
            Column("scoring, of the whole", "scoring share", percent),
        ),
    ),
    "timelines": Part(
        "scale",
        "timelines",
        "a timeline of",
        (
            Column("drawn, s", "drawn"),
            Column("written, s", "written"),
            Column("read, s", "read"),
            Column("held at most, MB", "held"),
            Column("its columns, MB", "columns"),
            Column("its file, MB", "file"),
        ),
    ),
    "ten_million": Part(
        "scale",
        "ten million",
        "ten million clients",
        (
            Column("updates", "updates", count),
            Column("hours", "hours"),
            Column("of them drawing the timeline, minutes", "timeline"),
            Column("memory, GB", "memory"),
            Column("data, GB", "data"),
        ),
    ),
    "ray_cost": Part(
        "ray_cost",
        "updates",
        "MLP",
        (
            Column("parameters", "parameters", count),
            Column("MB each way", "each way", small),
            Column("simulator", "simulator"),
            Column("Ray", "Ray"),
            Column("Ray adds", "Ray adds"),
            Column("of the throughput", "throughput", percent),
        ),
    ),
    "torch_bridges": Part(
        "torch_bridges",
        "updates",
        "module",
        tuple(Column(s, s) for s in ("loop", "call", "call ratio", "trace", "trace ratio", "host", "host ratio")),
    ),
    "small_models": Part(
        "small_models",
        "forms",
        "model",
        (
            Column("kB on disk", "disk"),
            Column("kB in memory", "memory"),
            Column("of float", "memory of float"),
            Column("ms", "time"),
            Column("of float", "time of float"),
        ),
    ),
    "serving": Part(
        "serving",
        "loads",
        "updates of",
        (
            Column("a second", "updates"),
            Column("median, ms", "median"),
            Column("99 of 100 within, ms", "99 of 100 within"),
            Column("server's processor, ms", "server's processor"),
            Column("server's memory, MB", "server memory"),
        ),
    ),
}


def part_text(part: Part, entries: dict[str, Any]) -> str:
    """What fills a place; where there is nothing to fill it, why."""
    entry = entries.get(part.benchmark, {"state": "absent"})
    if entry["state"] == "left out":
        return f"*Not measured: {entry['why']}.*"
    found = from_data(entry) if entry["state"] == "done" else Found({})
    table: Table | None = found.tables.get(part.table)
    if table is None or not table.rows:
        return ABSENT
    without = [f"{side} is left out: {why}." for side, why in found.left_out.items()]
    return "\n\n".join([markdown(part.head, table.rows, part.columns), *without])


def machine_text(whole: dict[str, Any]) -> str:
    """Where all of this was measured."""
    told = whole["machine"]
    if not told:
        return ABSENT
    others = [pair for more in told["other versions"].values() for pair in more.items()]
    named = {"jax": "JAX", "torch": "PyTorch", "numpy": "NumPy", "ray": "Ray", "flwr": "Flower", "pfl": "pfl"}
    known = {name: one for name, one in [*others, *told["versions"].items()] if name in named}
    versions = ", ".join(f"{named[name]} {known[name]}" for name in named if name in known)
    sizes = sorted({entry["size"] for entry in whole["benchmarks"].values()})
    later = [name for name, entry in whole["benchmarks"].items() if not entry["commit"].startswith(told["commit"])]
    apart = f" (`{'`, `'.join(later)}` by themselves, some commits later)" if later else ""
    took = sum(entry.get("seconds", 0.0) for entry in whole["benchmarks"].values()) / 60
    return (
        f"Measured on {told['date']} at {told['commit']}{apart}, {' and '.join(sizes)} sizes, "
        f"in {short(took)} minutes: "
        f"{told['cores']} cores of {told['processor']} without a GPU, {told['memory']} of memory, Python "
        f"{told['python']}, {versions}."
    )


def page(whole: dict[str, Any], words: str) -> str:
    """The page."""

    def fill(place: re.Match[str]) -> str:
        name = place[1]
        return machine_text(whole) if name == "machine" else part_text(PARTS[name], whole["benchmarks"])

    return re.sub(r"\{\{(\w+)\}\}", fill, words)


def main() -> None:
    """Write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, help="what run_all.py wrote; it becomes benchmarks/speed.json")
    given = parser.parse_args().file
    if given is not None:
        shutil.copyfile(given, DATA)
    PAGE.write_text(page(json.loads(DATA.read_text()), WORDS.read_text()))
    print(f"{PAGE} is what {DATA} says")


if __name__ == "__main__":
    main()
