"""The models that devices may still fetch, by their digests."""

from collections import OrderedDict
from collections.abc import Callable, Mapping

import numpy as np

from idiolect.deploy.wire import PackedArrays, digest_of, pack, pack_arrays

HELD_BYTES = 64 * 2**20  # the newest is held in any case


class HeldModels:
    """Models as messages; the oldest ones go when there are too many."""

    def __init__(self, offer: Callable[[], Mapping[str, np.ndarray]]) -> None:
        self._offer = offer
        self._held: OrderedDict[str, bytes] = OrderedDict()  # the newest last
        self._bytes = 0  # of all of them
        self._current: tuple[int, str] | None = None  # which version is which model
        self._inside: tuple[str, PackedArrays] | None = None  # the one that was sent whole last

    def __contains__(self, digest: object) -> bool:
        return digest in self._held

    def get(self, digest: str) -> bytes | None:
        """The model of this digest, if it is still here."""
        return self._held.get(digest)

    def inside(self, digest: str) -> PackedArrays:
        """A model that is here as it is sent whole, inside another message; packed once for all who are offered it."""
        if self._inside is None or self._inside[0] != digest:
            self._inside = (digest, pack_arrays({"model": np.frombuffer(self._held[digest], np.uint8)}))
        return self._inside[1]

    def newest(self, version: int) -> str:
        """The digest of the model that is offered now, which is this version."""
        if self._current is None or self._current[0] != version:
            content = pack({}, self._offer())
            self._current = (version, digest_of(content))
            self._bytes += len(content) if self._current[1] not in self._held else 0
            self._held[self._current[1]] = content
        self._held.move_to_end(self._current[1])
        while len(self._held) > 1 and self._bytes > HELD_BYTES:
            self._bytes -= len(self._held.popitem(last=False)[1])
        return self._current[1]
