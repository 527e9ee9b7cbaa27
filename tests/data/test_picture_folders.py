"""Folders of pictures: classes and clients by folder, formats, sizes, and what is wrong with them."""

import sys
from functools import partial

import numpy as np
import pytest

from idiolect import UserMistake, data
from idiolect.data.picture_files import read_picture
from idiolect.problems.data import by_classes
from idiolect.problems.models import linear

GREY = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20
COLOURS = np.arange(36, dtype=np.uint8).reshape(3, 4, 3) * 7


def fill(root, clients=("",), classes=("cat", "dog"), count=4, size=(6, 6)):
    for client in clients:
        for kind, name in enumerate(classes):
            folder = root / client / name
            folder.mkdir(parents=True)
            for number in range(count):
                np.save(folder / f"{number}.npy", np.full(size, 10 * number + kind, np.uint8))
    (root / ".DS_Store").write_text("x")
    return root


def test_formats_without_a_library(tmp_path):
    files = {
        "a.pgm": b"P5\n# made by hand\n4 3\n255\n" + GREY.tobytes(),
        "b.pgm": b"P2\n4 3\n255\n" + b" ".join(str(v).encode() for v in GREY.ravel()),
        "a.ppm": b"P6 4 3 255\n" + COLOURS.tobytes(),
        "b.ppm": b"P3\n4 3\n255\n" + b"\n".join(str(v).encode() for v in COLOURS.ravel()),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        expected = GREY[..., None] if name.endswith("pgm") else COLOURS
        np.testing.assert_array_equal(read_picture(tmp_path / name), expected)
    np.save(tmp_path / "c.npy", GREY / 255)
    np.testing.assert_allclose(read_picture(tmp_path / "c.npy")[..., 0], GREY / 255, rtol=1e-6)
    (tmp_path / "few.pgm").write_bytes(b"P5 2 1 3\n\x00\x03")
    np.testing.assert_array_equal(read_picture(tmp_path / "few.pgm")[..., 0], [[0, 1]])


def test_folders_are_classes_and_a_partition_deals(tmp_path):
    made = data.images(fill(tmp_path, count=10), clients=2, partition=partial(by_classes, classes=1), model=linear)
    images, labels = (np.asarray(made.clients.train.rows[name]) for name in ("image", "label"))
    assert images.dtype == np.uint8
    np.testing.assert_array_equal(images[:, 0, 0, 0] % 10, labels)
    assert sorted(labels.tolist()) == [0] * 10 + [1] * 10
    assert "images: 2 classes: cat, dog" in made.notes


def test_outer_folders_are_clients_if_they_shall_be(tmp_path):
    made = data.images(fill(tmp_path, clients=("zoe", "ann")), by="folder", model=linear)
    assert made.clients.names == ("ann", "zoe")
    assert made.clients.train.rows["image"].shape == (16, 6, 6, 1)


MISTAKES = {
    "no folder": (lambda root: None, {"source": "none"}, "none is no folder"),
    "no pictures": (lambda root: (root / "cat").mkdir(), {}, "has no pictures in folders"),
    "one class": (lambda root: fill(root, classes=("cat",)), {}, "has one class only, cat"),
    "unknown": (fill, {"classes": ["cat"]}, "0.npy is of class 'dog', but classes has cat"),
    "sizes": (lambda root: np.save(fill(root) / "cat" / "9.npy", GREY), {}, "9.npy has shape .3, 4, 1."),
    "a text": (lambda root: (fill(root) / "cat" / "a.txt").write_text("x"), {}, "a.txt must end in one of .npy, .pgm"),
    "damaged": (lambda root: (fill(root) / "cat" / "a.pgm").write_bytes(b"P5 9 9 255\nxx"), {}, "a.pgm is damaged"),
    "no PGM": (lambda root: (fill(root) / "cat" / "a.pgm").write_bytes(b"GIF"), {}, "a.pgm is neither PGM nor PPM"),
    "objects": (
        lambda root: np.save(fill(root) / "cat" / "a.npy", np.array([{}], object), allow_pickle=True),
        {},
        "a.npy is no NPY file of numbers",
    ),
    "beyond 1": (lambda root: np.save(fill(root) / "cat" / "a.npy", GREY / 2), {}, "a.npy has floats beyond"),
    "too deep": (lambda root: fill(root, clients=("ann",)), {}, "say by = 'folder' for client/class/picture"),
    "few": (lambda root: fill(root, clients=("ann",), count=1), {"by": "folder"}, "client 'ann' has 2 images .*0.npy"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_name_the_file(name, tmp_path):
    prepare, options, said = MISTAKES[name]
    prepare(tmp_path)
    clients = {} if "by" in options else {"clients": 2}
    with pytest.raises(UserMistake, match=said):
        data.images(**{"source": tmp_path, "model": linear, **clients, **options})


def test_without_pillow_other_formats_say_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    (fill(tmp_path) / "cat" / "a.png").write_bytes(b"\x89PNG")
    with pytest.raises(UserMistake, match=r"a.png is read by Pillow; pip install 'idiolect\[images\]'"):
        data.images(tmp_path, clients=2)


def test_pillow_reads_and_resizes(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed: pip install 'idiolect[images]'")
    fill(tmp_path, size=(12, 12))
    image.fromarray(COLOURS).save(tmp_path / "cat" / "a.png")
    (tmp_path / "cat" / "b.ppm").write_bytes(b"P6 4 3 255\n" + COLOURS.tobytes())
    np.testing.assert_array_equal(read_picture(tmp_path / "cat" / "a.png"), COLOURS)
    made = data.images(tmp_path, clients=2, size=(8, 10), channels=3, model=linear)
    pixels = np.asarray(made.clients.train.rows["image"])
    assert pixels.shape == (10, 8, 10, 3)
    grey = data.images(tmp_path, clients=2, size=(3, 4), channels=1, model=linear)
    weights = [0.299, 0.587, 0.114]
    expected = (COLOURS @ np.array(weights)).astype(np.uint8)
    assert any(
        np.abs(one[..., 0].astype(int) - expected).max() <= 1 for one in np.asarray(grey.clients.train.rows["image"])
    )
    (tmp_path / "cat" / "c.png").write_bytes(b"\x89PNG broken")
    with pytest.raises(UserMistake, match=r"c.png cannot be read"):
        data.images(tmp_path, clients=2)
