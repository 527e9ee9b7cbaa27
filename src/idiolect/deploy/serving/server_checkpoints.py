"""Checkpoints of a server: what the log up to a record has come to. Two are kept, and the log behind the older one."""

import json
from pathlib import Path
from typing import NamedTuple

from idiolect.engines.checkpointing import Checkpoint
from idiolect.errors import UserMistake
from idiolect.files import write_atomically
from idiolect.sealed_tensors import Unusable, sealed_tensors, unsealed_tensors

_FORMAT, _VERSION = "idiolect server checkpoint", "1"


class Kept(NamedTuple):
    """A checkpoint, and the number of the last record that is in it."""

    number: int
    content: Checkpoint


def write_checkpoint(folder: Path, identity: str, number: int, content: Checkpoint) -> int:
    """Keep a checkpoint and the one before; up to which record the log is not needed any more."""
    texts = {"identity": identity, "number": str(number), "facts": json.dumps(content.facts)}
    sealed = sealed_tensors(_FORMAT, _VERSION, texts, content.tensors)
    write_atomically(folder / f"checkpoint-{number:016d}.safetensors", sealed)
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
        except Unusable as reason:
            wrong.append(f"{file} {reason}, and is not used")
    return None, wrong


def _read(file: Path, identity: str) -> Checkpoint:
    texts, tensors = unsealed_tensors(file, _FORMAT, _VERSION)
    if texts["identity"] != identity:
        raise UserMistake(f"{file} is of another experiment, algorithm or seed; name a new folder by --out")
    return Checkpoint(json.loads(texts["facts"]), tensors)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint-*.safetensors"))


def _number(file: Path) -> int:
    return int(file.stem.removeprefix("checkpoint-"))
