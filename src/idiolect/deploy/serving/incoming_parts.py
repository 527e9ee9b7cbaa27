"""Uploads that come in chunks: each device has room for one, and all of them together for so many bytes."""

import time
from collections.abc import Callable
from typing import NamedTuple

from idiolect.deploy.wire import Assembly

ROOM = 512 * 2**20  # bytes of all uploads that have begun; one fits in any case
_SILENCE = 60.0  # seconds after which an upload that does not go on makes room for others


class _Begun(NamedTuple):
    parts: Assembly
    heard: float


class IncomingParts:
    """What has come of uploads. `limit` is the longest that one may be."""

    def __init__(self, limit: int, room: int = ROOM, read: Callable[[], float] = time.monotonic) -> None:
        self._limit, self._room, self._read = limit, room, read
        self._begun: dict[str, _Begun] = {}  # by name

    def add(self, name: str, digest: str, size: int, number: int, content: bytes) -> bool:
        """Take in a chunk; whether there is room for it."""
        begun = self._begun.get(name)
        if begun is None or begun.parts.digest != digest or begun.parts.size != size:
            self._begun.pop(name, None)
            parts = Assembly(digest, size, self._limit)
            if not self._has_room(size):
                return False
        else:
            parts = begun.parts
        self._begun[name] = _Begun(parts, self._read())
        parts.add(number, content)
        return True

    def take(self, name: str, digest: object) -> bytes | None:
        """The whole of an upload, if all of it has come; it is forgotten here."""
        begun = self._begun.get(name)
        if begun is None or begun.parts.digest != digest or begun.parts.missing:
            return None
        del self._begun[name]
        return begun.parts.content()

    def _has_room(self, size: int) -> bool:
        now, taken = self._read(), sum(begun.parts.size for begun in self._begun.values())
        for name, begun in sorted(self._begun.items(), key=lambda item: item[1].heard):
            if taken + size <= self._room or now - begun.heard < _SILENCE:
                break
            taken -= begun.parts.size
            del self._begun[name]
        return not self._begun or taken + size <= self._room
