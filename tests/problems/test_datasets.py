"""Data sets by name: where they are looked for, in which order, and what is said when they are nowhere."""

import gzip
from pathlib import Path

import numpy as np
import pooch
import pytest

from idiolect.errors import UserMistake
from idiolect.problems.data.datasets import SOURCES, data_folders, digits, load_images
from tests.problems.test_image_files import BATCHES, binary, idx

IDX = [f"{part}-{kind}.gz" for part in ("train", "t10k") for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")]


def write_mnist(folder: Path, mark: int = 1, leave_out: str | None = None) -> None:
    """A tiny complete copy whose images all have the value `mark`: three training samples and two test samples."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in IDX:
        count = 3 if file.startswith("train") else 2
        array = np.full((count, 28, 28), mark, np.uint8) if "images" in file else np.arange(count, dtype=np.uint8)
        if file != leave_out:
            (folder / file).write_bytes(gzip.compress(idx(array)))


def mark_of(name: str, folder: Path | None = None) -> int:
    return int(load_images(name, folder).pixels[0, 0, 0, 0])


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """A cache of the test's own, no variable set, and no network."""
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache" / name)
    monkeypatch.delenv("IDIOLECT_DATA", raising=False)

    def no_network(address: str, *args: object, **options: object) -> None:
        raise ConnectionError(f"no network for {address}")

    monkeypatch.setattr(pooch, "retrieve", no_network)
    return tmp_path / "cache" / "idiolect"


def test_digits_need_no_file_and_are_small_grey_images_between_0_and_1():
    images = digits()
    assert images.pixels.shape == (len(images.labels), 8, 8, 1)
    assert images.pixels.dtype == np.float32
    assert (images.pixels.min(), images.pixels.max()) == (0, 1)
    assert sorted(set(images.labels.tolist())) == list(range(10))
    assert np.array_equal(load_images("digits").pixels, images.pixels)


@pytest.mark.parametrize(
    ("name", "below"),
    [
        ("mnist", "mnist"),
        ("mnist", "MNIST/raw"),
        ("mnist", "."),
        ("fashion_mnist", "fashion_mnist"),
        ("fashion_mnist", "fashion-mnist"),
        ("fashion_mnist", "FashionMNIST/raw"),
    ],
)
def test_training_and_test_samples_are_pooled_from_any_usual_layout(tmp_path, name, below):
    write_mnist(tmp_path / "data" / below, mark=9)
    images = load_images(name, tmp_path / "data")
    assert images.pixels.shape == (5, 28, 28, 1)
    assert images.pixels.dtype == np.uint8
    assert images.labels.tolist() == [0, 1, 2, 0, 1]
    assert (images.pixels == 9).all()


def test_loose_files_of_mnist_are_never_taken_for_fashion_mnist(tmp_path):
    write_mnist(tmp_path / "data")
    with pytest.raises(UserMistake, match="fashion_mnist"):
        load_images("fashion_mnist", tmp_path / "data")


def test_folders_are_searched_in_order_the_named_one_the_variable_s_the_cache(tmp_path, monkeypatch, cache):
    named, variable = tmp_path / "named", tmp_path / "variable"
    monkeypatch.setenv("IDIOLECT_DATA", str(variable))
    assert data_folders(named) == [named, variable, cache]
    write_mnist(cache / "mnist", mark=3)
    assert mark_of("mnist", named) == 3
    write_mnist(variable / "mnist", mark=2)
    assert mark_of("mnist", named) == 2
    write_mnist(named / "mnist", mark=1)
    assert mark_of("mnist", named) == 1
    assert mark_of("mnist") == 2


def test_an_incomplete_copy_is_passed_over(tmp_path, cache):
    write_mnist(tmp_path / "named" / "mnist", mark=1, leave_out=IDX[3])
    write_mnist(cache / "mnist", mark=3)
    assert mark_of("mnist", tmp_path / "named") == 3


def test_the_variable_may_speak_of_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("IDIOLECT_DATA", "~/data")
    write_mnist(tmp_path / "data" / "mnist", mark=7)
    assert mark_of("mnist") == 7


@pytest.mark.parametrize("name", SOURCES)
def test_missing_data_is_reported_with_what_where_and_how(tmp_path, monkeypatch, cache, name):
    monkeypatch.setenv("IDIOLECT_DATA", str(tmp_path / "variable"))
    with pytest.raises(UserMistake) as mistake:
        load_images(name, tmp_path / "named")
    files = [address.rsplit("/", 1)[1] for address in SOURCES[name].downloads]
    places = [str(tmp_path / "named"), str(tmp_path / "variable"), str(cache)]
    for needle in [name, *files, *places, "ConnectionError", "--data-dir", "IDIOLECT_DATA"]:
        assert needle in str(mistake.value)
    assert "\n" not in str(mistake.value)


def test_what_is_nowhere_is_fetched_into_the_cache_with_its_checksums(tmp_path, monkeypatch, cache):
    write_mnist(tmp_path / "remote", mark=5)
    fetched = {}

    def retrieve(address: str, checksum: str, *, fname: str, path: Path) -> None:
        fetched[address] = checksum
        Path(path).mkdir(parents=True, exist_ok=True)
        (Path(path) / fname).write_bytes((tmp_path / "remote" / fname).read_bytes())

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    assert mark_of("mnist", tmp_path / "named") == 5
    assert fetched == SOURCES["mnist"].downloads
    assert sorted(file.name for file in (cache / "mnist").iterdir()) == sorted(IDX)


@pytest.mark.parametrize("name", SOURCES)
def test_every_download_has_a_checksum_and_together_they_complete_a_layout(name):
    source = SOURCES[name]
    assert all(len(checksum) == len("md5:") + 32 for checksum in source.downloads.values())
    assert {address.rsplit("/", 1)[1] for address in source.downloads} == set(source.layouts[0][1])


def test_a_damaged_file_is_named_in_one_sentence(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / IDX[2]).write_bytes(b"nonsense")
    with pytest.raises(UserMistake, match=rf"mnist: .*{IDX[2]} is damaged"):
        load_images("mnist", tmp_path)


def test_images_without_labels_are_refused(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / IDX[1]).write_bytes(gzip.compress(idx(np.zeros(2, np.uint8))))
    with pytest.raises(UserMistake, match=rf"{IDX[0]} has 3 images for 2 labels"):
        load_images("mnist", tmp_path)


def test_cifar_pixels_come_as_rows_columns_and_colours(tmp_path):
    """A file holds a red, a green and a blue plane of 32 rows; the six batches follow each other."""
    pixels = np.zeros((10_000, 3, 32, 32), np.uint8)
    pixels[:, 0], pixels[:, 1], pixels[:, 2] = 10, 20, 30
    pixels[:, 1, 4, 9] = 99
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for number, batch in enumerate(BATCHES):
        labels = np.full(10_000, number, np.uint8)
        (folder / f"{batch}.bin").write_bytes(binary(labels, pixels.reshape(10_000, -1)))
    images = load_images("cifar10", tmp_path)
    assert images.pixels.shape == (60_000, 32, 32, 3)
    assert images.pixels[59_999, 0, 0].tolist() == [10, 20, 30]
    assert images.pixels[0, 4, 9].tolist() == [10, 99, 30]
    assert images.labels[::10_000].tolist() == [0, 1, 2, 3, 4, 5]


def test_files_that_lie_one_folder_too_high_are_found_for_the_user(tmp_path):
    """Those of MNIST have the same names, so that a folder of both must tell them apart."""
    write_mnist(tmp_path)
    with pytest.raises(UserMistake, match=rf"lie in {tmp_path}, but must lie in its folder fashion_mnist"):
        load_images("fashion_mnist", tmp_path)
    with pytest.raises(UserMistake, match=r"not found in .*there in fashion_mnist, fashion-mnist, FashionMNIST/raw"):
        load_images("fashion_mnist", tmp_path / "elsewhere")
