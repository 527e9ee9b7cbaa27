"""LEAF's own JSON files: users, and for each of them samples x with their answers y.

S. Caldas et al. LEAF: a benchmark for federated settings. 2018. A folder as LEAF's scripts leave it has `train` and
`test`, with files that hold `users`, `num_samples` and `user_data`. Both are pooled, training samples first: every
client gets a test part of its own here.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from idiolect.data.columns import Columns, Part, as_objects, joined
from idiolect.errors import UserMistake
from idiolect.files import read_whole

USER, X, Y = "user", "x", "y"


def read_leaf(source: Path | str | Sequence[Path | str]) -> Columns:
    """The columns `user`, `x` and `y` of LEAF's files: of a folder of theirs, of a file, or of several."""
    named = [source] if isinstance(source, str | Path) else source
    files = [file for one in named for file in _files(Path(one))]
    return joined([_read(file) for file in files])


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    for folder in (path, path / "data"):
        parts = [folder / part for part in ("train", "test") if (folder / part).is_dir()] or [folder]
        found = [file for part in parts for file in sorted(part.glob("*.json"))]
        if found:
            return found
    raise UserMistake(f"{path} has no JSON files of LEAF, neither in train and test nor in the folder itself")


def _read(path: Path) -> Columns:
    try:
        record = json.loads(read_whole(path, "file"))
    except (ValueError, RecursionError) as reason:
        raise UserMistake(f"file {path} is not JSON that can be read ({type(reason).__name__})") from None
    data = record.get("user_data") if isinstance(record, dict) else None
    users = record.get("users") if isinstance(record, dict) else None
    if not isinstance(data, dict) or not isinstance(users, list) or not users:
        raise UserMistake(f"file {path} is none of LEAF's: it must have users and user_data")
    cells: dict[str, list[Any]] = {USER: [], X: [], Y: []}
    for user in users:
        xs, ys = _samples(data.get(str(user)), str(user), path)
        cells[USER] += [str(user)] * len(xs)
        cells[X] += xs
        cells[Y] += ys
    if not cells[X]:
        raise UserMistake(f"file {path} has users, but no samples")
    return Columns({name: as_objects(held) for name, held in cells.items()}, (Part(str(path), len(cells[X])),))


def _samples(held: Any, user: str, path: Path) -> tuple[list[Any], list[Any]]:
    xs, ys = (held.get(X), held.get(Y)) if isinstance(held, dict) else (None, None)
    if not isinstance(xs, list) or not isinstance(ys, list) or len(xs) != len(ys):
        raise UserMistake(f"file {path} must have as many x as y for user '{user}'")
    return xs, ys
