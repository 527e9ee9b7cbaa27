"""Readers of the official file formats: IDX (MNIST) and CIFAR-10's binary and Python batches, plain or in a tar.

CIFAR-10's Python batches are pickles. They are never unpickled: their opcodes are listed, which runs nothing, and the
two values wanted are picked out.
"""

import gzip
import pickletools
import tarfile
import zlib
from pathlib import Path

import numpy as np

_CIFAR_ROW = 3 * 32 * 32
_CIFAR_BATCH = 10_000


class Corrupt(Exception):
    """A file is not what its name promises; the message names the file and what is wrong."""


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """A gzipped IDX file of unsigned bytes."""
    try:
        raw = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as reason:
        raise Corrupt(f"{path} is damaged ({reason})") from None
    header = 4 + 4 * dimensions
    if raw[:4] != bytes([0, 0, 8, dimensions]) or len(raw) < header:
        raise Corrupt(f"{path} is not an IDX file of unsigned bytes with {dimensions} dimensions")
    shape = np.frombuffer(raw, ">u4", dimensions, offset=4).astype(int)
    if len(raw) - header != shape.prod():
        raise Corrupt(f"{path} has {len(raw) - header} bytes after its header, which promises {shape.prod()}")
    return np.frombuffer(raw, np.uint8, offset=header).reshape(shape)


def read_cifar(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Labels and rows of pixels (red, green, blue planes) from one batch, or from a tar with all six."""
    if not path.name.endswith(".tar.gz"):
        return _batch(str(path), path.read_bytes(), binary=path.suffix == ".bin")
    parts = []
    try:
        with tarfile.open(path) as archive:
            for member in sorted(archive.getmembers(), key=lambda member: member.name):
                name = member.name.rsplit("/", 1)[-1]
                if name.startswith(("data_batch_", "test_batch")):
                    content = archive.extractfile(member)
                    if content is not None:
                        parts.append(_batch(f"{name} in {path}", content.read(), binary=name.endswith(".bin")))
    except (OSError, EOFError, zlib.error, tarfile.TarError) as reason:
        raise Corrupt(f"{path} is damaged ({reason})") from None
    if len(parts) != 6:
        raise Corrupt(f"{path} holds {len(parts)} CIFAR-10 batches instead of 6")
    labels, pixels = (np.concatenate(column) for column in zip(*parts, strict=True))
    return labels, pixels


def _batch(name: str, raw: bytes, binary: bool) -> tuple[np.ndarray, np.ndarray]:
    labels, pixels = _binary_batch(raw) if binary else _pickled_batch(name, raw)
    if len(labels) != _CIFAR_BATCH or pixels.shape != (_CIFAR_BATCH, _CIFAR_ROW) or labels.max() > 9:
        raise Corrupt(f"{name} is not a CIFAR-10 batch of {_CIFAR_BATCH} labelled images")
    return labels, pixels


def _binary_batch(raw: bytes) -> tuple[np.ndarray, np.ndarray]:
    whole = len(raw) // (_CIFAR_ROW + 1)
    rows = np.frombuffer(raw, np.uint8, whole * (_CIFAR_ROW + 1)).reshape(whole, _CIFAR_ROW + 1)
    if whole * (_CIFAR_ROW + 1) != len(raw) or not whole:
        return np.zeros(0, np.uint8), rows
    return rows[:, 0], rows[:, 1:]


def _pickled_batch(name: str, raw: bytes) -> tuple[np.ndarray, np.ndarray]:
    labels: list[int] = []
    pixels = b""
    listening = False  # are we inside the list that follows the key "labels"?
    try:
        for opcode, value, _ in pickletools.genops(raw):
            if isinstance(value, str | bytes):
                text = value.encode("latin1") if isinstance(value, str) else value
                listening = text == b"labels"
                pixels = max(pixels, text, key=len)  # by far the longest string in the file
            elif listening and isinstance(value, int) and opcode.name in ("BININT1", "BININT2", "BININT", "INT"):
                labels.append(value)
    except (ValueError, UnicodeError) as reason:
        raise Corrupt(f"{name} is damaged ({reason})") from None
    whole = len(pixels) // _CIFAR_ROW
    if labels and not 0 <= min(labels) <= max(labels) <= 9:
        raise Corrupt(f"{name} is not a CIFAR-10 batch: it has labels beyond 0-9")
    rows = np.frombuffer(pixels[: whole * _CIFAR_ROW], np.uint8).reshape(whole, _CIFAR_ROW)
    return np.array(labels or [0], np.uint8), rows
