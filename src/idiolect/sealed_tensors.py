"""Files of named arrays that say what they are, and by which damage shows: texts and a digest over all of it.

Checkpoints, a server's and a peer's records are such files. Nothing in them is ever unpickled.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from idiolect.trees import digest


class Unusable(ValueError):
    """Why a file is passed over, as the end of a sentence that begins with its name."""


def sealed_tensors(format: str, version: str, texts: Mapping[str, str], tensors: Mapping[str, np.ndarray]) -> bytes:
    """The file's content."""
    said = {"format": format, "version": version, **texts}
    return save(dict(tensors), metadata=said | {"digest": digest(said, tensors)})


def unsealed_tensors(path: Path, format: str, version: str) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """The texts and arrays of a file of this format, if every byte of it is as it was written; else `Unusable`."""
    try:
        if not path.is_file():
            raise OSError("it is no file")
        with safe_open(path, framework="numpy") as content:
            texts = content.metadata() or {}
            tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118, it is no dict
    except (OSError, SafetensorError, ValueError, TypeError, KeyError) as reason:
        raise Unusable(f"cannot be read ({reason})") from None
    if texts.get("format") != format or texts.get("version") != version:
        raise Unusable(f"is no {format} of version {version}")
    if texts.get("digest") != digest(texts, tensors):
        raise Unusable("is damaged: its digest does not match its content")
    return texts, tensors
