"""Letters as parcels of bytes: a letter is packed, cut into chunks, and put together again at the other end."""

import jax
import numpy as np

from idiolect.contracts import PyTree
from idiolect.deploy import wire
from idiolect.deploy.peers.letters import Letter, Stamp
from idiolect.errors import UserMistake
from idiolect.trees import as_tensors, bytes_of, fill, names_of

_SLACK = 2**16  # bytes of header and names beside the numbers of a model


def largest_letter(like: PyTree) -> int:
    """How many bytes a letter of such content can have at most."""
    return bytes_of(like) + _SLACK + 512 * len(names_of("", like))


def packed(letter: Letter) -> list[bytes]:
    """A letter as parcels, each of which fits into one message."""
    content = wire.pack({"stamp": list(letter.stamp)}, as_tensors(names_of("content", letter.content)))
    about = {"size": len(content), "of": wire.digest_of(content)}
    chunks = [wire.chunk(content, number) for number in range(wire.chunks_of(len(content)))]
    return [
        wire.pack({**about, "number": number}, {"bytes": np.frombuffer(chunk, np.uint8)})
        for number, chunk in enumerate(chunks)
    ]


class Unpacker:
    """Puts the parcels of one sender together; the newest letter replaces one of which parcels are missing."""

    def __init__(self, sender: str, like: PyTree) -> None:
        self._sender, self._like, self._limit = sender, like, largest_letter(like)
        self._assembly: wire.Assembly | None = None

    def add(self, parcel: bytes) -> Letter | None:
        """A letter, if this parcel makes it whole. What is none raises `WireError`."""
        header, tensors = wire.unpack(parcel, limit=wire.CHUNK_BYTES + _SLACK)
        try:
            size, digest, number = int(header["size"]), str(header["of"]), int(header["number"])
            chunk = np.asarray(tensors["bytes"], np.uint8).tobytes()
        except (KeyError, TypeError, ValueError, OverflowError):
            raise wire.WireError("malformed") from None
        if self._assembly is None or self._assembly.digest != digest:
            self._assembly = wire.Assembly(digest, size, self._limit)
        self._assembly.add(number, chunk)
        if self._assembly.missing:
            return None
        whole, self._assembly = self._assembly, None
        return self._letter(whole.content())

    def _letter(self, content: bytes) -> Letter:
        header, tensors = wire.unpack(content, limit=self._limit)
        try:
            incarnation, round = (int(part) for part in header["stamp"])  # noqa: A001, as the timeline says
            with jax.enable_x64(True):
                found = fill("content", self._like, tensors)
        except UserMistake:
            raise wire.WireError("wrong shape or type") from None
        except (KeyError, TypeError, ValueError, OverflowError):
            raise wire.WireError("malformed") from None
        return Letter(self._sender, Stamp(incarnation, round), found)
