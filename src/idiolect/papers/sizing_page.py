"""What exhibits take at the papers' own sizes: in the terminal, on the page, and in the file behind that."""

import json
from collections.abc import Sequence
from pathlib import Path

from idiolect.files import write_atomically
from idiolect.papers.exhibit import Exhibit
from idiolect.papers.self_check import COMMITTED
from idiolect.papers.sizing import GPU_RATE, STEP_FLOOR, Part, Sizing

_FILE = "sizes-{scale}.json"
_HOW = f"""\
At the `paper` scale every experiment is built and started: `idiolect reproduce NAME --scale paper --dry` runs a few
turns and evaluations of every algorithm on its first seed, and reckons what all of them take. The times are
**estimates**. Those of a GPU were not measured: turns are scaled by the rate of large matrix products in float32,
measured here, over {GPU_RATE / 1e12:g} TFLOP/s (what is stated of an A100), and a local step takes at least
{STEP_FLOOR * 1e3:g} ms, about twenty kernels' starts. What is measured without a run, such as the noise of
estimates in Theorem 4.5, is not counted."""


def told(exhibit: Exhibit, sizing: Sizing) -> list[str]:
    """For the terminal."""
    lines = [f"{exhibit.source}, {sizing.scale}: {exhibit.scales[sizing.scale].size}"]
    for part in sizing.parts:
        lines.append(
            f"  {part.name}: {part.algorithms} algorithms, {part.seeds} seeds, {part.updates:,} updates; about "
            f"{long(part.here)} here, {long(part.gpu)} on a GPU (an estimate)"
        )
    if not sizing.parts:
        lines.append("  nothing is learned: it takes seconds")
    lines += [f"  did not start: {why}" for why in sizing.stopped]
    return [*lines, f"  large matrix products reach {sizing.rate / 1e9:,.0f} GFLOP/s here"] if sizing.rate else lines


def section(exhibits: Sequence[Exhibit], sizings: dict[str, Sizing]) -> list[str]:
    """For the page; nothing if nothing was sized up."""
    if not sizings:
        return []
    lines = ["", "## At the papers' own sizes", "", _HOW, "", "| exhibit | size | updates | here | on a GPU |"]
    lines.append("| --- | --- | ---: | ---: | ---: |")
    for exhibit in exhibits:
        if exhibit.name in sizings:
            lines.append(_row(exhibit, sizings[exhibit.name]))
    rates = sorted(sizing.rate / 1e9 for sizing in sizings.values() if sizing.rate)
    reached = f"{rates[0]:,.0f} to {rates[-1]:,.0f} GFLOP/s" if rates else "a rate that was not measured"
    missing = [exhibit.source for exhibit in exhibits if exhibit.name not in sizings]
    left = f" Not sized up yet: {'; '.join(missing)}." if missing else ""
    return [*lines, "", f"Here: two CPU cores whose large matrix products reached {reached} meanwhile.{left}"]


def _row(exhibit: Exhibit, sizing: Sizing) -> str:
    scale = exhibit.scales[sizing.scale]
    size = f"{scale.size}; {len(scale.seeds)} seeds"
    if not sizing.parts:
        return f"| {exhibit.source} | {size} | | seconds | |"
    stopped = f" (does not start: {'; '.join(sizing.stopped)})" if sizing.stopped else ""
    updates = sum(part.updates for part in sizing.parts)
    return f"| {exhibit.source} | {size}{stopped} | {updates:,} | {long(sizing.here)} | {long(sizing.gpu)} |"


def long(seconds: float) -> str:
    """A long time, in words."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 100 * 3600 else f"{seconds / 86400:.0f} days"


def write_sizings(sizings: dict[str, Sizing], scale: str, folder: Path = COMMITTED) -> Path:
    """Keep what was sized up, beside what was kept before."""
    file = folder / _FILE.format(scale=scale)
    every = {**read_sizings(scale, folder), **sizings}
    tables = {name: {**one._asdict(), "parts": [part._asdict() for part in one.parts]} for name, one in every.items()}
    write_atomically(file, (json.dumps(tables, indent=1) + "\n").encode())
    return file


def read_sizings(scale: str, folder: Path = COMMITTED) -> dict[str, Sizing]:
    """What was sized up at a scale, by exhibit."""
    file = folder / _FILE.format(scale=scale)
    tables = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return {name: Sizing(**{**one, "parts": [Part(**p) for p in one["parts"]]}) for name, one in tables.items()}
