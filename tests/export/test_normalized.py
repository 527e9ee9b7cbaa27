"""Normalization on the way out: what a client calibrated is what its files hold (slow: residual nets compile long)."""

import jax
import numpy as np
import onnxruntime
import pytest

import idiolect
from idiolect.device import predict, read_bundle
from idiolect.export.bundle import write_bundle
from idiolect.export.onnx_models import write_onnx
from idiolect.export.plans import plan
from idiolect.problems.data.datasets import load_images
from idiolect.problems.data.partitions import by_classes
from idiolect.problems.images import classification
from idiolect.problems.models.residual import resnet
from idiolect.quantization.layers import named_leaves

pytestmark = pytest.mark.slow
TABLE = {"name": "resnet", "depth": 8, "width": 4}


@pytest.mark.parametrize("keep", [["first", "last", "vectors"], ["first", "last"]], ids=["usual", "vectors-too"])
def test_a_quantized_residual_net_leaves_with_its_client_s_statistics(keep, tmp_path):
    model = resnet((8, 8, 1), 10, depth=8, width=4)
    problem = classification("digits", load_images("digits"), model, by_classes(classes=3), clients=2, samples=300)
    objective = {"bits": 2, "keep": keep, "lambda_p": 0.1, "step_size": 0.05}
    result = idiolect.learn(problem, "qupel", objective=objective, step_size=0.5, horizon=12, points=1)
    first, second = result.compressed(0), result.compressed(1)
    assert not np.allclose(first.params[0]["norm"]["mean"], second.params[0]["norm"]["mean"])
    np.testing.assert_array_equal(result.params[0]["norm"]["mean"], 0)  # nothing of it has travelled
    assert not any(name.endswith(("mean", "variance")) for name in first.levels)
    assert any(name.endswith("scale") for name in first.levels) == ("vectors" not in keep)

    write_bundle(tmp_path / "m.safetensors", first, {})
    for name, leaf in read_bundle(tmp_path / "m.safetensors").params.items():
        np.testing.assert_array_equal(leaf, named_leaves(first.params)[name])
    steps = plan(TABLE, first.params, (8, 8, 1), 10)
    write_onnx(tmp_path / "m.onnx", first, steps, {})
    write_bundle(tmp_path / "runs.safetensors", first, {}, steps)
    images = np.random.default_rng(0).uniform(size=(20, 8, 8, 1)).astype(np.float32)
    logits = np.asarray(jax.jit(model.apply)(first.params, images, None))
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"images": images})[0], logits, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(
        predict(read_bundle(tmp_path / "runs.safetensors"), images), logits, rtol=1e-3, atol=1e-3
    )
