"""Reads a bundle with NumPy and the standard library alone: copy this one file onto the device.

`python reader.py FILE` checks a bundle and says what is in it.

A bundle is a safetensors file: eight bytes with the header's length, a JSON header, and at most three tensors end to
end. In `full` lie the layers in full precision, in `levels` and `planes` the levels and the bit planes of the quantized
ones, each layer after the other. Which they are is a list of `[name, shape]` or, if quantized, `[name, shape, number of
levels]` in JSON, compressed by zlib, in base64, under `layers` in the metadata: a header that told every layer's place
would be longer than a small model of one bit.

Nothing in a bundle is ever executed, and no number in it is believed before it was held against the size of the file.
The digest finds damage; it is no signature, and a forger can make a new one, so everything else is checked as well.
"""

import base64
import hashlib
import json
import math
import struct
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FORMAT, VERSION = "idiolect-bundle", "2"
MOST_TEXT = 1 << 20  # bytes of the list of layers before compression; enough for ten thousands of them
_DTYPES: dict[str, np.dtype[Any]] = {"U8": np.dtype(np.uint8), "F32": np.dtype("<f4")}
_TENSORS = {"planes": "U8", "levels": "F32", "full": "F32"}
_MOST_AXES = 32  # NumPy's own limit in its older versions
_TEXTS = {"format", "version", "layers", "about", "digest"}


class BundleError(ValueError):
    """The file is no bundle, or damaged. The message is one sentence: the file, and what is wrong with it."""


class Bundle(NamedTuple):
    """A client's model by the dotted names of its layers, the levels of the quantized ones, and where it comes from."""

    params: dict[str, np.ndarray]  # float32, as the client uses them
    levels: dict[str, np.ndarray]
    about: dict[str, Any]


class _Layer(NamedTuple):
    name: str
    shape: tuple[int, ...]
    levels: int | None  # how many; None in full precision


def read_bundle(path: str | Path) -> Bundle:
    """The model in a bundle, or `BundleError` if any byte of it is not what was written."""
    try:
        return _decode(Path(path).read_bytes())
    except OSError as reason:
        raise BundleError(f"bundle {path} cannot be read: {reason.strerror or reason}") from None
    except BundleError as reason:
        raise BundleError(f"bundle {path} {reason}") from None


def describe(bundle: Bundle) -> str:
    """What is in a bundle: where it comes from, and a line for every layer."""
    lines = [", ".join(f"{key} {value}" for key, value in bundle.about.items())]
    for name, weights in bundle.params.items():
        levels = bundle.levels.get(name)
        width = "32 bits" if levels is None else f"{bits_for(len(levels))} bits, {len(levels)} levels"
        lines.append(f"{name:<32} {' x '.join(map(str, weights.shape)) or '1':<20} {width}")
    text = "\n".join(lines)
    return text.encode("utf-8", "backslashreplace").decode()  # names may hold what no terminal can show


def bits_for(levels: int) -> int:
    """How many bits tell so many levels apart; a single level takes one bit, so that every layer has a plane."""
    return max(1, (levels - 1).bit_length())


def unpack(planes: np.ndarray, count: int) -> np.ndarray:
    """The `count` indices whose bits lie in `planes`, (bits, ceil(count / 8)) bytes."""
    indices = np.zeros(count, np.int32)
    for k, plane in enumerate(planes):
        indices |= np.unpackbits(plane, count=count, bitorder="little").astype(np.int32) << k
    return indices


def digest(metadata: Mapping[str, str], tensors: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of all metadata but the digest itself, and of every tensor's name, type, shape and bytes."""
    texts = {key: text for key, text in metadata.items() if key != "digest"}
    found = hashlib.sha256(json.dumps(texts, sort_keys=True).encode() + b"\n")
    for name in sorted(tensors):
        tensor = tensors[name]
        # JSON holds no bare newline, and the shape says how many bytes follow: two contents never look the same.
        found.update(json.dumps([name, tensor.dtype.name, list(tensor.shape)]).encode() + b"\n")
        found.update(tensor.astype(tensor.dtype.newbyteorder("<"), copy=False).tobytes())
    return found.hexdigest()


def _decode(content: bytes) -> Bundle:
    header, data = _header(content)
    metadata = _metadata(header.pop("__metadata__", None))
    tensors = _tensors(header, data)
    if metadata["digest"] != digest(metadata, tensors):
        raise BundleError("is damaged: its digest does not match its content")
    about = _json(metadata["about"])
    if not isinstance(about, dict):
        raise BundleError("has no JSON table in its metadata under 'about'")
    return Bundle(*_split(_listed(metadata["layers"], len(data)), tensors), about)


def _header(content: bytes) -> tuple[dict[str, Any], bytes]:
    if len(content) < 8:
        raise BundleError(f"is too short: {len(content)} bytes cannot hold a header")
    (length,) = struct.unpack_from("<Q", content)
    if length > len(content) - 8:
        raise BundleError(f"announces a header of {length} bytes, but has {len(content) - 8} left")
    text = content[8 : 8 + length]
    try:
        header = json.loads(text.decode())
        written = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        raise BundleError("has a header that is not JSON") from None
    # JSON leaves a choice of blanks, escapes and repeated keys; safetensors writes one of them, padded with spaces.
    if not isinstance(header, dict) or text.rstrip(b" ") != written:
        raise BundleError("has a header that safetensors would not write")
    return header, content[8 + length :]


def _metadata(found: Any) -> dict[str, str]:
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise BundleError(f"is not of the format {FORMAT}")
    if found.get("version") != VERSION:
        raise BundleError(f"has version {found.get('version')!r}, but this reader knows version {VERSION!r}")
    if found.keys() != _TEXTS or not all(isinstance(text, str) for text in found.values()):
        raise BundleError(f"must have the texts {', '.join(sorted(_TEXTS))} in its metadata, and no others")
    return found


def _tensors(header: dict[str, Any], data: bytes) -> dict[str, np.ndarray]:
    tensors, spans = {}, []
    for name, entry in header.items():
        if name not in _TENSORS:
            raise BundleError(f"has a tensor {name!r}, but can have only {', '.join(_TENSORS)}")
        if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
            raise BundleError(f"describes tensor {name!r} by something else than dtype, shape and data_offsets")
        shape, offsets, dtype = entry["shape"], entry["data_offsets"], _DTYPES[_TENSORS[name]]
        if entry["dtype"] != _TENSORS[name]:
            raise BundleError(f"has tensor {name!r} of a type other than {_TENSORS[name]}")
        if not _is_span(offsets, len(data)):
            raise BundleError(f"places tensor {name!r} outside of its {len(data)} bytes of data")
        start, end = offsets
        if not _is_shape(shape, len(data)) or len(shape) != 1 or shape[0] * dtype.itemsize != end - start:
            raise BundleError(f"has tensor {name!r} of a shape that does not fit its {end - start} bytes")
        spans.append((start, end))
        tensors[name] = np.frombuffer(data[start:end], dtype)
    place = 0
    for start, end in sorted(spans):
        if start != place:
            raise BundleError(f"has tensors that overlap or leave a gap at byte {min(start, place)} of its data")
        place = end
    if place != len(data):
        raise BundleError(f"has {len(data)} bytes of data, but its tensors fill {place}")
    return tensors


def _json(text: str | bytes) -> Any:
    """What the text means in JSON, or None, which no text of a bundle means."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _listed(text: str, size: int) -> list[_Layer]:
    """The layers that the metadata list, none of which is larger than `size` bytes can tell."""
    layers: dict[str, _Layer] = {}
    entries = _json(_inflated(text))
    if not isinstance(entries, list):
        raise BundleError("has no JSON list of layers in its metadata")
    for entry in entries:
        if not isinstance(entry, list) or len(entry) not in (2, 3) or not isinstance(entry[0], str):
            raise BundleError("lists a layer by something else than name and shape, or name, shape and levels")
        name, shape, levels = entry if len(entry) == 3 else (*entry, None)
        if name in layers:
            raise BundleError(f"lists layer {name!r} twice")
        # A byte of a plane tells eight weights, and a level takes four bytes.
        if not _is_shape(shape, 8 * size) or not (levels is None or (type(levels) is int and 1 <= levels <= size)):
            raise BundleError(f"lists layer {name!r} with a shape or levels that its {size} bytes of data cannot hold")
        layers[name] = _Layer(name, tuple(shape), levels)
    return list(layers.values())


def _inflated(text: str) -> bytes:
    inflating = zlib.decompressobj()
    try:
        # A few bytes may inflate to gigabytes, so no more than one byte too many is ever taken.
        found = inflating.decompress(base64.b64decode(text, validate=True), MOST_TEXT + 1)
    except (ValueError, zlib.error):
        raise BundleError("has a list of layers that is not zlib in base64") from None
    if len(found) > MOST_TEXT:
        raise BundleError(f"has a list of layers of more than {MOST_TEXT} bytes")
    if not inflating.eof or inflating.unused_data:
        raise BundleError("has a list of layers that is cut off, or followed by something else")
    return found


def _split(layers: list[_Layer], tensors: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The weights of every layer and the levels of the quantized ones, cut from the tensors one after the other."""
    places = dict.fromkeys(_TENSORS, 0)

    def take(name: str, part: str, count: int) -> np.ndarray:
        start = places[part]
        found = tensors[part][start : start + count] if part in tensors else np.zeros(0)
        if len(found) != count:
            raise BundleError(f"has less in {part!r} than layer {name!r} needs")
        places[part] += count
        return found

    params, levels = {}, {}
    for name, shape, number in layers:
        count = math.prod(shape)
        if number is None:
            params[name] = take(name, "full", count).astype(np.float32).reshape(shape)
            continue
        bits = bits_for(number)
        planes = take(name, "planes", bits * -(-count // 8)).reshape(bits, -1)
        levels[name] = take(name, "levels", number).astype(np.float32)
        params[name] = _looked_up(name, unpack(planes, count), levels[name]).reshape(shape)
    for part, tensor in tensors.items():
        if places[part] != len(tensor):
            raise BundleError(f"has {len(tensor)} numbers in {part!r}, but its layers need {places[part]}")
    return params, levels


def _looked_up(name: str, indices: np.ndarray, levels: np.ndarray) -> np.ndarray:
    if not np.isfinite(levels).all():
        raise BundleError(f"has levels for layer {name!r} that are not finite")
    if indices.max() >= len(levels):
        raise BundleError(f"has a weight in layer {name!r} beyond its {len(levels)} levels")
    return levels[indices]


def _is_shape(found: Any, most: int) -> bool:
    """A list of extents, none of them zero, that together mean at most `most` numbers."""
    if not isinstance(found, list) or len(found) > _MOST_AXES:
        return False
    # Each extent by itself first, so that a long list of huge ones is never multiplied out.
    return all(type(n) is int and 1 <= n <= most for n in found) and math.prod(found) <= most


def _is_span(found: Any, size: int) -> bool:
    whole = isinstance(found, list) and len(found) == 2 and all(type(place) is int for place in found)
    return whole and 0 <= found[0] <= found[1] <= size


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python reader.py FILE")
    try:
        print(describe(read_bundle(sys.argv[1])))
    except BundleError as damage:
        print(damage, file=sys.stderr)
        sys.exit(2)
