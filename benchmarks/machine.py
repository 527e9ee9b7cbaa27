"""Where and of what something was measured."""

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGES = ("jax", "jaxlib", "numpy", "torch", "ray", "flwr", "pfl")


def facts(others: dict[str, str]) -> dict[str, Any]:
    """The machine, the versions here and (a name -> Python) in other environments, the commit and the time."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "processor": _processor(),
        "memory": f"{_memory():.0f} GB" if _memory() else "not known",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions(),
        "other versions": {name: _versions_of(python) for name, python in others.items()},
        "commit": commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "load at first": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
    }


def versions() -> dict[str, str]:
    """Of the packages that matter, where they are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def commit() -> str:
    """What was checked out, and whether it had been changed."""
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    done = subprocess.run(asked, check=False, capture_output=True, text=True)
    return done.stdout.strip() or "not known"


def _versions_of(python: str) -> dict[str, str]:
    done = subprocess.run([python, __file__], check=False, capture_output=True, text=True)
    return dict(json.loads(done.stdout)) if done.returncode == 0 else {}


def _processor() -> str:
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def _memory() -> float:
    """In GB; zero where it is not told."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    except (ValueError, OSError, AttributeError):
        return 0.0


if __name__ == "__main__":
    print(json.dumps(versions()))
