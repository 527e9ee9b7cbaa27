"""Bundles: what is written comes back exactly, in the size that was promised."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from idiolect import device
from idiolect.contracts import Compressed
from idiolect.device import BundleError, read_bundle
from idiolect.device.bundle_text import describe
from idiolect.errors import UserMistake
from idiolect.export.bundle import write_bundle
from idiolect.export.plans import plan
from idiolect.problems.models.networks import cnn, mlp
from idiolect.problems.models.residual import resnet
from idiolect.quantization.layers import named_leaves
from idiolect.quantization.sizes import bundle_size
from tests.export.compressing import randomly, rounded

ABOUT = {"algorithm": "qupel", "client": "3", "model": '{"name": "mlp"}', "note": 'a "quoted"\nline, ünïcode \x1f'}


def small(levels: int = 3, seed: int = 0) -> Compressed:
    return rounded(randomly(mlp((2, 2, 1), 3, hidden=(5,)), seed), levels)


@given(st.integers(1, 40), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_a_bundle_gives_back_exactly_what_was_written(tmp_path_factory, levels, seed):
    path = tmp_path_factory.mktemp("bundle") / "model.safetensors"
    compressed = small(levels, seed)
    write_bundle(path, compressed, ABOUT)
    bundle = read_bundle(path)
    expected = named_leaves(compressed.params)
    assert set(bundle.params) == set(expected)
    for name, leaf in expected.items():
        assert bundle.params[name].dtype == np.float32
        np.testing.assert_array_equal(bundle.params[name], leaf)
    assert bundle.levels.keys() == compressed.levels.keys()
    for name, values in compressed.levels.items():
        np.testing.assert_array_equal(bundle.levels[name], values)
    assert bundle.about == ABOUT


def test_levels_may_repeat_and_layers_may_be_single_numbers(tmp_path):
    weights = np.array([[1, -2, 1], [0, 1, -2]], np.float32)
    params = {"a": weights, "b": np.array(7, np.float32), "c": np.array(2, np.float32)}
    levels = {"a": np.array([-2.0, -2.0, 0.0, 1.0, 1.0]), "c": np.array([2.0])}
    write_bundle(tmp_path / "model", Compressed(params, params, levels), {})
    found = read_bundle(tmp_path / "model")
    for name, leaf in params.items():
        np.testing.assert_array_equal(found.params[name], leaf, strict=True)
    assert found.levels["a"].tolist() == [-2, -2, 0, 1, 1]


def test_equal_models_are_equal_files_and_any_safetensors_reader_reads_them(tmp_path):
    for number in range(5):
        write_bundle(tmp_path / str(number), small(), ABOUT)
    assert len({(tmp_path / str(number)).read_bytes() for number in range(5)}) == 1
    tensors, leaves = load_file(tmp_path / "0"), named_leaves(small().params)
    assert sorted(tensors) == ["codes", "numbers", "program"]
    held = [small().levels.get(name, leaf) for name, leaf in leaves.items()]
    np.testing.assert_array_equal(tensors["numbers"], np.concatenate([np.ravel(values) for values in held]))
    assert len(tensors["codes"]) == bundle_size(small()).planes


@pytest.mark.parametrize("levels", [2, 3, 4, 8, 16])
def test_the_payload_is_as_small_as_promised(levels):
    params = randomly(cnn((28, 28, 1), 10), 0)
    compressed = rounded(params, levels, keep=["first", "last"])
    size, leaves = bundle_size(compressed), named_leaves(params)
    weights = sum(leaves[name].size for name in compressed.levels)
    bits = int(np.ceil(np.log2(levels)))
    assert weights * bits / 8 <= size.planes <= weights * bits / 8 * 1.001
    assert size.codebooks == 4 * levels * len(compressed.levels)
    assert size.full_precision == 4 * sum(leaf.size for name, leaf in leaves.items() if name not in compressed.levels)
    assert size.total == size.planes + size.codebooks + size.full_precision


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_the_header_of_a_residual_network_is_within_five_percent_of_its_bits(tmp_path, bits):
    """The file takes its weights at their width plus at most 5 %, its levels, its other layers, and nothing else."""
    params = jax.tree.map(np.abs, randomly(resnet((32, 32, 3), 4), 0))
    compressed = rounded(params, 2**bits, keep=["first", "last"])
    write_bundle(tmp_path / "model", compressed, {"algorithm": "qupel", "client": "3"})
    size, leaves = bundle_size(compressed), named_leaves(compressed.params)
    packed = bits * sum(leaves[name].size for name in compressed.levels) / 8
    assert (tmp_path / "model").stat().st_size <= 1.05 * packed + size.codebooks + size.full_precision
    assert 0 < (tmp_path / "model").stat().st_size - size.total < 1500  # with almost 100 leaves
    steps = plan({"name": "resnet"}, compressed.params, (32, 32, 3), 4)
    write_bundle(tmp_path / "runs", compressed, {"algorithm": "qupel", "client": "3"}, steps)
    # Two numbers a filter instead of four, of 19 normalized layers with 688 filters.
    assert 0 < (tmp_path / "runs").stat().st_size - (size.total - 8 * 688) < 1500


@pytest.mark.parametrize("levels", [2, 8])
@pytest.mark.parametrize("model", [mlp((2, 2, 1), 3, hidden=(5,)), mlp((32, 32, 3), 10), cnn((28, 28, 1), 10)])
def test_the_header_of_a_small_model_takes_some_500_bytes(tmp_path, model, levels):
    """Which may well be more than 5 % of it."""
    compressed = rounded(randomly(model, 0), levels)
    write_bundle(tmp_path / "model", compressed, {"algorithm": "qupel"})
    assert 400 < (tmp_path / "model").stat().st_size - bundle_size(compressed).total < 550


def test_a_model_of_more_layers_than_a_reader_would_list_is_refused(tmp_path):
    many = {f"{n:01000}": np.ones(1, np.float32) for n in range(1050)}
    with pytest.raises(UserMistake, match="list of the model's 1050 layers is longer than the 1048576 bytes"):
        write_bundle(tmp_path / "model", Compressed(many, many, {}), {})


def test_what_cannot_be_stored_is_refused_with_a_sentence(tmp_path):
    good = small()
    name = next(iter(good.levels))
    cases = [
        (good._replace(levels={**good.levels, name: np.array([0.0, np.nan])}), "has a level that is not finite"),
        (good._replace(params=jax.tree.map(lambda x: x + np.inf, good.params)), "has a weight that is not finite"),
        (good._replace(levels={**good.levels, name: np.array([0.0])}), "a weight that is none of its 1 levels"),
        (good._replace(levels={**good.levels, name: np.zeros(0)}), "has no weights or no levels"),
        (good._replace(levels={**good.levels, name: np.zeros((1, 1))}), "must be a list of numbers"),
        (good._replace(levels={"9.weight": np.zeros(1)}), "levels for layer 9.weight, but the model has only 0.bias"),
    ]
    for compressed, said in cases:
        with pytest.raises(UserMistake, match=said):
            write_bundle(tmp_path / "model", compressed, {})
    with pytest.raises(UserMistake, match="cannot be written: No such file or directory"):
        write_bundle(tmp_path / "nowhere" / "model", good, {})
    assert list(tmp_path.iterdir()) == []


def test_more_levels_than_a_byte_tells_apart_are_refused(tmp_path):
    weights = {"a": np.arange(300, dtype=np.float32)}
    with pytest.raises(UserMistake, match="layer a has 300 levels, but a bundle can have 256 in a codebook"):
        write_bundle(tmp_path / "model", Compressed(weights, weights, {"a": weights["a"]}), {})


def test_the_reader_is_a_folder_that_needs_numpy_alone(tmp_path):
    folder = Path(device.__file__).parent
    for source in folder.glob("*.py"):
        tree = ast.parse(source.read_text("utf-8"))
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level}
        allowed = {"numpy", "cryptography"} if source.name == "signatures.py" else {"numpy"}
        assert {name.split(".")[0] for name in names} - set(sys.stdlib_module_names) <= allowed

    compressed = small()
    write_bundle(tmp_path / "model", compressed, ABOUT)
    shutil.copytree(folder, tmp_path / "gadget")
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import gadget\n"
        "print(sum(float(x.sum()) for x in gadget.read_bundle(sys.argv[1] + '/model').params.values()))\n"
        "print({'idiolect', 'jax', 'safetensors', 'cryptography'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", script, tmp_path], capture_output=True, text=True, check=True)
    total, loaded = done.stdout.splitlines()
    expected = sum(float(leaf.sum()) for leaf in named_leaves(compressed.params).values())
    assert float(total) == pytest.approx(expected, abs=1e-4)
    assert loaded == "set()"


def test_what_is_printed_cannot_move_a_cursor(tmp_path):
    weights = {"evil\x1b[2J\nname": np.ones(2, np.float32)}
    write_bundle(tmp_path / "model", Compressed(weights, weights, {}), {"note": "\x1b]0;title\x07\r\nmore\u202e"})
    told = describe(read_bundle(tmp_path / "model"))
    assert all(character.isprintable() or character == "\n" for character in told)
    assert "evil\\x1b[2J\\nname" in told
    assert len(told.splitlines()) == 3


def test_pipes_and_devices_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", tmp_path):
        with pytest.raises(BundleError, match="is no regular file"):
            read_bundle(path)
