"""Readers in NumPy and in C give the logits of the simulator's quantized model, from packed weights."""

import itertools
import shutil
import subprocess
from importlib.resources import files

import numpy as np
import pytest

from idiolect.contracts import uncompressed
from idiolect.device import predict, read_bundle
from idiolect.export.bundle import bundle_bytes, write_bundle
from idiolect.export.c_source import write_c
from idiolect.export.plans import plan
from idiolect.quantization.layers import named_leaves
from tests.device.fuzz_seeds import write_seeds
from tests.device.small_nets import CLASSES, IMAGES, SHAPE, TABLES, assert_same_logits, built, named, small

SOURCES = files("idiolect.device") / "c"
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion"]
SANITIZED = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


def compiled(out, *sources):
    command = ["gcc", *STRICT, *SANITIZED, f"-I{SOURCES}", *map(str, sources), "-lm", "-o", str(out)]
    subprocess.run(command, check=True)
    return out


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("c") / "run", SOURCES / "idiolect.c", SOURCES / "run.c")


def in_c(program, bundle, images):
    done = subprocess.run([program, bundle], input=images.tobytes(), capture_output=True, check=True)
    assert done.stderr == b""
    return np.frombuffer(done.stdout, np.float32).reshape(len(images), -1)


@needs_gcc
@pytest.mark.parametrize("table", TABLES, ids=named)
def test_every_model_at_every_width(table, tmp_path, program):
    model = built(table)
    for levels, by_output in [*itertools.product((0, 2, 3, 4, 8, 16, 40), [False]), (2, True), (3, True), (9, True)]:
        compressed = small(model, levels, by_output=by_output) if levels else uncompressed(small(model, 4).params)
        write_bundle(tmp_path / "model", compressed, {}, plan(table, compressed.params, SHAPE, CLASSES))
        bundle = read_bundle(tmp_path / "model")
        assert_same_logits(predict(bundle, IMAGES), model, compressed)
        one_by_one = np.concatenate([predict(bundle, image[None]) for image in IMAGES])
        assert_same_logits(one_by_one, model, compressed)
        assert_same_logits(in_c(program, tmp_path / "model", IMAGES), model, compressed)


@needs_gcc
def test_vectors_may_be_quantized_too(tmp_path, program):
    table = {"name": "cnn", "channels": [5], "kernel": 3, "hidden": [11]}
    model = built(table)
    whole = small(model, 4)
    leaves = named_leaves(whole.params)
    vectors = {name: np.unique(leaf) for name, leaf in leaves.items() if leaf.ndim == 1}
    packed = whole._replace(levels={**whole.levels, **vectors})
    write_bundle(tmp_path / "model", packed, {}, plan(table, packed.params, SHAPE, CLASSES))
    assert_same_logits(predict(read_bundle(tmp_path / "model"), IMAGES), model, packed)
    assert_same_logits(in_c(program, tmp_path / "model", IMAGES), model, packed)


def test_bytes_are_scaled_as_in_training(tmp_path):
    compressed = small(built({"name": "mlp"}), 4)
    write_bundle(tmp_path / "model", compressed, {}, plan({"name": "mlp"}, compressed.params, SHAPE, CLASSES))
    pixels, bundle = (IMAGES * 255).astype(np.uint8), read_bundle(tmp_path / "model")
    np.testing.assert_array_equal(predict(bundle, pixels), predict(bundle, pixels.astype(np.float32) / 255))


def test_images_of_another_shape_and_bundles_of_weights_alone_are_refused(tmp_path):
    compressed = small(built({"name": "mlp"}), 4)
    write_bundle(tmp_path / "model", compressed, {}, plan({"name": "mlp"}, compressed.params, SHAPE, CLASSES))
    with pytest.raises(ValueError, match=r"images have shape \(3, 3, 1\), but the model takes \(14, 15, 2\)"):
        predict(read_bundle(tmp_path / "model"), np.zeros((1, 3, 3, 1)))
    write_bundle(tmp_path / "weights", compressed, {})
    with pytest.raises(ValueError, match="does not say what is computed"):
        predict(read_bundle(tmp_path / "weights"), IMAGES)


@needs_gcc
def test_a_model_as_an_array_in_c(tmp_path):
    """What `export --c` writes is compiled with a main of ten lines."""
    table, model = {"name": "mlp"}, built({"name": "mlp"})
    compressed = small(model, 4)
    write_c(tmp_path / "my-phone.c", bundle_bytes(compressed, {}, plan(table, compressed.params, SHAPE, CLASSES)))
    (tmp_path / "main.c").write_text(
        """
#include "idiolect.h"
#include "my-phone.h"
#include <stdio.h>
static float image[14 * 15 * 2], logits[4], workspace[8192];
int main(void) {
    idiolect_model model;
    if (idiolect_open(&model, my_phone, my_phone_size) || model.workspace > 8192 || model.classes != 4) return 1;
    while (fread(image, sizeof image, 1, stdin) == 1) {
        idiolect_predict(&model, image, logits, workspace);
        fwrite(logits, sizeof logits, 1, stdout);
    }
    return 0;
}
"""
    )
    made = tmp_path / "main"
    sources = [tmp_path / name for name in ("main.c", "my-phone.c", "idiolect.c")]
    subprocess.run(["gcc", *STRICT, *SANITIZED, *map(str, sources), "-lm", "-o", str(made)], check=True)
    done = subprocess.run([made], input=IMAGES.tobytes(), capture_output=True, check=True)
    assert_same_logits(np.frombuffer(done.stdout, np.float32).reshape(len(IMAGES), -1), model, compressed)


@needs_gcc
def test_c_refuses_what_python_refuses(tmp_path, program):
    compressed = small(built({"name": "mlp"}), 3)
    content = bundle_bytes(compressed, {}, plan({"name": "mlp"}, compressed.params, SHAPE, CLASSES))
    start = content.index(b"IDM\3")
    infinite = content.index(np.float32(compressed.levels["0.weight"][0]).tobytes(), start)
    cases = {
        "the bundle is too short": b"1234",
        "the header is longer": content[:7] + b"\x7f" + content[8:],
        "there is no program of version 3": content[:start] + b"IDM\2" + content[start + 4 :],
        "the tensors do not fill the bundle": content[:-1],
        "a number is not finite": content[:infinite] + b"\0\0\x80\x7f" + content[infinite + 4 :],
        "a weight is beyond its levels": content[:-8] + b"\xff" * 8,
    }
    for said, spoiled in cases.items():
        (tmp_path / "model").write_bytes(spoiled)
        done = subprocess.run([program, tmp_path / "model"], input="", capture_output=True, check=False, text=True)
        assert done.returncode == 2
        assert said in done.stderr


@needs_gcc
def test_hostile_bundles_are_refused_or_computed(tmp_path):
    """A short form of `make fuzz`, which runs a million."""
    here = files("tests.device")
    fuzzer = compiled(tmp_path / "fuzz", here / "fuzz_reader.c", here / "mutate.c", SOURCES / "idiolect.c")
    seeds = write_seeds(tmp_path / "seeds")
    done = subprocess.run([fuzzer, "5000", *seeds], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "5000 inputs, no finding\n"), done.stderr
