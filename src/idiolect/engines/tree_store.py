"""A store of pytrees by number: in memory up to a memory budget, beyond it in a memory-mapped file.

What stays on clients, and the models they have received but not yet worked on, would otherwise grow with the number of
clients times the size of the model.
"""

import math
import mmap
import os
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import jax
import numpy as np

from idiolect.contracts import PyTree
from idiolect.errors import UserMistake


class MemoryBudget(NamedTuple):
    """How many bytes of trees to hold in memory, and the folder for those beyond; by default the system's own."""

    bytes: int = 2**31
    folder: Path | None = None


class TreeStore(MutableMapping[int, PyTree]):
    """A mapping from numbers to trees of arrays. What comes back is a copy, or can never change."""

    def __init__(self, memory: MemoryBudget) -> None:
        self._budget, self._used = memory, 0
        self._near: dict[int, PyTree] = {}
        self._far: dict[int, _Place] = {}
        self._file: _Slots | None = None

    def __setitem__(self, number: int, tree: PyTree) -> None:
        if number in self:
            del self[number]
        size = _size(tree)
        if self._used + size <= self._budget.bytes:
            self._near[number], self._used = tree, self._used + size
            return
        if self._file is None:
            self._file = _Slots(self._budget.folder)
        self._far[number] = self._file.put(tree)

    def __getitem__(self, number: int) -> PyTree:
        if number in self._near or self._file is None:
            return self._near[number]
        return self._file.get(self._far[number])

    def __delitem__(self, number: int) -> None:
        if number in self._near:
            self._used -= _size(self._near.pop(number))
        elif self._file is not None:
            self._file.free(self._far.pop(number))

    def __contains__(self, number: object) -> bool:
        return number in self._near or number in self._far

    def __iter__(self) -> Iterator[int]:
        return iter(sorted([*self._near, *self._far]))

    def __len__(self) -> int:
        return len(self._near) + len(self._far)

    def seen_now(self) -> Mapping[int, PyTree]:
        """What is in the store now; what lies on disk may be gone or replaced later."""
        if not self._far:
            return dict(self._near)
        view = TreeStore(self._budget)
        view._near, view._far, view._file = dict(self._near), dict(self._far), self._file
        return view


def _size(tree: PyTree) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


class _Layout(NamedTuple):
    """How to make trees of a kind from bytes again. Millions of trees share a few of them."""

    structure: Any
    leaves: tuple[tuple[np.dtype[Any], tuple[int, ...]], ...]

    @property
    def size(self) -> int:
        """The bytes of such a tree."""
        return sum(math.prod(shape) * dtype.itemsize for dtype, shape in self.leaves)


class _Place(NamedTuple):
    """Where a tree lies in the file, and the number of its layout."""

    offset: int
    layout: int


class _Slots:
    """A file that grows as needed; slots of trees that are gone are used again for trees of the same size.

    The file has no name, so that it is gone with the process, however that ends.
    """

    def __init__(self, folder: Path | None) -> None:
        self._where = folder or Path(tempfile.gettempdir())
        try:
            self._file, self._end = tempfile.TemporaryFile(dir=folder), 0  # noqa: SIM115, it stays open
        except OSError as reason:
            raise self._no_room(reason) from None
        self._free: dict[int, list[int]] = {}
        self._numbers: dict[_Layout, int] = {}
        self._layouts: list[tuple[_Layout, int]] = []  # with their sizes
        self._map: mmap.mmap | None = None

    def put(self, tree: PyTree) -> _Place:
        leaves, structure = jax.tree.flatten(tree)
        arrays = [np.asarray(leaf) for leaf in leaves]
        layout = _Layout(structure, tuple((array.dtype, array.shape) for array in arrays))
        number = self._numbers.setdefault(layout, len(self._layouts))
        if number == len(self._layouts):
            self._layouts.append((layout, layout.size))
        size = self._layouts[number][1]
        slots = self._free.setdefault(size, [])
        offset = slots.pop() if slots else self._append(size)
        self._memory()[offset : offset + size] = b"".join(array.tobytes() for array in arrays)
        return _Place(offset, number)

    def get(self, place: _Place) -> PyTree:
        layout, size = self._layouts[place.layout]
        content, at, arrays = self._memory()[place.offset : place.offset + size], 0, []
        for dtype, shape in layout.leaves:
            count = math.prod(shape)
            arrays.append(np.frombuffer(content, dtype, count, at).reshape(shape))
            at += count * dtype.itemsize
        return jax.tree.unflatten(layout.structure, arrays)

    def free(self, place: _Place) -> None:
        self._free[self._layouts[place.layout][1]].append(place.offset)

    def _append(self, size: int) -> int:
        offset, self._end = self._end, self._end + size
        return offset

    def _memory(self) -> mmap.mmap:
        if self._map is None or len(self._map) < self._end:
            if self._map is not None:
                self._map.close()  # Windows makes no file longer that is mapped
            self._map = mmap.mmap(self._file.fileno(), self._reserved())
        return self._map

    def _reserved(self) -> int:
        """Make the file longer: twice as long as it must be, or at least that. The disk gives the room now or never.

        A file with holes would do until it is written to; a full disk then ends the process with SIGBUS.
        """
        for length in (max(2 * self._end, 2**20), self._end):
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(self._file.fileno(), 0, length)
                else:
                    _fill_up(self._file, length)
                return length
            except OSError as reason:
                refused = reason
        raise self._no_room(refused)

    def _no_room(self, reason: OSError) -> UserMistake:
        return UserMistake(
            f"{self._where} cannot hold what clients keep beyond --client-memory: {reason.strerror or reason}; make "
            "room there, or give more memory"
        )


def _fill_up(file: IO[bytes], length: int) -> None:
    """Make a file this long, and all of it real, where the system has no call for that: zeros are written."""
    missing = length - file.seek(0, os.SEEK_END)
    while missing > 0:
        missing -= file.write(bytes(min(missing, 2**20)))
    file.flush()
