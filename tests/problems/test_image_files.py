"""Readers of the official formats: what was written is read, damage is named, and nothing in a file is ever run.

The test writes its own files. CIFAR-10 batches have their full 10,000 rows, most of them blank.
"""

import contextlib
import gzip
import io
import os
import pickle
import struct
import tarfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from idiolect.problems.data.image_files import Corrupt, read_cifar, read_idx

ROWS, ROW = 10_000, 3072
BATCHES = [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]


def idx(array: np.ndarray, kind: int = 8, shape: tuple[int, ...] | None = None) -> bytes:
    extents = array.shape if shape is None else shape
    return bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *extents) + array.tobytes()


def batch_arrays(mark: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Labels in no simple order, and pixels of which a few in every plane are set."""
    labels = (np.arange(ROWS) * 7 + mark) % 10
    pixels = np.zeros((ROWS, ROW), np.uint8)
    pixels[:, 5] = np.arange(ROWS) % 251
    pixels[:, 1024 + 70] = mark
    pixels[-1] = np.arange(ROW) % 256
    return labels.astype(np.uint8), pixels


def binary(labels: np.ndarray, pixels: np.ndarray) -> bytes:
    return np.concatenate([labels[:, None], pixels], axis=1).tobytes()


def python2_pickle(labels: list[int], pixels: np.ndarray) -> bytes:
    """A batch as CIFAR-10's authors wrote it: cPickle of Python 2, protocol 2, byte strings, a NumPy array."""

    def string(text: bytes) -> bytes:
        return (b"U" + bytes([len(text)]) if len(text) < 256 else b"T" + struct.pack("<i", len(text))) + text

    def integer(value: int) -> bytes:
        if 0 <= value < 256:
            return b"K" + bytes([value])
        return b"M" + struct.pack("<H", value) if 0 <= value < 2**16 else b"J" + struct.pack("<i", value)

    thousands = [labels[k : k + 1000] for k in range(0, len(labels), 1000)]
    items = b"".join(b"(" + b"".join(map(integer, part)) + b"e" for part in thousands)
    dtype = b"cnumpy\ndtype\nq\x0a" + string(b"u1") + b"K\x00K\x01\x87Rq\x0b"
    dtype += b"(K\x03" + string(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85" + string(b"b") + b"\x87Rq\x09"
    extents = b"".join(map(integer, pixels.shape)) + b"\x86"
    array += b"(K\x01" + extents + dtype + b"\x89" + string(pixels.tobytes()) + b"tb"
    names = b"(" + b"".join(string(b"leptodactylus_%d.png" % k) for k in range(3)) + b"e"
    return (
        b"\x80\x02}q\x01("
        + (string(b"batch_label") + b"q\x02" + string(b"training batch 1 of 5") + b"q\x03")
        + (string(b"labels") + b"q\x04]q\x05" + items)
        + (string(b"data") + b"q\x06" + array)
        + (string(b"filenames") + b"]" + names)
        + b"u."
    )


def tar_of(path: Path, names: list[str], content: bytes) -> Path:
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name in ["batches.meta.txt", *names]:
            member = tarfile.TarInfo(f"cifar-10-batches/{name}")
            member.size = len(content) if name in names else 5
            archive.addfile(member, io.BytesIO(content if name in names else b"hello"))
    return path


@pytest.fixture(scope="module")
def batch() -> tuple[np.ndarray, np.ndarray]:
    return batch_arrays()


def assert_batch(found: tuple[np.ndarray, np.ndarray], expected: tuple[np.ndarray, np.ndarray]) -> None:
    assert found[0].tolist() == expected[0].tolist()
    assert np.array_equal(found[1], expected[1])


@given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=3, max_side=6)))
@settings(max_examples=40, deadline=None)
def test_idx_arrays_are_read_as_written(tmp_path_factory, array):
    path = tmp_path_factory.getbasetemp() / "some-ubyte.gz"
    path.write_bytes(gzip.compress(idx(array)))
    found = read_idx(path, dimensions=array.ndim)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, array)


IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
GOOD = gzip.compress(idx(IMAGES))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (GOOD[:-12], "is damaged"),
        (GOOD[:12] + bytes([GOOD[12] ^ 0xFF]) + GOOD[13:], "is damaged"),
        (GOOD[:-6] + bytes([GOOD[-6] ^ 0xFF]) + GOOD[-5:], "is damaged"),  # the checksum
        (idx(IMAGES), "is damaged"),  # never compressed
        (b"", "is not an IDX file|is damaged"),
        (gzip.compress(idx(IMAGES, kind=9)), "is not an IDX file of unsigned bytes with 3 dimensions"),
        (gzip.compress(idx(IMAGES[0])), "is not an IDX file of unsigned bytes with 3 dimensions"),
        (gzip.compress(idx(IMAGES)[:10]), "is not an IDX file"),
        (gzip.compress(idx(IMAGES, shape=(3, 3, 4))), "has 24 bytes after its header, which promises 36"),
        (gzip.compress(idx(IMAGES)[:-1]), "has 23 bytes after its header, which promises 24"),
        (gzip.compress(idx(IMAGES) + b"more"), "has 28 bytes after its header, which promises 24"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_damaged_idx_file_is_named_with_what_is_wrong(tmp_path, content, complaint):
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    with pytest.raises(Corrupt, match=rf"images\.gz ({complaint})"):
        read_idx(path, dimensions=3)


@given(st.binary(max_size=60), st.booleans())
@settings(max_examples=100, deadline=None)
def test_any_bytes_at_all_are_an_idx_array_or_corrupt(tmp_path_factory, content, compressed):
    path = tmp_path_factory.getbasetemp() / "fuzz.gz"
    path.write_bytes(gzip.compress(b"\0\0\x08\x01" + content) if compressed else content)
    with contextlib.suppress(Corrupt):
        assert read_idx(path, dimensions=1).tobytes() == content[4:]


def test_a_binary_batch_is_read_as_written(tmp_path, batch):
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(binary(*batch))
    assert_batch(read_cifar(path), batch)


def test_a_pickled_batch_of_python_2_is_read_as_written(tmp_path, batch):
    labels, pixels = batch
    path = tmp_path / "data_batch_1"
    path.write_bytes(python2_pickle(labels.tolist(), pixels))
    with warnings.catch_warnings():  # our writer must write what a real pickle reader reads
        warnings.simplefilter("ignore")
        real = pickle.loads(path.read_bytes(), encoding="latin1")
    assert_batch((np.array(real["labels"]), real["data"]), batch)
    assert_batch(read_cifar(path), batch)


def test_a_batch_pickled_again_by_python_3_is_read_too(tmp_path, batch):
    labels, pixels = batch
    path = tmp_path / "data_batch_1"
    content = {"batch_label": "training batch 1 of 5", "labels": labels.tolist(), "data": pixels}
    path.write_bytes(pickle.dumps(content, protocol=2))
    assert_batch(read_cifar(path), batch)


@pytest.mark.parametrize("suffix", [".bin", ""])
def test_a_tar_with_six_batches_is_read_in_the_order_of_their_names(tmp_path, batch, suffix):
    labels, pixels = batch
    content = binary(labels, pixels) if suffix else python2_pickle(labels.tolist(), pixels)
    path = tar_of(tmp_path / "cifar.tar.gz", [name + suffix for name in BATCHES], content)
    found_labels, found_pixels = read_cifar(path)
    assert found_pixels.shape == (6 * ROWS, ROW)
    for k in (0, 5):
        rows = slice(k * ROWS, (k + 1) * ROWS)
        assert_batch((found_labels[rows], found_pixels[rows]), batch)


def test_a_tar_with_five_batches_is_refused(tmp_path, batch):
    path = tar_of(tmp_path / "cifar.tar.gz", [f"{name}.bin" for name in BATCHES[:5]], binary(*batch))
    with pytest.raises(Corrupt, match=r"cifar\.tar\.gz holds 5 CIFAR-10 batches instead of 6"):
        read_cifar(path)


def test_a_tar_with_a_short_batch_names_the_batch(tmp_path, batch):
    path = tar_of(tmp_path / "cifar.tar.gz", ["data_batch_1.bin"], binary(*batch)[:-1])
    with pytest.raises(Corrupt, match=r"data_batch_1\.bin in .*cifar\.tar\.gz is not a CIFAR-10 batch"):
        read_cifar(path)


@pytest.mark.parametrize("damage", ["truncated", "not a tar", "empty"])
def test_a_damaged_tar_is_refused(tmp_path, damage):
    path = tar_of(tmp_path / "cifar.tar.gz", ["data_batch_1.bin"], os.urandom(50_000))
    whole = path.read_bytes()
    path.write_bytes({"truncated": whole[:20_000], "not a tar": gzip.compress(b"x" * 2000), "empty": b""}[damage])
    with pytest.raises(Corrupt, match=r"cifar\.tar\.gz is damaged"):
        read_cifar(path)


def with_label(labels: np.ndarray, value: int) -> list[int]:
    return [*labels.tolist()[:-1], value]


@pytest.mark.parametrize(
    "change",
    [
        lambda labels, pixels: binary(labels, pixels)[:-1],
        lambda labels, pixels: binary(labels, pixels) + b"x",
        lambda labels, pixels: binary(labels[1:], pixels[1:]),
        lambda labels, pixels: binary(np.array(with_label(labels, 10), np.uint8), pixels),
        lambda labels, pixels: b"",
    ],
    ids=["a byte short", "a byte long", "a row short", "a label of 10", "empty"],
)
def test_a_wrong_binary_batch_is_refused(tmp_path, batch, change):
    path = tmp_path / "test_batch.bin"
    path.write_bytes(change(*batch))
    with pytest.raises(Corrupt, match=r"test_batch\.bin is not a CIFAR-10 batch of 10000 labelled images"):
        read_cifar(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda labels, pixels: python2_pickle(labels.tolist(), pixels)[:-1],
        lambda labels, pixels: python2_pickle(labels.tolist(), pixels)[:-5_000_000],
        lambda labels, pixels: python2_pickle(labels.tolist()[1:], pixels),
        lambda labels, pixels: python2_pickle(labels.tolist(), pixels[1:]),
        lambda labels, pixels: python2_pickle(with_label(labels, 10), pixels),
        lambda labels, pixels: python2_pickle(with_label(labels, 300), pixels),
        lambda labels, pixels: python2_pickle(with_label(labels, -1), pixels),
        lambda labels, pixels: pickle.dumps({"labels": [], "data": None}, protocol=2),
        lambda labels, pixels: b"",
    ],
    ids=["no end", "truncated", "label short", "row short", "label 10", "label 300", "label -1", "no data", "empty"],
)
def test_a_wrong_pickled_batch_is_refused(tmp_path, batch, change):
    path = tmp_path / "data_batch_3"
    path.write_bytes(change(*batch))
    with pytest.raises(Corrupt, match=r"data_batch_3 is (damaged|not a CIFAR-10 batch)"):
        read_cifar(path)


@given(st.binary(max_size=80), st.integers(0, 300), st.integers(0, 255))
@settings(max_examples=100, deadline=None)
def test_no_bytes_make_the_readers_of_batches_do_anything_but_refuse(tmp_path_factory, noise, place, byte):
    """Noise, and a small pickle with one byte changed: none is a batch of 10,000, so each must be Corrupt."""
    small = bytearray(python2_pickle([1, 2, 3], np.zeros((2, 3), np.uint8)))
    small[place % len(small)] = byte
    for name in ("data_batch_1", "data_batch_1.bin", "cifar.tar.gz"):
        path = tmp_path_factory.getbasetemp() / name
        for content in (noise, bytes(small)):
            path.write_bytes(content)
            with pytest.raises(Corrupt, match=name):
                read_cifar(path)


class _Malice:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (self.command,)


@pytest.mark.parametrize("in_tar", [False, True])
def test_a_malicious_pickle_is_never_executed(tmp_path, batch, in_tar):
    """The batch is well-formed but for a reduce that would touch a file; unpickling it does, reading it must not."""
    labels, pixels = batch
    touched = tmp_path / "touched"
    content = {"trap": _Malice(f"touch {touched}"), "labels": labels.tolist(), "data": pixels}
    raw = pickle.dumps(content, protocol=2)
    pickle.loads(raw)
    assert touched.exists()  # the trap works
    touched.unlink()
    path = tmp_path / "data_batch_1"
    path.write_bytes(raw)
    if in_tar:
        path = tar_of(tmp_path / "cifar.tar.gz", BATCHES, raw)
    found_labels, found_pixels = read_cifar(path)
    assert not touched.exists()
    assert_batch((found_labels[:ROWS], found_pixels[:ROWS]), batch)
