"""Messages: a header in JSON and arrays in safetensors, with a digest; checked before anything else is done with them.

    IDL1 | length of the header, 4 bytes, little-endian | header, JSON | arrays, safetensors

Nothing is ever unpickled, nothing in a message names a file, and no length is believed that a message says of itself.
What is too large for one message travels in chunks, each a message of its own, that are put together by `Assembly`.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

MAGIC = b"IDL1"
HEADER_BYTES = 2**16
CHUNK_BYTES = 2**20
_MOST_TENSORS = 10_000
_NO_TENSORS: Mapping[str, np.ndarray] = {}


class WireError(Exception):
    """A message that is none. The text is one of a few short reasons, for counting."""


class Message(NamedTuple):
    """What was said: plain values, and arrays by name."""

    header: dict[str, Any]
    tensors: dict[str, np.ndarray]


class PackedArrays(NamedTuple):
    """Arrays as they stand in a message, to be sent or kept under more than one header."""

    body: bytes
    digest: str


def pack_arrays(tensors: Mapping[str, np.ndarray]) -> PackedArrays:
    """Arrays as they stand in a message."""
    body = save({name: np.asarray(array, order="C") for name, array in tensors.items()}) if tensors else b""
    return PackedArrays(body, digest_of(body))


def arrays_in(content: bytes) -> PackedArrays:
    """The arrays of a message that was unpacked, as they stand in it."""
    length = int.from_bytes(content[4:8], "little")
    return PackedArrays(content[8 + length :], _decoded(content[8 : 8 + length]).get("digest", ""))


def pack(header: Mapping[str, Any], tensors: Mapping[str, np.ndarray] | PackedArrays = _NO_TENSORS) -> bytes:
    """A message as bytes; numbers in the header must be finite."""
    if "digest" in header:
        raise ValueError("'digest' in a header is that of the arrays; call yours something else")
    body, digest = tensors if isinstance(tensors, PackedArrays) else pack_arrays(tensors)
    text = _ENCODER.encode({**header, "digest": digest} if body else dict(header)).encode()
    if len(text) > HEADER_BYTES:
        raise ValueError(f"a header of {len(text)} bytes is too long to send")
    return b"".join([MAGIC, len(text).to_bytes(4, "little"), text, body])


def unpack(content: bytes, *, limit: int) -> Message:
    """The message that these bytes are, if it is one, whole, and no longer than `limit`."""
    if len(content) > limit:
        raise WireError("too long")
    length = int.from_bytes(content[4:8], "little")
    if content[:4] != MAGIC or length > HEADER_BYTES or len(content) < 8 + length:
        raise WireError("malformed")
    try:
        header = _decoded(content[8 : 8 + length])
    except (ValueError, RecursionError):
        raise WireError("malformed") from None
    if not isinstance(header, dict):
        raise WireError("malformed")
    body, said = content[8 + length :], header.pop("digest", None)
    if not body:
        return Message(header, {})
    if said != digest_of(body):
        raise WireError("wrong digest")
    return Message(header, _tensors(body))


def digest_of(content: bytes) -> str:
    """SHA-256."""
    return hashlib.sha256(content).hexdigest()


def chunk(content: bytes, number: int) -> bytes:
    """One of the chunks that bytes are sent in; empty beyond the last."""
    return content[number * CHUNK_BYTES : (number + 1) * CHUNK_BYTES] if number >= 0 else b""


def chunks_of(size: int) -> int:
    """How many chunks so many bytes make."""
    return -(-size // CHUNK_BYTES)


class Assembly:
    """Bytes that come in chunks, in any order and more than once, until they have the digest that was told."""

    def __init__(self, digest: str, size: int, limit: int) -> None:
        if not 0 < size <= limit:
            raise WireError("too long")
        self.digest, self.size = digest, size
        self._chunks: dict[int, bytes] = {}

    @property
    def missing(self) -> list[int]:
        """The numbers of the chunks that have not come."""
        return [number for number in range(chunks_of(self.size)) if number not in self._chunks]

    def add(self, number: int, content: bytes) -> None:
        """Take in a chunk."""
        last = chunks_of(self.size) - 1
        wanted = CHUNK_BYTES if number < last else self.size - last * CHUNK_BYTES
        if not 0 <= number <= last or len(content) != wanted:
            raise WireError("malformed")
        self._chunks[number] = content

    def content(self) -> bytes:
        """All of it; if it is not what was told, every chunk is forgotten."""
        whole = b"".join(self._chunks[number] for number in sorted(self._chunks))
        if len(whole) != self.size or digest_of(whole) != self.digest:
            self._chunks.clear()
            raise WireError("wrong digest")
        return whole


def _tensors(body: bytes) -> dict[str, np.ndarray]:
    try:
        found = load(body)
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError, OverflowError, MemoryError):
        raise WireError("malformed") from None
    if len(found) > _MOST_TENSORS:
        raise WireError("malformed")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number that JSON has")


# Made once: json.dumps and json.loads make one anew at every call.
_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_constant=_no_number)


def _decoded(text: bytes) -> Any:
    return _DECODER.decode(text.decode())
