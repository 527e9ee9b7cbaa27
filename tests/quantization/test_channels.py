"""A codebook for each output, and widths of some layers: every rule says of each what it says of one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect.catalog import algorithm
from idiolect.contracts import Oracle
from idiolect.device import read_bundle
from idiolect.errors import UserMistake
from idiolect.export.bundle import write_bundle
from idiolect.objectives import binary_relax, post_training, quantized
from idiolect.objectives.relaxation import fit_scale
from idiolect.problems.synthetic import quadratics
from idiolect.quantization.channels import by_output
from idiolect.quantization.codebooks import first_levels
from idiolect.quantization.layers import named_leaves
from idiolect.quantization.personal import compress
from idiolect.quantization.proximal_maps import clip_levels, draw_levels, draw_weights
from idiolect.quantization.quantizers import distance, hard, nearest, put, soft
from idiolect.quantization.sizes import bundle_size

SHAPES = [(7, 3), (3, 2, 2, 5)]  # a matrix with three outputs, and a kernel with three filters
RULES = {
    "nearest": (nearest, "weights"),
    "hard": (hard, "weights"),
    "soft": (lambda x, c: soft(x, c, 20.0), "weights"),
    "put": (lambda x, c: put(x, c, 2 * c), "weights"),
    "draw_weights": (lambda x, c: draw_weights(x, c, 0.1), "weights"),
    "draw_levels": (lambda x, c: draw_levels(x, c, c + 0.01, 0.02), "levels"),
    "clip_levels": (lambda x, c: clip_levels(x, c, c + 0.2, c), "levels"),
    "fit_scale": (fit_scale, "levels"),
    "distance": (distance, "number"),
}


def drawn(shape, levels=4):
    rng = np.random.default_rng(len(shape))
    return jnp.asarray(rng.normal(size=shape)), jnp.sort(jnp.asarray(rng.normal(size=(3, levels))), axis=1)


def output(x, number):
    return x[number] if x.ndim == 4 else x[:, number]


@pytest.mark.parametrize(
    "shape", [SHAPES[0], pytest.param(SHAPES[1], marks=pytest.mark.slow)], ids=["matrix", "kernel"]
)
@pytest.mark.parametrize("name", RULES)
def test_a_rule_for_a_layer_is_the_rule_for_each_output(name, shape):
    rule, gives = RULES[name]
    x, c = drawn(shape)
    found, each = rule(x, c), [rule(output(x, k), c[k]) for k in range(3)]
    if gives == "number":
        np.testing.assert_allclose(found, sum(map(float, each)), rtol=1e-6)
        return
    for k in range(3):
        np.testing.assert_allclose(output(found, k) if gives == "weights" else found[k], each[k], atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES, ids=["matrix", "kernel"])
def test_more_levels_than_are_compared_one_by_one(shape):
    x, c = drawn(shape, levels=20)
    for k in range(3):
        np.testing.assert_array_equal(output(hard(x, c), k), hard(output(x, k), c[k]))


def test_levels_begin_at_each_outputs_own_weights():
    x = jnp.stack([jnp.array([0.0, 0.0, 1.0, 1.0]), jnp.array([-5.0, -5.0, 7.0, 7.0])], axis=1)
    np.testing.assert_allclose(first_levels(x, 2, "kmeans", "channel"), [[0.0, 1.0], [-5.0, 7.0]], atol=1e-6)
    assert first_levels(x[:, 0], 2, "kmeans", "channel").shape == (2,), "a vector has one codebook"
    np.testing.assert_array_equal(by_output(x)[1], x[:, 1])


PARAMS = {
    "first": jnp.asarray(np.random.default_rng(0).normal(size=(6, 5)), jnp.float32),
    "second": jnp.asarray(np.random.default_rng(1).normal(size=(5, 4)), jnp.float32),
    "bias": jnp.zeros(4),
}


@pytest.mark.parametrize("objective", [quantized, binary_relax, post_training])
def test_layers_and_outputs_have_the_levels_that_are_said(objective):
    chosen = objective(bits=2, keep=["vectors"], layer_bits={"f*": 3}, codebooks="channel")
    own = chosen.begin(PARAMS, 0, jax.random.key(0))
    assert {name: levels.shape for name, levels in own.levels.items()} == {"first": (5, 8), "second": (4, 4)}
    alone = objective(bits=1, keep=["vectors"], layer_bits={"first": 4, "*": 2}).begin(PARAMS, 0, jax.random.key(0))
    assert {name: levels.shape for name, levels in alone.levels.items()} == {"first": (16,), "second": (4,)}
    whole = objective(bits=32, keep=["vectors"], layer_bits={"first": 4}).begin(PARAMS, 0, jax.random.key(0))
    assert whole.levels == {}


def test_a_pattern_for_no_layer_and_levels_by_hand_are_refused():
    with pytest.raises(UserMistake, match=r"objective.layer_bits has 'third', which matches none of the layers that"):
        quantized(layer_bits={"third": 2}, keep=["vectors"]).begin(PARAMS, 0, jax.random.key(0))
    with pytest.raises(UserMistake, match=r"and then objective.centers must be quantiles or kmeans"):
        quantized(layer_bits={"first": 2}, centers=[-1.0, 1.0], bits=1)
    options = {"layer_bits": {"first": 0}}
    with pytest.raises(UserMistake, match="layer_bits"):
        algorithm("qupel", quadratics(clients=2), objective=options, local_steps=1, step_size=0.1, batch_size=1)


def test_the_model_is_stored_with_its_codebooks_and_takes_what_is_told(tmp_path):
    own = quantized(bits=2, keep=["vectors"], layer_bits={"first": 3}, codebooks="channel").begin(
        PARAMS, 0, jax.random.key(0)
    )
    model = compress(own)
    write_bundle(tmp_path / "model", model, {})
    read = read_bundle(tmp_path / "model")
    for name, leaf in named_leaves(model.params).items():
        np.testing.assert_array_equal(read.params[name], leaf)
    for name, levels in model.levels.items():
        np.testing.assert_array_equal(read.levels[name], levels)
    size = bundle_size(model)
    assert size.codebooks == 4 * (5 * 8 + 4 * 4)
    assert size.planes == 3 * 4 + 2 * 3  # bits times bytes for 30 and 20 weights
    assert size.bits == pytest.approx((3 * 30 + 2 * 20) / 50)


def test_one_step_of_training_is_that_of_each_output_by_itself():
    """A loss without any tie between outputs: a matrix of three outputs learns as three vectors do."""
    target = jnp.asarray(np.random.default_rng(3).normal(size=(6, 3)), jnp.float32)

    def oracle(goal):
        def value(params, key):
            return 0.5 * ((params["w"] - goal) ** 2).sum()

        return Oracle(value, lambda params, key: (value(params, key), jax.grad(value)(params, key)), None)

    options = {"bits": 1, "keep": [], "lambda_": 0.3, "centers_step_size": 0.05, "step_size": 0.2, "sharpness": 5.0}
    start, key = jnp.asarray(np.random.default_rng(4).normal(size=(6, 3)), jnp.float32), jax.random.key(0)
    together = quantized(**options, codebooks="channel")
    moved, _, _ = together.gradient(
        oracle(target), together.begin({"w": start}, 0, key), {"w": start}, {"w": start}, key
    )
    for k in range(3):
        alone = quantized(**options)
        own = alone.begin({"w": start[:, k]}, 0, key)
        one, _, _ = alone.gradient(oracle(target[:, k]), own, {"w": start[:, k]}, {"w": start[:, k]}, key)
        np.testing.assert_allclose(moved.weights["w"][:, k], one.weights["w"], atol=1e-6)
        np.testing.assert_allclose(moved.levels["w"][k], one.levels["w"], atol=1e-6)
