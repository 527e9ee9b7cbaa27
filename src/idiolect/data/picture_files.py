"""Single pictures from files: PGM, PPM and NPY by NumPy alone, all other formats by Pillow if it is there.

Nothing is unpickled. A picture is (height, width, channels), of bytes or of numbers between 0 and 1.
"""

import io
import re
from pathlib import Path
from typing import Any

import numpy as np

from idiolect.errors import UserMistake
from idiolect.files import read_whole

_PLAIN = (".pgm", ".ppm", ".pnm")
_BY_PILLOW = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
SUFFIXES = (".npy", *_PLAIN, *_BY_PILLOW)
_HEADER = re.compile(rb"(P[2356])" + rb"(?:\s|#[^\n]*\n)+(\d{1,6})" * 3 + rb"\s")


def read_picture(path: Path) -> np.ndarray:
    """A picture as its file has it."""
    kind, content = path.suffix.lower(), read_whole(path, "image")
    if kind == ".npy":
        return _array(content, path)
    if kind in _PLAIN:
        return _plain(content, path)
    if kind in _BY_PILLOW:
        return _by_pillow(content, path)
    raise UserMistake(f"image {path} must end in one of {', '.join(SUFFIXES)}")


def _array(content: bytes, path: Path) -> np.ndarray:
    try:
        found = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError, OSError):
        raise UserMistake(f"image {path} is no NPY file of numbers") from None
    picture = found[..., None] if found.ndim == 2 else found
    if picture.ndim != 3 or not picture.size or not (picture.dtype == np.uint8 or picture.dtype.kind == "f"):
        raise UserMistake(
            f"image {path} has {found.dtype} of shape {found.shape}, but must have bytes or floats: height, width and "
            "perhaps channels"
        )
    if picture.dtype == np.uint8:
        return picture
    if not np.isfinite(picture).all() or picture.min() < 0 or picture.max() > 1:
        raise UserMistake(f"image {path} has floats beyond [0, 1]; scale them, or store bytes")
    return picture.astype(np.float32)


def _plain(content: bytes, path: Path) -> np.ndarray:
    """PGM (P2 as text, P5) and PPM (P3, P6)."""
    found = _HEADER.match(content)
    if found is None:
        raise UserMistake(f"image {path} is neither PGM nor PPM")
    kind, width, height, top = found[1], int(found[2]), int(found[3]), int(found[4])
    channels, body = 3 if kind in (b"P3", b"P6") else 1, content[found.end() :]
    if not 0 < top < 256 or not width * height:
        raise UserMistake(f"image {path} has {width} x {height} pixels of up to {top}, but must have some of up to 255")
    try:
        values = np.array(body.split(), int) if kind in (b"P2", b"P3") else np.frombuffer(body, np.uint8)
    except ValueError:
        raise UserMistake(f"image {path} has something between its pixels that is no number") from None
    size = height * width * channels
    if len(values) < size or (values[:size].min() < 0 or values[:size].max() > top):
        raise UserMistake(f"image {path} is damaged: it promises {size} numbers of up to {top}")
    pixels = values[:size].reshape(height, width, channels)
    return pixels.astype(np.uint8) if top == 255 else (pixels / top).astype(np.float32)


def pillow(path: Path, why: str) -> Any:
    """Pillow's module, or a sentence on what needs it."""
    try:
        from PIL import Image
    except ImportError:
        raise UserMistake(f"image {path} {why} Pillow; pip install 'idiolect[images]'") from None
    return Image


def _by_pillow(content: bytes, path: Path) -> np.ndarray:
    image = pillow(path, "is read by")
    try:
        with image.open(io.BytesIO(content)) as opened:
            found = np.asarray(opened.convert("L" if opened.mode in ("1", "L", "I", "I;16", "F") else "RGB"))
    except Exception as reason:  # every format has its own
        raise UserMistake(f"image {path} cannot be read ({type(reason).__name__})") from None
    return found[..., None] if found.ndim == 2 else found


def fitted(picture: np.ndarray, path: Path, size: tuple[int, int] | None, channels: int | None) -> np.ndarray:
    """The picture in another size (by Pillow) or with other channels: grey from colours, or three alike."""
    if channels is not None and picture.shape[2] != channels:
        if {picture.shape[2], channels} != {1, 3}:
            raise UserMistake(f"image {path} has {picture.shape[2]} channels, which cannot become {channels}")
        grey = picture.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32) if channels == 1 else None
        picture = np.repeat(picture, 3, 2) if grey is None else grey[..., None].astype(picture.dtype)
    if size is None or picture.shape[:2] == tuple(size):
        return picture
    image = pillow(path, "is brought to another size by")
    layers = [
        np.asarray(image.fromarray(np.ascontiguousarray(picture[..., layer])).resize((size[1], size[0])))
        for layer in range(picture.shape[2])
    ]
    return np.clip(np.stack(layers, axis=-1), 0, 255 if picture.dtype == np.uint8 else 1)
