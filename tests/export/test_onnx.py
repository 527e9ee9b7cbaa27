"""ONNX files: a runtime that knows nothing of us gives the logits of the model, from bits that stay packed."""

import sys

import numpy as np
import onnx
import onnxruntime
import pytest

from idiolect.contracts import Compressed
from idiolect.errors import UserMistake
from idiolect.export.onnx_file import read_texts
from idiolect.export.onnx_graph import bits_in_a_byte
from idiolect.export.onnx_models import write_onnx
from idiolect.export.plans import plan
from idiolect.quantization.layers import named_leaves
from idiolect.quantization.sizes import bundle_size
from tests.device.small_nets import CLASSES, IMAGES, SHAPE, TABLES, assert_same_logits, built, named, small
from tests.export.compressing import randomly


def session(path, optimized=True):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def write(path, compressed, table, about=None, shape=SHAPE, classes=CLASSES):
    write_onnx(path, compressed, plan(table, compressed.params, shape, classes), about or {})


def assert_right(path, model, compressed, optimized=True):
    running = session(path, optimized)
    assert_same_logits(running.run(["logits"], {"images": IMAGES})[0], model, compressed)
    (one,) = running.run(["logits"], {"images": IMAGES[:1]})
    assert one.shape == (1, CLASSES)


@pytest.mark.parametrize("table", TABLES, ids=named)
def test_a_runtime_gives_the_models_logits(tmp_path, table):
    model = built(table)
    for levels, by_output in ((2, False), (4, False), (7, False), (2, True), (7, True)):
        compressed = small(model, levels, by_output=by_output)
        write(tmp_path / "model.onnx", compressed, table)
        assert_right(tmp_path / "model.onnx", model, compressed)


@pytest.mark.parametrize("table", [{"name": "mlp"}, {"name": "resnet", "depth": 8, "width": 4}], ids=["mlp", "resnet"])
def test_a_runtime_needs_no_optimizer_to_unpack(tmp_path, table):
    model = built(table)
    compressed = small(model, 5, keep=["first", "last"])
    write(tmp_path / "model.onnx", compressed, table)
    assert_right(tmp_path / "model.onnx", model, compressed, optimized=False)


def test_equal_models_are_equal_files(tmp_path):
    for number in range(3):
        compressed, file = small(built({"name": "mlp"}), 4), tmp_path / str(number)
        write(file, compressed, {"name": "mlp"}, {"algorithm": "qupel", "n": "3"})
    assert len({(tmp_path / str(number)).read_bytes() for number in range(3)}) == 1


def test_normalization_may_be_quantized_too(tmp_path):
    table, images = {"name": "resnet", "depth": 8, "width": 4}, np.ones((1, *SHAPE), np.float32)
    whole, name = small(built(table), 4), "1.0.first.norm.offset"
    packed = whole._replace(levels={**whole.levels, name: np.unique(named_leaves(whole.params)[name])})
    logits = []
    for compressed in (whole, packed):
        write(tmp_path / "model.onnx", compressed, table)
        logits.append(session(tmp_path / "model.onnx").run(["logits"], {"images": images})[0])
    np.testing.assert_allclose(*logits, rtol=1e-5)


def test_models_without_any_codebook_are_written_as_well(tmp_path):
    model = built({"name": "cnn", "kernel": 3, "channels": [3], "hidden": []})
    params = randomly(model, seed=0)
    whole = Compressed(params, params, {})
    write(tmp_path / "model.onnx", whole, {"name": "cnn"})
    assert_right(tmp_path / "model.onnx", model, whole)


@pytest.mark.parametrize("bits", [1, 2, 3])
@pytest.mark.parametrize(
    ("table", "graph"), [({"name": "mlp"}, 1700), ({"name": "cnn"}, 1900), ({"name": "resnet"}, 5500)]
)
def test_the_weights_stay_packed_in_the_file(tmp_path, table, graph, bits):
    """The graph takes as many bytes as given, and nothing for a weight beyond its bits (three are four)."""
    shape = (32, 32, 3)
    compressed = small(built(table, shape), 2**bits, ["first", "last"])
    write(tmp_path / "model.onnx", compressed, table, {"algorithm": "qupel", "client": "3"}, shape)
    leaves, size = named_leaves(compressed.params), bundle_size(compressed)
    quantized = {leaves[name].size for name in compressed.levels}
    constants = onnx.load(tmp_path / "model.onnx").graph.initializer
    floats = [int(np.prod(c.dims)) for c in constants if c.data_type != onnx.TensorProto.UINT8]
    assert not quantized & set(floats)
    stored = sum(len(c.raw_data) for c in constants if c.data_type == onnx.TensorProto.UINT8)
    assert stored == size.planes * bits_in_a_byte(bits) // bits
    halved = 8 * sum(leaf.size for name, leaf in leaves.items() if name.endswith("norm.mean"))  # two numbers of four
    assert (tmp_path / "model.onnx").stat().st_size - (size.total - size.planes + stored - halved) < graph


def test_a_runtime_does_not_unpack_when_it_loads(tmp_path):
    """What is left after the runtime has computed all that is constant has no floats as large as a quantized layer."""
    table = {"name": "mlp", "hidden": [300, 330, 15], "activation": "relu"}
    compressed = small(built(table), 4)
    write(tmp_path / "model.onnx", compressed, table)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "loaded.onnx")
    onnxruntime.InferenceSession(tmp_path / "model.onnx", options, providers=["CPUExecutionProvider"])
    constants = onnx.load(tmp_path / "loaded.onnx").graph.initializer
    floats = [int(np.prod(c.dims)) for c in constants if c.data_type != onnx.TensorProto.UINT8]
    assert max(floats) <= 256 * 8


def test_a_damaged_file_is_refused_with_a_sentence(tmp_path):
    compressed, path = small(built({"name": "linear"}), 4), tmp_path / "model.onnx"
    write(path, compressed, {"name": "linear"}, {"client": "3"})
    whole = path.read_bytes()
    place = whole.index(np.float32(compressed.levels["0.weight"][0]).tobytes())
    path.write_bytes(whole[:place] + b"\1" + whole[place + 1 :])
    with pytest.raises(UserMistake, match="is damaged: its digest does not match its content"):
        read_texts(path)
    path.write_bytes(b"\xff" + whole)
    with pytest.raises(UserMistake, match=r"is no ONNX file|has no digest"):
        read_texts(path)


def test_the_file_is_old_enough_for_devices_and_says_where_it_comes_from(tmp_path):
    compressed = small(built({"name": "mlp"}), 4)
    write(tmp_path / "model.onnx", compressed, {"name": "mlp"}, {"algorithm": "qupel", "n": 3})
    model = onnx.load(tmp_path / "model.onnx")
    assert model.ir_version <= 9
    assert {opset.domain: opset.version for opset in model.opset_import} == {"": 15, "idiolect": 1}
    assert [function.name for function in model.functions] == ["digits", "meanings", "unpack"]
    told = {"image": "[14, 15, 2]", "bytes_divided_by": "255", "classes": "4"}
    assert read_texts(tmp_path / "model.onnx") == {"algorithm": "qupel", "n": "3"} | told
    running = session(tmp_path / "model.onnx")
    assert [(i.name, i.shape) for i in running.get_inputs()] == [("images", ["N", *SHAPE])]
    assert [(o.name, o.shape) for o in running.get_outputs()] == [("logits", ["N", CLASSES])]


@pytest.mark.parametrize(
    ("table", "shape", "classes", "said"),
    [
        ({"name": "forest"}, SHAPE, CLASSES, "model.name is 'forest', .* exported are linear, mlp, cnn, resnet"),
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
        write(tmp_path / "model.onnx", compressed, table, shape=shape, classes=classes)
    assert list(tmp_path.iterdir()) == []


def test_a_layer_that_the_model_does_not_have_is_refused(tmp_path):
    compressed = small(built({"name": "mlp"}), 2)
    params = [*compressed.params[:-1], compressed.params[-1] | {"norm": np.zeros(3, np.float32)}]
    with pytest.raises(UserMistake, match=r"'mlp', which has no layer 2\.norm, but the parameters have one"):
        write(tmp_path / "model.onnx", compressed._replace(params=params), {"name": "mlp"})


def test_without_onnx_the_user_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    compressed = small(built({"name": "linear"}), 2)
    with pytest.raises(UserMistake, match=r"pip install 'idiolect\[onnx\]'"):
        write(tmp_path / "model.onnx", compressed, {"name": "linear"})
