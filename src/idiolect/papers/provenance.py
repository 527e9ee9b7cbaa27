"""What made some numbers: the code that computes, and the kind of machine. It is noted beside the runs of exhibits.

A finished run is read and not run again. So that nobody takes the numbers of yesterday's code for today's, every run
has a note of the code that made it, and of all of them if it was stopped and gone on with by other code.
"""

import hashlib
import json
import platform
from collections.abc import Mapping
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from idiolect.files import write_atomically

_TELLING = (
    "papers",
    "leaderboard",
    "commands",
    "report",
    "comparison",
    "inspection",
    "export",
    "testing",
    "tuning",
    "recipes",
)
_FEATURES = ("avx512f", "avx2", "asimd")  # of processors: other instructions round otherwise
NOTES = "made"  # the folder of the notes, beside that of the runs


@cache
def code() -> str:
    """A digest of the modules that compute; those that only tell of it are left out."""
    package, digest = Path(str(resources.files("idiolect"))), hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        name = file.relative_to(package)
        if name.parts[0] not in _TELLING:
            digest.update(f"{name.as_posix()}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


@cache
def machine() -> dict[str, str]:
    """What decides the last digits: the instructions of the processor, and the versions of what computes."""
    import jax

    try:
        words = set(Path("/proc/cpuinfo").read_text("utf-8").split())
    except OSError:
        words = set()
    features = " ".join(name for name in _FEATURES if name in words)
    versions = {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy")}
    return {"processor": f"{platform.machine()} {features}".strip(), "device": jax.default_backend(), **versions}


def note_start(run: Path) -> None:
    """Note that a run is begun, or gone on with, by this code on this machine."""
    before = read_note(run) if run.exists() else {}
    codes = [*(each for each in before.get("code", []) if each != code()), code()]
    file = _file(run)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps({**machine(), "code": codes}, indent=1).encode())


def read_note(run: Path) -> dict[str, Any]:
    """What made a run; empty if nobody noted it."""
    try:
        note = json.loads(_file(run).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def made_by(runs: Mapping[str, Path]) -> dict[str, Any]:
    """What made the numbers of an exhibit: every run's note, or this code and machine where there is no run."""
    notes = {name: read_note(run) for name, run in runs.items()}
    codes = sorted({each for note in notes.values() for each in note.get("code", ["unknown"])}) or [code()]
    known = [note for note in notes.values() if note]
    return {**machine(), **(known[0] if known else {}), "code": codes}


def _file(run: Path) -> Path:
    return run.parent.parent / NOTES / f"{run.name}.json"
