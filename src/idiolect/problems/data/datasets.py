"""Labelled images: scikit-learn's digits, and MNIST, Fashion-MNIST and CIFAR-10 from their official files.

Files are looked for in the folder given by the user, in `IDIOLECT_DATA` and in the user's cache, in this order, and
fetched into the cache with their published checksums if they are nowhere. The official training and test samples are
pooled: every client gets a test part of its own (see `idiolect.problems.data.client_splits`).
"""

import gzip
import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from idiolect.errors import UserMistake
from idiolect.problems.data.image_files import Corrupt, read_cifar, read_idx


class Images(NamedTuple):
    """Images (count, height, width, channels), bytes 0-255 or floats 0-1, and their labels."""

    pixels: np.ndarray
    labels: np.ndarray


class Source(NamedTuple):
    """Where a data set's files may lie, and where they come from."""

    name: str
    layouts: list[tuple[str, tuple[str, ...]]]  # (folder below a data folder, the files of one complete copy)
    downloads: dict[str, str]  # address -> published checksum
    read: Callable[[list[Path]], Images]


def digits(folder: Path | None = None) -> Images:
    """1,797 digits of 8 x 8 that ship with scikit-learn: no file, no download."""
    table = _digits_table()
    pixels, labels = table[:, :-1].reshape(-1, 8, 8, 1), table[:, -1]
    return Images((pixels / 16).astype(np.float32), labels.astype(np.int32))


def _digits_table() -> np.ndarray:
    """A row for each digit: 64 pixels from 0 to 16, and its label."""
    found = find_spec("sklearn")  # which takes no time, unlike importing it
    for folder in (found and found.submodule_search_locations) or ():
        if (file := Path(folder) / "datasets" / "data" / "digits.csv.gz").is_file():
            with gzip.open(file, "rt") as lines:
                return np.loadtxt(lines, delimiter=",")
    from sklearn.datasets import load_digits

    data = load_digits()
    return np.column_stack([data.data, data.target])


def load_images(name: str, folder: Path | None = None) -> Images:
    """A data set by name, from the first place that has it.

    Args:
        name: `digits`, `mnist`, `fashion_mnist` or `cifar10`.
        folder: Searched first; then come `IDIOLECT_DATA` and the user's cache.

    Returns:
        Images and labels, the official training and test samples pooled.

    Example:
        >>> from idiolect.problems.data import load_images
        >>> load_images("digits").pixels.shape
        (1797, 8, 8, 1)
    """
    if name == "digits":
        return digits()
    source = SOURCES[name]
    places = data_folders(folder)
    files = _find(source, places) or _fetch(source, places)
    try:
        return source.read(files)
    except Corrupt as damage:
        raise UserMistake(f"{name}: {damage}; remove that file and run again to fetch it anew") from None


def is_here(name: str, folder: Path | None = None) -> bool:
    """Are the files of a data set in one of the places where they are looked for? Nothing is fetched."""
    return name not in SOURCES or _find(SOURCES[name], data_folders(folder)) is not None


def data_folders(folder: Path | None) -> list[Path]:
    """The folders that are searched, in order."""
    import pooch

    named = [folder, os.environ.get("IDIOLECT_DATA") or None]
    return [Path(place).expanduser() for place in named if place] + [Path(pooch.os_cache("idiolect"))]


def _find(source: Source, places: Sequence[Path]) -> list[Path] | None:
    for place in places:
        for below, files in source.layouts:
            paths = [place / below / file for file in files]
            if all(path.is_file() for path in paths):
                return paths
    return None


def _fetch(source: Source, places: Sequence[Path]) -> list[Path]:
    import pooch

    cache = places[-1] / source.layouts[0][0]
    pooch.get_logger().setLevel("WARNING")
    try:
        for address, checksum in source.downloads.items():
            pooch.retrieve(address, checksum, fname=address.rsplit("/", 1)[1], path=cache)
    except Exception as reason:  # pooch lets the errors of every transport through
        raise UserMistake(f"{_not_found(source, places)}, and fetching failed ({type(reason).__name__})") from None
    found = _find(source, places)
    assert found is not None, "the downloads of a source complete one of its layouts"
    return found


def _not_found(source: Source, places: Sequence[Path]) -> str:
    """Where the files of a data set were looked for, and where they lie if they are one folder too high."""
    files = [address.rsplit("/", 1)[1] for address in source.downloads]
    below = list(dict.fromkeys(folder for folder, _ in source.layouts))
    for place in places:
        if "." not in below and all((place / file).is_file() for file in files):
            return f"{source.name}: {', '.join(files)} lie in {place}, but must lie in its folder {below[0]}"
    folders = ", ".join("the folder itself" if folder == "." else folder for folder in below)
    return (
        f"{source.name}: {', '.join(files)} not found in {', '.join(map(str, places))} (there in {folders}); put them "
        "there, or name their folder with --data-dir or IDIOLECT_DATA"
    )


def _read_idx_pairs(paths: list[Path]) -> Images:
    pixels = [read_idx(path, dimensions=3) for path in paths[0::2]]
    labels = [read_idx(path, dimensions=1) for path in paths[1::2]]
    for path, images, classes in zip(paths[0::2], pixels, labels, strict=True):
        if len(images) != len(classes):
            raise Corrupt(f"{path} has {len(images)} images for {len(classes)} labels")
    return Images(np.concatenate(pixels)[..., None], np.concatenate(labels).astype(np.int32))


def _read_cifar(paths: list[Path]) -> Images:
    labels, pixels = (np.concatenate(part) for part in zip(*map(read_cifar, paths), strict=True))
    return Images(pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), labels.astype(np.int32))


_IDX = tuple(f"{part}-{kind}.gz" for part in ("train", "t10k") for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"))
_BATCHES = (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch")
_BINARY = tuple(f"{batch}.bin" for batch in _BATCHES)


def _idx_source(name: str, folders: Sequence[str], address: str, checksums: Sequence[str]) -> Source:
    downloads = {address + file: f"md5:{checksum}" for file, checksum in zip(_IDX, checksums, strict=True)}
    return Source(name, [(folder, _IDX) for folder in folders], downloads, _read_idx_pairs)


SOURCES = {
    source.name: source
    for source in (
        _idx_source(
            "mnist",
            ("mnist", "MNIST/raw", "."),
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            (
                "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                "d53e105ee54ea40749a09fcbcd1e9432",
                "9fb629c4189551a2d022fa330f9573f3",
                "ec29112dd5afa0611ce80d1b7f02629c",
            ),
        ),
        _idx_source(
            "fashion_mnist",
            ("fashion_mnist", "fashion-mnist", "FashionMNIST/raw"),
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            (
                "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                "25c81989df183df01b3e8a0aad5dffbe",
                "bef4ecab320f06d8554ea6380940ec79",
                "bb300cfdad3c16e7a12a480ee83cd310",
            ),
        ),
        Source(
            "cifar10",
            [
                ("cifar10", ("cifar-10-binary.tar.gz",)),
                (".", _BINARY),
                ("cifar10", _BINARY),
                ("cifar-10-batches-bin", _BINARY),
                ("cifar-10-batches-py", _BATCHES),
                (".", ("cifar-10-binary.tar.gz",)),
                (".", ("cifar-10-python.tar.gz",)),
            ],
            {"https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"},
            _read_cifar,
        ),
    )
}
