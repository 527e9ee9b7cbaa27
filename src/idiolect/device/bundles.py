"""Reads bundles. Nothing in one is ever executed, and no number in it is believed before it was held against its size.

The header is checked before anything else is read, and what is read takes no more memory than the file is long. The
digest finds damage, and a signature finds forgers, for whoever has the operator's key; everything else is checked in
any case.
"""

import base64
import hashlib
import json
import os
import stat
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from .forward import check
from .packing import PackedLayer, has_unused_bits, largest_index
from .programs import Program, ProgramError, read_program
from .signatures import is_signed_by

FORMAT, VERSION = "idiolect-bundle", "3"
MOST_TEXT = 1 << 20  # bytes of the list of names before compression, and of the header
TENSORS = {"program": ("U8", 1), "numbers": ("F32", 4), "codes": ("U8", 1)}  # type, and bytes of a number
_TEXTS = {"format", "version", "layers", "about", "digest"}


class BundleError(ValueError):
    """The file is no bundle, or damaged. The message is one sentence: the file, and what is wrong with it."""


class Bundle(NamedTuple):
    """A client's model: its layers by name, as they are stored, what is computed with them, and where it comes from.

    Args:
        layers: By their dotted names, in the order of the program.
        program: What is computed; its image has no axes if that is not known.
        about: Whose model it is, and how it was made.
        signed: By the key that the reader was given.
    """

    layers: dict[str, PackedLayer]
    program: Program
    about: dict[str, Any]
    signed: bool

    @property
    def params(self) -> dict[str, np.ndarray]:
        """All weights as float32, which takes four bytes each."""
        return {name: layer.weights() for name, layer in self.layers.items()}

    @property
    def levels(self) -> dict[str, np.ndarray]:
        """The levels of the quantized layers; (outputs, levels) where every output has its own."""
        return {name: layer.codebooks() for name, layer in self.layers.items() if layer.layer.levels}


def read_bundle(path: str | Path, key: bytes | None = None) -> Bundle:
    """The model in a bundle.

    Args:
        path: A regular file.
        key: The operator's public key (Ed25519, 32 bytes or PEM), if the bundle must be signed by it.

    Returns:
        The bundle; `BundleError` if any byte of it is not what was written, or the signature is not the operator's.

    Example:
        >>> import numpy as np
        >>> from idiolect.contracts import Compressed
        >>> from idiolect.export.bundle import write_bundle
        >>> weights = {"slopes": np.array([0.5, -0.5, 0.5], np.float32)}
        >>> write_bundle(tmp / "mine", Compressed(weights, weights, {"slopes": np.array([-0.5, 0.5])}), {})
        >>> read_bundle(tmp / "mine").params["slopes"].tolist()
        [0.5, -0.5, 0.5]
    """
    where = f"bundle {printable(str(path))}"
    try:
        with _regular(path) as file:
            return _decode(file, os.fstat(file.fileno()).st_size, key)
    except OSError as reason:
        raise BundleError(f"{where} cannot be read: {reason.strerror or reason}") from None
    except (BundleError, ProgramError) as reason:
        raise BundleError(f"{where} {reason}") from None


def printable(text: str) -> str:
    """The text with everything escaped that a terminal would not show as it is, such as newlines and its commands."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def written_header(texts: Mapping[str, str], sizes: Sequence[int]) -> bytes:
    """The one header for these texts and bytes of tensors: JSON leaves a choice of blanks, escapes and order."""
    header: dict[str, Any] = {"__metadata__": dict(sorted(texts.items()))}
    place = 0
    for (name, (kind, width)), size in zip(TENSORS.items(), sizes, strict=True):
        header[name] = {"dtype": kind, "shape": [size // width], "data_offsets": [place, place + size]}
        place += size
    text = json.dumps(header, separators=(",", ":")).encode()
    return text.ljust(-(-len(text) // 8) * 8)


def digest(texts: Mapping[str, str], *data: bytes) -> str:
    """SHA-256 of the texts that can be signed, and of all data."""
    signed = {key: text for key, text in texts.items() if key not in ("digest", "signature")}
    found = hashlib.sha256(json.dumps(signed, sort_keys=True).encode() + b"\n")
    for part in data:
        found.update(part)
    return found.hexdigest()


def _regular(path: str | Path) -> BinaryIO:
    """The file, if it is one: a pipe would never end, and a device may not either."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise BundleError("is no regular file")
    return os.fdopen(handle, "rb")


def _decode(file: BinaryIO, size: int, key: bytes | None) -> Bundle:
    texts, sizes = _header(file, size)
    program = read_program(_exactly(file, sizes[0]), sizes[1], sizes[2])
    check(program)
    names = _names(texts["layers"], len(program.layers))
    file.seek(-sum(sizes), os.SEEK_END)
    whole = _exactly(file, sum(sizes))
    if texts["digest"] != digest(texts, whole):
        raise BundleError("is damaged: its digest does not match its content")
    if key is not None and not is_signed_by(key, texts["digest"], _signature(texts)):
        raise BundleError("is not signed by the given key")
    about = _json(texts["about"])
    if not isinstance(about, dict):
        raise BundleError("has no JSON table in its metadata under 'about'")
    return Bundle(_layers(program, names, whole, sizes), program, about, key is not None)


def _header(file: BinaryIO, size: int) -> tuple[dict[str, str], list[int]]:
    """The texts and the bytes of each tensor, if the header is the one that is written for them."""
    if size < 8:
        raise BundleError(f"is too short: {size} bytes cannot hold a header")
    (length,) = struct.unpack("<Q", _exactly(file, 8))
    if length > min(size - 8, MOST_TEXT):
        raise BundleError(f"announces a header of {length} bytes, but has {size - 8} left and may take {MOST_TEXT}")
    text = _exactly(file, length)
    header = _json(text)
    if not isinstance(header, dict):
        raise BundleError("has a header that is not JSON")
    texts = _texts(header.get("__metadata__"))
    spans = [(header.get(name) or {}) if isinstance(header.get(name), dict) else {} for name in TENSORS]
    sizes = [_extent(span.get("shape")) * width for span, (_, width) in zip(spans, TENSORS.values(), strict=True)]
    if text != written_header(texts, sizes):
        raise BundleError("has a header that no bundle has")
    if sum(sizes) != size - 8 - length:
        raise BundleError(f"has {size - 8 - length} bytes of data, but its tensors fill {sum(sizes)}")
    return texts, sizes


def _texts(found: Any) -> dict[str, str]:
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise BundleError(f"is not of the format {FORMAT}")
    if found.get("version") != VERSION:
        raise BundleError(f"has version {found.get('version')!r:.40}, but this reader knows version {VERSION!r}")
    if found.keys() - {"signature"} != _TEXTS or not all(isinstance(text, str) for text in found.values()):
        raise BundleError(f"must have the texts {', '.join(sorted(_TEXTS))} in its metadata, and a signature at most")
    return found


def _extent(shape: Any) -> int:
    whole = isinstance(shape, list) and len(shape) == 1 and type(shape[0]) is int
    return shape[0] if whole and 0 <= shape[0] < 1 << 48 else 0


def _signature(texts: Mapping[str, str]) -> bytes:
    try:
        return base64.b64decode(texts.get("signature", ""), validate=True)
    except ValueError:
        return b""


def _exactly(file: BinaryIO, count: int) -> bytes:
    found = file.read(count)
    if len(found) != count:
        raise BundleError("became shorter while it was read")
    return found


def _json(text: str | bytes) -> Any:
    """What the text means in JSON, or None, which no text of a bundle means."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _names(text: str, count: int) -> list[str]:
    names = _json(_inflated(text))
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BundleError("has no JSON list of names of its layers")
    if len(names) != count or len(set(names)) != count:
        raise BundleError(f"has {len(set(names))} different names for its {count} layers")
    return names


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


def _layers(program: Program, names: list[str], whole: bytes, sizes: Sequence[int]) -> dict[str, PackedLayer]:
    numbers = np.frombuffer(whole, "<f4", sizes[1] // 4, sizes[0]).astype(np.float32, copy=False)
    codes = np.frombuffer(whole, np.uint8, sizes[2], sizes[0] + sizes[1])
    found, first, start = {}, 0, 0
    for name, layer in zip(names, program.layers, strict=True):
        own = PackedLayer(layer, numbers[first : first + layer.numbers], codes[start : start + layer.codes])
        if not np.isfinite(own.numbers).all():
            raise BundleError(f"has {'levels' if layer.levels else 'weights'} in layer {name!r} that are not finite")
        if layer.levels and has_unused_bits(own.codes, layer):
            raise BundleError(f"has bits after the last weight of layer {name!r}")
        # Two, four, eight levels take whole bits: then every index is one of them.
        if layer.levels and layer.levels < 2**layer.bits and largest_index(own.codes, layer) >= layer.levels:
            raise BundleError(f"has a weight in layer {name!r} beyond its {layer.levels} levels")
        found[name] = own
        first, start = first + layer.numbers, start + layer.codes
    return found
