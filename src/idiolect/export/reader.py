"""Reads a bundle with NumPy and the standard library alone: copy this one file onto the device.

`python reader.py FILE` checks a bundle and says what is in it.

A bundle is a safetensors file: eight bytes with the header's length, a JSON header, and the tensors end to end. Nothing
in it is ever executed, and no number in it is believed before it was held against the size of the file. The digest
finds damage; it is no signature, and a forger can make a new one, so everything else is checked as well.
"""

import hashlib
import json
import math
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FORMAT, VERSION = "idiolect-bundle", "1"
_DTYPES: dict[str, np.dtype[Any]] = {"U8": np.dtype(np.uint8), "F32": np.dtype("<f4")}
_MOST_AXES = 32  # NumPy's own limit in its older versions
_TEXTS = {"format", "version", "layers", "about", "digest"}


class BundleError(ValueError):
    """The file is no bundle, or damaged. The message is one sentence: the file, and what is wrong with it."""


class Bundle(NamedTuple):
    """A client's model by the dotted names of its layers, the levels of the quantized ones, and where it comes from."""

    params: dict[str, np.ndarray]  # float32, as the client uses them
    levels: dict[str, np.ndarray]
    about: dict[str, Any]


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
    return "\n".join(lines)


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
    layers, about = (_table(metadata[key], key) for key in ("layers", "about"))
    _names_match(layers, tensors)
    levels = {name: tensors[f"{name}.levels"] for name, layer in layers.items() if "bits" in layer}
    params = {name: _layer(name, layer, tensors) for name, layer in layers.items()}
    return Bundle(params, {name: values.astype(np.float32) for name, values in levels.items()}, about)


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
        if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
            raise BundleError(f"describes tensor {name!r} by something else than dtype, shape and data_offsets")
        if entry["dtype"] not in list(_DTYPES):
            raise BundleError(f"has tensor {name!r} of a type other than {' and '.join(_DTYPES)}")
        shape, offsets, dtype = entry["shape"], entry["data_offsets"], _DTYPES[entry["dtype"]]
        if not _is_span(offsets, len(data)):
            raise BundleError(f"places tensor {name!r} outside of its {len(data)} bytes of data")
        start, end = offsets
        if not _is_shape(shape, len(data)) or math.prod(shape) * dtype.itemsize != end - start:
            raise BundleError(f"has tensor {name!r} of a shape that does not fit its {end - start} bytes")
        spans.append((start, end))
        tensors[name] = np.frombuffer(data[start:end], dtype).reshape(shape)
    place = 0
    for start, end in sorted(spans):
        if start != place:
            raise BundleError(f"has tensors that overlap or leave a gap at byte {min(start, place)} of its data")
        place = end
    if place != len(data):
        raise BundleError(f"has {len(data)} bytes of data, but its tensors fill {place}")
    return tensors


def _table(text: str, key: str) -> dict[str, Any]:
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict):
        raise BundleError(f"has no JSON table in its metadata under {key!r}")
    return table


def _names_match(layers: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Every layer has its tensors, and every tensor belongs to one layer."""
    expected = []
    for name, layer in layers.items():
        if not isinstance(layer, dict) or layer.keys() not in ({"shape"}, {"shape", "bits", "levels"}):
            raise BundleError(f"describes layer {name!r} by something else than shape, or shape, bits and levels")
        expected += [f"{name}.planes", f"{name}.levels"] if "bits" in layer else [name]
    if sorted(expected) != sorted(tensors):
        raise BundleError("lists other layers than it has tensors for")


def _layer(name: str, layer: dict[str, Any], tensors: dict[str, np.ndarray]) -> np.ndarray:
    shape = layer["shape"]
    if "bits" not in layer:
        whole = tensors[name]
        if whole.dtype != np.float32 or list(whole.shape) != shape:
            raise BundleError(f"has layer {name!r} of another shape or type than it lists")
        return whole.astype(np.float32)
    planes, levels = tensors[f"{name}.planes"], tensors[f"{name}.levels"]
    if levels.dtype != np.float32 or levels.ndim != 1 or not np.isfinite(levels).all():
        raise BundleError(f"has levels for layer {name!r} that are no list of finite float32 numbers")
    bits = bits_for(len(levels))
    if (layer["bits"], layer["levels"]) != (bits, len(levels)):
        raise BundleError(f"lists other bits and levels for layer {name!r} than its {len(levels)} levels need")
    count = math.prod(shape) if _is_shape(shape, 8 * planes.size) else 0
    if planes.dtype != np.uint8 or not count or planes.shape != (bits, -(-count // 8)):
        raise BundleError(f"has planes for layer {name!r} that do not fit its shape")
    indices = unpack(planes, count)
    if indices.max() >= len(levels):
        raise BundleError(f"has a weight in layer {name!r} beyond its {len(levels)} levels")
    return levels[indices].astype(np.float32).reshape(shape)


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
