"""A client's model as a bundle: a safetensors file of packed bits that `reader` reads without this package."""

import base64
import json
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from idiolect.contracts import Compressed
from idiolect.errors import UserMistake
from idiolect.export.reader import FORMAT, MOST_TEXT, VERSION, digest
from idiolect.export.stored_layers import Packed, stored_layers
from idiolect.files import write_atomically


def write_bundle(path: Path, compressed: Compressed, about: Mapping[str, str]) -> None:
    """Write a client's model, and what the caller tells `about` it, so that it is there whole or not at all.

    The file takes what `contents.bundle_size` tells and a header: the text of `about` and some 500 bytes for a network
    of a few layers, 900 for a residual network of 20. Equal models are equal files, byte by byte, as long as
    they are written with the same zlib.
    """
    layers = stored_layers(compressed)
    tensors = _joined(layers)
    texts = {
        "format": FORMAT,
        "version": VERSION,
        "layers": _listed(layers),
        "about": _compact(dict(about)),
    }
    write_atomically(path, _ordered(save(tensors, metadata=texts | {"digest": digest(texts, tensors)})))


def _ordered(content: bytes) -> bytes:
    """The same file with its metadata sorted; safetensors shuffles them, but equal models should be equal files."""
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    return content[:8] + text.ljust(length) + content[8 + length :]


def _joined(layers: Mapping[str, Packed | np.ndarray]) -> dict[str, np.ndarray]:
    """At most three tensors, each of which has its part of every layer, one after the other."""
    packed = [layer for layer in layers.values() if isinstance(layer, Packed)]
    parts = {
        "planes": [layer.planes for layer in packed],
        "levels": [layer.levels for layer in packed],
        "full": [layer for layer in layers.values() if not isinstance(layer, Packed)],
    }
    return {part: np.concatenate([tensor.reshape(-1) for tensor in found]) for part, found in parts.items() if found}


def _listed(layers: Mapping[str, Packed | np.ndarray]) -> str:
    """The list of layers, compressed: the names and shapes of a deep network repeat each other."""
    entries = [
        [name, layer.shape, len(layer.levels)] if isinstance(layer, Packed) else [name, layer.shape]
        for name, layer in layers.items()
    ]
    text = _compact(entries).encode()
    if len(text) > MOST_TEXT:
        raise UserMistake(
            f"the list of the model's {len(layers)} layers is longer than the {MOST_TEXT} bytes it may be"
        )
    return base64.b64encode(zlib.compress(text, 9)).decode()


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
