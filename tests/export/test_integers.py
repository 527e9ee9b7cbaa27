"""Graphs of integers: what moves, and how far."""

import numpy as np
import onnx
import onnxruntime
import pytest

from idiolect.errors import UserMistake
from idiolect.export.eight_bits import int8_bytes
from idiolect.export.four_bit_grids import fit_grid
from idiolect.export.onnx_models import onnx_bytes
from idiolect.export.plans import plan
from tests.device.small_nets import CLASSES, IMAGES, SHAPE, built, small

TABLE = {"name": "mlp", "hidden": [40, 30], "activation": "relu"}


def logits(content):
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run(None, {"images": IMAGES})[0]


def gap(content, model, compressed):
    """The largest difference of a logit, relative to the largest logit."""
    expected = np.asarray(model.apply(compressed.params, IMAGES, None))
    return np.abs(logits(content) - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize("levels", [[-0.3], [-0.2, 0.7], [-3.0, -1.0, 1.0, 3.0], list(np.linspace(-0.1, 0.2, 16))])
def test_levels_that_lie_on_a_grid_stay_where_they_are(levels):
    scale, zero, places = fit_grid(np.array(levels), np.ones(len(levels)))
    np.testing.assert_allclose(scale * (places - zero), levels, atol=1e-12)
    assert places.max() <= 15


def test_others_move_to_the_best_line_through_them():
    """Against a search over every choice of places for four levels, each with its least squares."""
    rng = np.random.default_rng(0)
    levels, counts = np.sort(rng.normal(size=4)), rng.integers(1, 100, 4)
    scale, zero, places = fit_grid(levels, counts)
    found = (counts * (scale * (places - zero) - levels) ** 2).sum()
    least = np.inf
    for middle in np.ndindex(16, 16):
        chosen = np.array([0, *sorted(middle), 15])
        line = np.polyfit(chosen, levels, 1, w=np.sqrt(counts))
        least = min(least, (counts * (np.polyval(line, chosen) - levels) ** 2).sum())
    assert found <= 4 * least + 1e-12
    assert np.sqrt(found / counts.sum()) < 0.05 * np.ptp(levels)


@pytest.mark.parametrize("by_output", [False, True])
@pytest.mark.parametrize(("levels", "most"), [(2, 1e-4), (4, 0.05), (16, 0.1)])
def test_four_bits_move_logits_little_and_two_levels_not_at_all(levels, most, by_output):
    model = built(TABLE)
    compressed = small(model, levels, by_output=by_output)
    content = onnx_bytes(compressed, plan(TABLE, compressed.params, SHAPE, CLASSES), {}, form="int4")
    assert {node.op_type for node in onnx.load_from_string(content).graph.node} >= {"MatMulNBits"}
    assert gap(content, model, compressed) < most


@pytest.mark.parametrize("table", [TABLE, {"name": "cnn", "channels": [5], "kernel": 3, "hidden": [11]}])
def test_eight_bits_after_training_for_any_model(table):
    model = built(table)
    compressed = small(model, 16)
    content = int8_bytes(compressed, plan(table, compressed.params, SHAPE, CLASSES), {"client": 3}, IMAGES)
    loaded = onnx.load_from_string(content)
    assert {"QuantizeLinear", "DequantizeLinear"} <= {node.op_type for node in loaded.graph.node}
    floats = [c for c in loaded.graph.initializer if c.data_type == onnx.TensorProto.FLOAT and np.prod(c.dims) > 100]
    assert not floats
    assert {entry.key: entry.value for entry in loaded.metadata_props}["client"] == "3"
    assert gap(content, model, compressed) < 0.5


def test_eight_bits_need_images():
    compressed = small(built(TABLE), 4)
    with pytest.raises(UserMistake, match="int8 needs images of the client"):
        int8_bytes(compressed, plan(TABLE, compressed.params, SHAPE, CLASSES), {}, IMAGES[:0])
