"""ONNX files: a runtime that knows nothing of us gives the logits of the model, from bits that stay packed."""

import sys

import jax
import numpy as np
import onnx
import onnxruntime
import pytest

from idiolect.contracts import Compressed
from idiolect.errors import UserMistake
from idiolect.export.onnx_models import write_onnx
from idiolect.problems.models.networks import cnn, linear, mlp
from idiolect.problems.models.residual import resnet
from idiolect.quantization.layers import named_leaves, replace_leaves
from idiolect.quantization.sizes import bundle_size
from tests.export.compressing import randomly, rounded

SHAPE, CLASSES = (14, 15, 2), 4
MODELS = {"linear": linear, "mlp": mlp, "cnn": cnn, "resnet": resnet}
TABLES = [
    {"name": "linear"},
    {"name": "mlp"},
    {"name": "mlp", "hidden": [17, 29, 15], "activation": "relu"},
    {"name": "mlp", "hidden": [12], "activation": "tanh"},
    {"name": "cnn", "channels": [5, 6], "kernel": 3, "hidden": [11], "dropout": 0.5},
    {"name": "cnn", "channels": [4], "kernel": 4, "hidden": []},
    {"name": "resnet", "depth": 14, "width": 3},
]


def built(table, shape=SHAPE):
    """A model, with an `apply` that is compiled once."""
    model = MODELS[table["name"]](shape, CLASSES, **{key: value for key, value in table.items() if key != "name"})
    return model._replace(apply=jax.jit(model.apply))


def small(model, levels, keep=()):
    """Few-valued parameters, and normalization that lets the images through."""
    params = randomly(model, seed=0)
    leaves = named_leaves(params)
    norms = {name: np.abs(leaf) for name, leaf in leaves.items() if name.endswith("variance")}
    norms |= {name: leaf + 1 for name, leaf in leaves.items() if name.endswith("scale")}
    return rounded(replace_leaves(params, norms), levels, keep)


def session(path, optimized=True):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def assert_same_logits(path, model, compressed, optimized=True):
    light = np.linspace(0.05, 1, 9)[:, None, None, None]
    images = np.random.default_rng(1).uniform(0, light, size=(9, *SHAPE)).astype(np.float32)
    expected = np.asarray(model.apply(compressed.params, images, None))
    scale = np.abs(expected).max()
    assert expected.std(0).max() > 0.02 * scale  # or the images would not matter, and this test neither
    running = session(path, optimized)
    (found,) = running.run(["logits"], {"images": images})
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * scale)
    np.testing.assert_array_equal(found.argmax(1), expected.argmax(1))
    (one,) = running.run(["logits"], {"images": images[:1]})
    assert one.shape == (1, CLASSES)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: "-".join(map(str, table.values())))
def test_a_runtime_gives_the_models_logits(tmp_path, table):
    model = built(table)
    for levels in (2, 4, 7):
        compressed = small(model, levels)
        write_onnx(tmp_path / "model.onnx", compressed, table, SHAPE, CLASSES, {})
        assert_same_logits(tmp_path / "model.onnx", model, compressed)


@pytest.mark.parametrize("table", [{"name": "mlp"}, {"name": "resnet", "depth": 8, "width": 4}], ids=["mlp", "resnet"])
def test_a_runtime_needs_no_optimizer_to_unpack(tmp_path, table):
    model = built(table)
    compressed = small(model, 5, keep=["first", "last"])
    write_onnx(tmp_path / "model.onnx", compressed, table, SHAPE, CLASSES, {})
    assert_same_logits(tmp_path / "model.onnx", model, compressed, optimized=False)


def test_equal_models_are_equal_files(tmp_path):
    for number in range(3):
        compressed, file = small(built({"name": "mlp"}), 4), tmp_path / str(number)
        write_onnx(file, compressed, {"name": "mlp"}, SHAPE, CLASSES, {"algorithm": "qupel", "n": "3"})
    assert len({(tmp_path / str(number)).read_bytes() for number in range(3)}) == 1


def test_normalization_may_be_quantized_too(tmp_path):
    table, images = {"name": "resnet", "depth": 8, "width": 4}, np.ones((1, *SHAPE), np.float32)
    whole, name = small(built(table), 4), "1.0.first.norm.offset"
    packed = whole._replace(levels={**whole.levels, name: np.unique(named_leaves(whole.params)[name])})
    logits = []
    for compressed in (whole, packed):
        write_onnx(tmp_path / "model.onnx", compressed, table, SHAPE, CLASSES, {})
        logits.append(session(tmp_path / "model.onnx").run(["logits"], {"images": images})[0])
    np.testing.assert_allclose(*logits, rtol=1e-5)


def test_models_without_any_codebook_are_written_as_well(tmp_path):
    model = built({"name": "cnn", "kernel": 3, "channels": [3], "hidden": []})
    params = randomly(model, seed=0)
    whole = Compressed(params, params, {})
    write_onnx(tmp_path / "model.onnx", whole, {"name": "cnn"}, SHAPE, CLASSES, {})
    assert_same_logits(tmp_path / "model.onnx", model, whole)


@pytest.mark.parametrize("bits", [1, 2, 3])
@pytest.mark.parametrize(
    ("table", "graph"), [({"name": "mlp"}, 1000), ({"name": "cnn"}, 1250), ({"name": "resnet"}, 4000)]
)
def test_the_weights_stay_packed_in_the_file(tmp_path, table, graph, bits):
    """The graph takes as many bytes as given, and nothing for a weight beyond its bits.

    That is 3.4 % of a residual network of 20 layers at three bits, 4.9 % at two, and 8.3 % at one.
    """
    shape = (32, 32, 3)
    compressed = small(built(table, shape), 2**bits, ["first", "last"])
    write_onnx(tmp_path / "model.onnx", compressed, table, shape, CLASSES, {"algorithm": "qupel", "client": "3"})
    leaves, size = named_leaves(compressed.params), bundle_size(compressed)
    quantized = {leaves[name].size for name in compressed.levels}
    constants = onnx.load(tmp_path / "model.onnx").graph.initializer
    floats = [int(np.prod(c.dims)) for c in constants if c.data_type != onnx.TensorProto.UINT8]
    assert not quantized & set(floats)
    assert sum(len(c.raw_data) for c in constants if c.data_type == onnx.TensorProto.UINT8) == size.planes
    assert (tmp_path / "model.onnx").stat().st_size - size.total < graph


def test_the_file_is_old_enough_for_devices_and_says_where_it_comes_from(tmp_path):
    compressed = small(built({"name": "mlp"}), 4)
    write_onnx(tmp_path / "model.onnx", compressed, {"name": "mlp"}, SHAPE, CLASSES, {"algorithm": "qupel", "n": "3"})
    model = onnx.load(tmp_path / "model.onnx")
    assert model.ir_version <= 9
    assert {opset.domain: opset.version for opset in model.opset_import} == {"": 15, "idiolect": 1}
    assert [function.name for function in model.functions] == ["unpack"]
    assert {entry.key: entry.value for entry in model.metadata_props} == {"algorithm": "qupel", "n": "3"}
    running = session(tmp_path / "model.onnx")
    assert [(i.name, i.shape) for i in running.get_inputs()] == [("images", ["N", *SHAPE])]
    assert [(o.name, o.shape) for o in running.get_outputs()] == [("logits", ["N", CLASSES])]


@pytest.mark.parametrize(
    ("table", "shape", "classes", "said"),
    [
        ({"name": "forest"}, SHAPE, CLASSES, "model.name is 'forest', .* these can: linear, mlp, cnn, resnet"),
        ({}, SHAPE, CLASSES, "model.name is None"),
        ({"name": "mlp", "activation": "sine"}, SHAPE, CLASSES, "activation is 'sine', but must be one of elu, relu"),
        ({"name": "mlp"}, (3, 3, 1), CLASSES, r"0.weight has shape \(420, 80\), but .* need \(9, any\)"),
        ({"name": "mlp"}, SHAPE, 5, r"2.weight has shape \(60, 4\), but .* need \(60, 5\)"),
        ({"name": "cnn"}, SHAPE, CLASSES, r"no layer convolutions.0.weight, so they are not those of the given model"),
        ({"name": "resnet"}, SHAPE, CLASSES, r"layer 0.weight has shape .* need \(any, 3, 3, 2\)"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_with_a_sentence(tmp_path, table, shape, classes, said):
    compressed = small(built({"name": "mlp"}), 2)
    with pytest.raises(UserMistake, match=said):
        write_onnx(tmp_path / "model.onnx", compressed, table, shape, classes, {})
    assert list(tmp_path.iterdir()) == []


def test_a_layer_that_the_model_does_not_have_is_refused(tmp_path):
    compressed = small(built({"name": "mlp"}), 2)
    params = [*compressed.params[:-1], compressed.params[-1] | {"norm": np.zeros(3, np.float32)}]
    with pytest.raises(UserMistake, match=r"'mlp', which has no layer 2\.norm, but the parameters have one"):
        write_onnx(tmp_path / "model.onnx", compressed._replace(params=params), {"name": "mlp"}, SHAPE, CLASSES, {})


def test_without_onnx_the_user_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    compressed = small(built({"name": "linear"}), 2)
    with pytest.raises(UserMistake, match=r"pip install 'idiolect\[onnx\]'"):
        write_onnx(tmp_path / "model.onnx", compressed, {"name": "linear"}, SHAPE, CLASSES, {})
