"""Large timelines on disk: compressed columns in blocks, which are written and read one after the other.

The file is an `.npz` archive, which `numpy.load` opens: `000000/client`, `000000/offered`, … are the columns of the
first block of turns. Nothing in it is ever unpickled, and equal timelines are equal files.
"""

import io
import zipfile
import zlib
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import IO, Any

import numpy as np

from idiolect.errors import UserMistake
from idiolect.network.mapped_columns import BLOCK, blocks_of, joined
from idiolect.network.timeline_checks import TurnChecks
from idiolect.network.timelines import COLUMN_TYPES, Timeline

_LEVEL = 1  # of zlib; times are random in most of their digits, and more effort finds little more
_EARLIEST = (1980, 1, 1, 0, 0, 0)  # that an archive can say; it shall not tell when it was written
_BROKEN = (OSError, ValueError, EOFError, KeyError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error)


def write_columns(table: Timeline, file: IO[bytes], block: int = BLOCK) -> None:
    """Write a timeline, block by block.

    Args:
        table: The timeline.
        file: Where to; opened for bytes.
        block: How many turns are compressed together, at most `BLOCK`.

    Example:
        >>> from idiolect.network import read_timeline, timeline
        >>> from idiolect.network.column_files import write_columns
        >>> with (tmp / "mine.turns.npz").open("wb") as file:
        ...     write_columns(timeline([0, 1], offered=[0.0, 0.0], arrived=[1.0, 5.0]), file)
        >>> read_timeline(tmp / "mine.turns.npz").turns
        2
    """
    with zipfile.ZipFile(file, "w") as archive:
        for number, part in enumerate(blocks_of(table, block)):
            for name, column in part._asdict().items():
                entry, packed = zipfile.ZipInfo(_entry(number, name), _EARLIEST), io.BytesIO()
                np.lib.format.write_array(packed, np.ascontiguousarray(column), version=(1, 0), allow_pickle=False)
                archive.writestr(entry, packed.getvalue(), zipfile.ZIP_DEFLATED, _LEVEL)


def read_columns(path: Path) -> Timeline:
    """A timeline written by `write_columns`, checked; it lies in files if it is large."""
    try:
        table = joined(_checked_blocks(path))
    except _BROKEN as reason:
        if isinstance(reason, UserMistake):
            raise UserMistake(f"timeline {path}: {reason}") from None
        raise UserMistake(f"timeline {path} cannot be read: {reason}") from None
    if table is None:
        raise UserMistake(f"timeline {path} is empty: no client takes a turn")
    return table


def _checked_blocks(path: Path) -> Iterator[Timeline]:
    checks = TurnChecks()
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        for number in count():
            if _entry(number, Timeline._fields[0]) not in names:
                return
            pairs = zip(Timeline._fields, COLUMN_TYPES, strict=True)
            part = Timeline(*(_column(archive, _entry(number, name), kind) for name, kind in pairs))
            if len({len(column) for column in part}) != 1:
                raise ValueError(f"block {number} has columns of different lengths")
            checks.look_at(part)
            yield part


def _column(archive: zipfile.ZipFile, name: str, kind: Any) -> np.ndarray:
    """A column, of which no more is read than a block can have, whatever the archive says of itself."""
    with archive.open(name) as place:
        version = np.lib.format.read_magic(place)
        if version != (1, 0):
            raise ValueError(f"{name} has version {version}, not (1, 0)")
        shape, _, dtype = np.lib.format.read_array_header_1_0(place)
        if len(shape) != 1 or not 0 < shape[0] <= BLOCK or dtype != kind:
            raise ValueError(f"{name} has {dtype} {shape}, not up to {BLOCK} of {np.dtype(kind)}")
        content = place.read(shape[0] * dtype.itemsize)
        return np.frombuffer(content, dtype, shape[0])


def _entry(number: int, column: str) -> str:
    return f"{number:06}/{column}.npy"
