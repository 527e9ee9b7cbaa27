"""Nets of every kind with few values, for tests that run them: in the simulator, in NumPy, in C and in ONNX."""

import jax
import numpy as np

from idiolect.problems.models import cnn, linear, mlp, resnet
from idiolect.quantization.layers import named_leaves, replace_leaves
from tests.export.compressing import randomly, rounded

SHAPE, CLASSES = (14, 15, 2), 4
MODELS = {"linear": linear, "mlp": mlp, "cnn": cnn, "resnet": resnet}
TABLES = [
    {"name": "linear"},
    {"name": "mlp"},
    {"name": "mlp", "hidden": [300, 330, 15], "activation": "relu"},
    {"name": "mlp", "hidden": [12], "activation": "tanh"},
    {"name": "cnn", "channels": [5, 6], "kernel": 3, "hidden": [11], "dropout": 0.5},
    {"name": "cnn", "channels": [4], "kernel": 4, "hidden": []},
    {"name": "resnet", "depth": 14, "width": 3},
]
IMAGES = np.random.default_rng(1).uniform(0, np.linspace(0.05, 1, 9)[:, None, None, None], (9, *SHAPE))
IMAGES = IMAGES.astype(np.float32)


def named(table):
    return "-".join(map(str, table.values()))


def built(table, shape=SHAPE):
    """A model, with an `apply` that is compiled once."""
    model = MODELS[table["name"]](shape, CLASSES, **{key: value for key, value in table.items() if key != "name"})
    return model._replace(apply=jax.jit(model.apply))


def small(model, levels, keep=(), by_output=False):
    """Few-valued parameters, and normalization that lets the images through."""
    params = randomly(model, seed=0)
    leaves = named_leaves(params)
    norms = {name: np.abs(leaf) for name, leaf in leaves.items() if name.endswith("variance")}
    norms |= {name: leaf + 1 for name, leaf in leaves.items() if name.endswith("scale")}
    return rounded(replace_leaves(params, norms), levels, keep, by_output)


def assert_same_logits(found, model, compressed):
    expected = np.asarray(model.apply(compressed.params, IMAGES, None))
    scale = np.abs(expected).max()
    assert expected.std(0).max() > 0.02 * scale  # or the images would not matter, and this test neither
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * scale)
    np.testing.assert_array_equal(found.argmax(1), expected.argmax(1))
