"""Graphs as text: a `source target` pair on every line, separated by a space or a comma, with `#` before comments."""

import re
from collections.abc import Iterable
from pathlib import Path

from idiolect.errors import UserMistake
from idiolect.files import read_whole

_PAIR = re.compile(r"(-?\d+)(?:\s*,\s*|\s+)(-?\d+)")


def read_edges(path: str) -> Iterable[tuple[str, tuple[int, int]]]:
    """The pairs of a file, each with the place where it stands."""
    try:
        lines = read_whole(Path(path), "topology").decode("utf-8").splitlines()
    except UnicodeDecodeError as reason:
        raise UserMistake(f"topology {path} cannot be read: {reason}") from None
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        found = _PAIR.fullmatch(text)
        if not found:
            raise UserMistake(f"topology {path}, line {number} is '{text}', but must be two agents: source target")
        yield f"topology {path}, line {number}", (int(found[1]), int(found[2]))
