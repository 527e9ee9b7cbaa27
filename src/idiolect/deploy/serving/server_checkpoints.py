"""Checkpoints of a server: what the log up to a record has come to. Two are kept, and the log behind the older one."""

import json
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from idiolect.engines.checkpointing import Checkpoint
from idiolect.errors import UserMistake
from idiolect.files import write_atomically
from idiolect.trees import digest

_FORMAT = "idiolect server checkpoint 1"


class Kept(NamedTuple):
    """A checkpoint, and the number of the last record that is in it."""

    number: int
    content: Checkpoint


def write_checkpoint(folder: Path, identity: str, number: int, content: Checkpoint) -> int:
    """Keep a checkpoint and the one before; up to which record the log is not needed any more."""
    texts = {"format": _FORMAT, "identity": identity, "number": str(number), "facts": json.dumps(content.facts)}
    signed = texts | {"digest": digest(texts, content.tensors)}
    write_atomically(folder / f"checkpoint-{number:016d}.safetensors", save(content.tensors, metadata=signed))
    files = _files(folder)
    for file in files[:-2]:
        file.unlink()
    return _number(files[-2]) if len(files) > 1 else 0


def read_checkpoint(folder: Path, identity: str) -> tuple[Kept | None, list[str]]:
    """The newest that is whole, and what is wrong with those that are not."""
    wrong = list[str]()
    for file in reversed(_files(folder)):
        try:
            return Kept(_number(file), _read(file, identity)), wrong
        except _Damaged as reason:
            wrong.append(f"{file} {reason}, and is not used")
    return None, wrong


class _Damaged(Exception):
    pass


def _read(file: Path, identity: str) -> Checkpoint:
    try:
        with safe_open(file, framework="numpy") as content:
            texts = content.metadata() or {}
            tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118, it is no dict
    except (OSError, SafetensorError, ValueError, TypeError, KeyError) as reason:
        raise _Damaged(f"cannot be read ({reason})") from None
    if texts.get("format") != _FORMAT:
        raise _Damaged(f"is no {_FORMAT}")
    if texts.get("digest") != digest(texts, tensors):
        raise _Damaged("is damaged: its digest does not match its content")
    if texts["identity"] != identity:
        raise UserMistake(f"{file} is of another experiment, algorithm or seed; name a new folder by --out")
    return Checkpoint(json.loads(texts["facts"]), tensors)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint-*.safetensors"))


def _number(file: Path) -> int:
    return int(file.stem.removeprefix("checkpoint-"))
