"""Seals of a run's files: each says what it belongs to, and has a digest by which damage shows.

A table, such as a finished cell, is JSON with `format`, `belongs_to` and `digest` beside its content. What is no JSON,
the parameters and the timeline of a cell, is known by the digest that the cell's table has of it. The digest finds
accidents and mix-ups; it is no signature, and who wants to forge a result can make a new one. It leaves out what the
clock said, so that equal runs have equal digests.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from idiolect.errors import UserMistake
from idiolect.experiments.serialization import FORMAT
from idiolect.files import read_whole

T = TypeVar("T")
_BY_THE_CLOCK = ("seconds", "stopwatch")
_MALFORMED = (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError)


class Owner(NamedTuple):
    """What a table belongs to: an experiment, by its digest, a kind of table, a name within that kind, and a seed."""

    experiment: str
    kind: str
    name: str
    seed: int


def digest_of(content: bytes) -> str:
    """SHA-256."""
    return hashlib.sha256(content).hexdigest()


def experiment_digest(tables: Mapping[str, Any]) -> str:
    """What tells an experiment from others, from its description; who made it changes nothing of what it is."""
    what = {name: table for name, table in tables.items() if name != "factory"}
    return digest_of(json.dumps(what, sort_keys=True, default=str).encode())


def sealed(record: Mapping[str, Any], owner: Owner) -> bytes:
    """A table as it is written."""
    content = json.loads(json.dumps({**record, "format": FORMAT, "belongs_to": owner._asdict()}))
    return json.dumps({**content, "digest": _digest(content)}).encode()


def unsealed(path: Path, owner: Owner, read: Callable[[dict[str, Any]], T]) -> T:
    """What a table says, or one sentence on what is wrong with it."""
    return unsealed_content(read_whole(path), path, owner, read)


def unsealed_content(content: bytes, path: Path, owner: Owner, read: Callable[[dict[str, Any]], T]) -> T:
    """The same of a table that was read already, such as a line of a file."""
    try:
        record = json.loads(content)
        version = record.get("format")
        intact = version != FORMAT or record.pop("digest", None) == _digest(record)
    except _MALFORMED as reason:
        raise UserMistake(f"{path} is damaged: {_why(reason)}") from None
    if version != FORMAT:
        raise UserMistake(f"{path} was written by another version of idiolect; run its recipe in a new folder")
    if not intact:
        raise UserMistake(f"{path} is damaged: its digest does not match its content")
    if record.get("belongs_to") != owner._asdict():
        raise UserMistake(f"{path} does not belong here: {_whose(record, owner)}")
    try:
        return read(record)
    except _MALFORMED as reason:
        raise UserMistake(f"{path} cannot be read: {_why(reason)}") from None


def _digest(content: Mapping[str, Any]) -> str:
    lasting = {name: value for name, value in content.items() if name not in _BY_THE_CLOCK}
    return digest_of(json.dumps(lasting, sort_keys=True).encode())


def _whose(record: Mapping[str, Any], owner: Owner) -> str:
    """Where a table and the place it lies in differ first."""
    found = record.get("belongs_to")
    found = found if isinstance(found, dict) else {}
    for field, here in owner._asdict().items():
        if found.get(field) != here:
            if field == "experiment":
                return "it is of another experiment than the folder's recipe.toml"
            return f"its {field} is {str(found.get(field))[:80]!r}, not {here!r}"
    return "it says more of itself than it should"


def _why(reason: BaseException) -> str:
    """A short reason, without the content of a file."""
    if isinstance(reason, json.JSONDecodeError):
        return f"it is no JSON from line {reason.lineno}, column {reason.colno} on"
    return f"it is no table of this kind ({type(reason).__name__})"
