"""A client's model as a bundle: a safetensors file of packed bits that `reader` reads without this package."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from idiolect.contracts import Compressed
from idiolect.errors import UserMistake
from idiolect.export.contents import Packed, stored_layers
from idiolect.export.reader import FORMAT, VERSION, digest
from idiolect.files import write_atomically


def write_bundle(path: Path, compressed: Compressed, about: Mapping[str, str]) -> None:
    """Write a client's model, and what the caller tells `about` it, so that it is there whole or not at all.

    A quantized layer is stored as `<name>.planes` and `<name>.levels`, any other as it is, in float32. The file takes
    what `contents.bundle_size` tells and a header: some 80 bytes for each tensor, 60 for each layer, 300 and the text
    of `about`.
    """
    layers = stored_layers(compressed)
    tensors: dict[str, np.ndarray] = {}
    for name, layer in layers.items():
        parts = {".planes": layer.planes, ".levels": layer.levels} if isinstance(layer, Packed) else {"": layer}
        for part, tensor in parts.items():
            if name + part in tensors:
                raise UserMistake(f"the model has two layers that would both be stored as {name + part}; rename one")
            tensors[name + part] = np.ascontiguousarray(tensor).reshape(tensor.shape)
    texts = {
        "format": FORMAT,
        "version": VERSION,
        "layers": _compact({name: _described(layer) for name, layer in layers.items()}),
        "about": _compact(dict(about)),
    }
    write_file(path, _ordered(save(tensors, metadata=texts | {"digest": digest(texts, tensors)})))


def write_file(path: Path, content: bytes) -> None:
    """Write an exported file atomically, or say why it cannot be written."""
    try:
        write_atomically(path, content)
    except OSError as reason:
        raise UserMistake(f"{path} cannot be written: {reason.strerror or reason}") from None


def _ordered(content: bytes) -> bytes:
    """The same file with its metadata sorted; safetensors shuffles them, but equal models should be equal files."""
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    return content[:8] + text.ljust(length) + content[8 + length :]


def _described(layer: Packed | np.ndarray) -> dict[str, object]:
    quantized = {"bits": len(layer.planes), "levels": len(layer.levels)} if isinstance(layer, Packed) else {}
    return {"shape": list(layer.shape), **quantized}


def _compact(table: Mapping[str, object]) -> str:
    return json.dumps(table, separators=(",", ":"))
