"""Measurements that are kept in files, so that what is finished is not run again."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from idiolect.files import write_atomically


def kept(path: Path, asked: Mapping[str, Any], measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What the file says, if it is about what is asked; else what is measured now, which is written there."""
    told = _read(path)
    if any(told.get(name) != value for name, value in asked.items()):
        told = {**asked, **measure()}
        write_atomically(path, json.dumps(told, indent=1).encode())
    return told


def _read(path: Path) -> dict[str, Any]:
    """What the file says; nothing if it is not there, or is not what we write."""
    try:
        told = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}
