"""Residual networks: their convolutions against JAX's own, and normalization whose statistics stay on the client."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import idiolect
from idiolect.catalog import MODELS
from idiolect.contracts import Problem, Shard
from idiolect.errors import UserMistake
from idiolect.evaluation.scoring import Budget
from idiolect.options import make
from idiolect.problems.data.datasets import load_images
from idiolect.problems.data.partitions import by_classes
from idiolect.problems.images import classification
from idiolect.problems.models.networks import Model, linear
from idiolect.problems.models.padded_convolution import convolve
from idiolect.problems.models.residual import resnet
from idiolect.registry import Choice

KEY = jax.random.key(0)
DIGITS, CIFAR = (8, 8, 1), (32, 32, 3)
SMALL = resnet(DIGITS, 10, depth=8, width=4)
STATISTICS = ("mean", "variance")


def normal(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def filled(model: Model) -> Any:
    """Parameters away from their start, so that scales, offsets and statistics all matter; variances are positive."""
    shapes, structure = jax.tree.flatten(jax.eval_shape(model.init, KEY))
    return jax.tree.unflatten(structure, [0.2 + jnp.abs(normal(k, *leaf.shape)) / 3 for k, leaf in enumerate(shapes)])


def split_off(params: Any) -> tuple[list[Any], list[Any]]:
    """The leaves that are learnt, and the statistics."""
    leaves = [(path[-1].key in STATISTICS, leaf) for path, leaf in jax.tree.leaves_with_path(params)]
    return [leaf for fixed, leaf in leaves if not fixed], [leaf for fixed, leaf in leaves if fixed]


def close(left: object, right: object, tolerance: float = 2e-4) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance), left, right)


# (channels, height, width, batch), filters, stride; one or two rows are computed at once, and a last pair may be half
CONVOLUTIONS = [
    ((2, 8, 8, 3), 4, 1),
    ((3, 7, 5, 2), 2, 1),
    ((2, 8, 6, 2), 4, 2),
    ((2, 9, 7, 2), 3, 2),
    ((1, 6, 5, 2), 64, 1),
    ((1, 5, 8, 2), 64, 2),
    ((2, 1, 2, 1), 3, 2),
]


@pytest.mark.parametrize(("shape", "filters", "stride"), CONVOLUTIONS)
def test_convolution_and_its_derivatives_are_jax_s_own(shape, filters, stride):
    """The value, the gradient, and the gradient's derivative along a direction, for Hessian-vector products."""
    point = normal(1, *shape), normal(2, filters, 3, 3, shape[0]) / 3
    direction = normal(3, *point[0].shape), normal(4, *point[1].shape)
    layout = ("CHWN", "OHWI", "CHWN")

    def reference(x: jax.Array, weight: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(x, weight, (stride, stride), ((1, 1), (1, 1)), dimension_numbers=layout)

    def derivatives(layer):
        gradient = jax.grad(lambda x, weight: jnp.tanh(layer(x, weight)).sum(), argnums=(0, 1))
        return jax.jit(lambda: (layer(*point), *jax.jvp(gradient, point, direction)))()

    close(derivatives(lambda x, weight: convolve(x, weight, stride)), derivatives(reference))


@pytest.mark.parametrize(("depth", "count"), [(20, 269_722), (32, 464_154)])
def test_it_has_as_many_weights_as_in_the_paper(depth, count):
    """He et al. 2016, Table 6: 0.27 and 0.46 million."""
    learnt, statistics = split_off(jax.eval_shape(resnet(CIFAR, 10, depth=depth).init, KEY))
    assert sum(leaf.size for leaf in learnt) == count
    assert len(statistics) == 2 * (depth - 1)


def test_the_tree_is_in_the_order_of_the_network():
    """Then `first` and `last` mean the stem and the head to whoever walks over the leaves."""
    leaves = jax.tree.leaves(jax.eval_shape(resnet(CIFAR, 7, depth=14, width=2).init, KEY))
    weights = [leaf.shape for leaf in leaves if leaf.ndim > 1]
    convolutions = [(2, 3), *[(2, 2)] * 4, (4, 2), *[(4, 4)] * 3, (8, 4), *[(8, 8)] * 3]
    assert weights == [*((filters, 3, 3, channels) for filters, channels in convolutions), (8, 7)]


def test_it_starts_random_with_he_s_variance_and_normalization_that_does_nothing():
    stem, blocks, head = jax.jit(resnet(DIGITS, 10, depth=8, width=16).init)(KEY)
    for layer in (stem, *(block[name] for block in blocks for name in ("first", "second"))):
        weight, norm = layer["weight"], layer["norm"]
        assert abs(float(weight.var()) * weight[0].size / 2 - 1) < 5 * np.sqrt(2 / weight.size)
        assert {name: set(np.unique(value)) for name, value in norm.items()} == {
            "scale": {1}, "offset": {0}, "mean": {0}, "variance": {1},
        }  # fmt: skip
    assert not head["bias"].any()


def by_hand(params: Any, images: jax.Array) -> jax.Array:
    """The network of the paper from JAX's own operators, on (batch, height, width, channels), scored."""

    def layer(x, layer, stride=1):
        sides, norm = ((1, 1), (1, 1)), layer["norm"]
        layout = ("NHWC", "OHWI", "NHWC")
        x = jax.lax.conv_general_dilated(x, layer["weight"], (stride, stride), sides, dimension_numbers=layout)
        return norm["scale"] * (x - norm["mean"]) / jnp.sqrt(norm["variance"] + 1e-5) + norm["offset"]

    stem, blocks, head = params
    x = jax.nn.relu(layer(images, stem))
    for stage, block in enumerate(blocks):  # one block a stage
        short = x
        if stage:
            half, quarter = x[:, ::2, ::2], x.shape[3] // 2
            none = jnp.zeros((*half.shape[:3], quarter))
            short = jnp.concatenate([none, half, none], axis=3)
        inner = jax.nn.relu(layer(x, block["first"], 2 if stage else 1))
        x = jax.nn.relu(layer(inner, block["second"]) + short)
    return x.mean((1, 2)) @ head["weight"] + head["bias"]


@pytest.mark.slow
def test_a_scored_model_is_the_network_of_the_paper():
    model = resnet((9, 8, 2), 5, depth=8, width=4)
    params, images = filled(model), normal(1, 3, 9, 8, 2)
    expected = jax.jit(by_hand)(params, images)
    close(jax.jit(model.apply)(params, images, None) / jnp.abs(expected).max(), expected / jnp.abs(expected).max())


IMAGES = normal(1, 6, *DIGITS)


def loss(params: Any) -> jax.Array:
    logits = SMALL.apply(params, IMAGES, KEY)
    return optax.losses.softmax_cross_entropy_with_integer_labels(logits, jnp.arange(len(IMAGES))).mean()


@pytest.mark.slow
def test_in_training_the_statistics_have_no_gradient_and_no_curvature_and_all_else_has():
    """And Hessian-vector products, taken inside a loop, are those of a symmetric matrix."""
    params = filled(SMALL)
    vectors = jax.tree.map(lambda leaf: normal(leaf.size, 2, *leaf.shape), params)

    @jax.jit
    def derivatives(vectors: Any) -> Any:
        return jax.lax.map(lambda vector: jax.jvp(jax.grad(loss), (params,), (vector,)), vectors)

    gradients, products = derivatives(vectors)
    for found in (gradients, products):
        learnt, statistics = split_off(found)
        assert all(np.abs(leaf).max() > 1e-6 for leaf in learnt)
        assert not any(leaf.any() for leaf in statistics)
    left, right = (
        sum(np.vdot(a[k], b[1 - k]) for a, b in zip(*map(jax.tree.leaves, (vectors, products)), strict=True))
        for k in (0, 1)
    )
    assert left == pytest.approx(right, rel=2e-3)


EVEN = jnp.full(len(IMAGES), 1 / len(IMAGES), jnp.float32)
calibrate = jax.jit(SMALL.calibrate)


@pytest.mark.slow
def test_a_calibrated_model_scores_each_image_alone_as_it_did_in_the_batch():
    params = filled(SMALL)

    @jax.jit
    def alone(params: Any) -> jax.Array:
        return jax.vmap(lambda image: SMALL.apply(params, image[None], None)[0])(IMAGES)

    expected = jax.jit(SMALL.apply)(params, IMAGES, KEY)
    close(alone(calibrate(params, IMAGES, EVEN)), expected)
    assert np.abs(alone(params) - expected).max() > 0.1  # so it was not calibrated before


def test_calibration_changes_the_statistics_only_and_minds_neither_the_order_nor_what_they_were():
    params = filled(SMALL)
    once = calibrate(params, IMAGES, EVEN)
    (before, old), (after, new) = split_off(params), split_off(once)
    assert all(np.array_equal(*pair) for pair in zip(before, after, strict=True))
    assert not any(np.allclose(*pair) for pair in zip(old, new, strict=True))
    close(calibrate(once, IMAGES[np.array([3, 1, 5, 0, 4, 2])], EVEN), once)


def test_images_count_by_their_weight():
    params, weights = filled(SMALL), jnp.array([1, 1, 0, 4, 0, 0]) / 6
    close(calibrate(params, IMAGES, weights), calibrate(params, IMAGES[np.array([3, 1, 3, 3, 0, 3])], EVEN))


def digits(model: Model, samples: int = 240) -> Problem:
    return classification("digits", load_images("digits"), model, by_classes(classes=3), clients=3, samples=samples)


def test_a_client_calibrates_on_exactly_its_own_rows_whatever_their_number():
    """Up to 128 of them, by one compiled program; the rows of everybody else are poisoned."""
    rows = np.random.default_rng(0).random((400, *DIGITS)).astype(np.float32)
    stand_in = linear(DIGITS, 10)._replace(calibrate=lambda params, images, weights: weights @ images.reshape(128, -1))
    fill = jax.jit(digits(stand_in).calibrate)
    for size, counted in ((1, 1), (5, 5), (127, 127), (128, 128), (300, 128)):
        poisoned = np.full_like(rows, np.nan)
        poisoned[50 : 50 + size] = rows[50 : 50 + size]
        shard = Shard({"image": jnp.asarray(poisoned)}, np.int32(50), np.int32(size))
        close(fill(None, shard), rows[50 : 50 + counted].reshape(counted, -1).mean(0), 1e-5)
    assert fill._cache_size() == 1


def test_a_model_without_normalization_is_left_alone():
    problem, params = digits(linear(DIGITS, 10)), object()
    assert problem.calibrate(params, problem.clients.adapt.shard(0)) is params


@pytest.mark.slow
def test_statistics_never_travel_and_every_client_has_its_own():
    problem, budget = digits(SMALL), Budget(steps=(0,), batch_size=8)
    options = {"local_steps": 2, "step_size": 0.1, "batch_size": 8, "horizon": 40.0, "points": 1}
    outcome = idiolect.learn(problem, "fedavg", budget=budget, **options)
    learnt, statistics = split_off(outcome.params)
    assert all((leaf == k % 2).all() for k, leaf in enumerate(statistics))  # mean, variance, mean, variance, ...
    assert all(np.isfinite(leaf).all() for leaf in learnt)
    (one, own), (other, theirs) = (split_off(outcome.model(client)) for client in (0, 1))
    assert all(np.array_equal(*pair) for pair in zip(one, other, strict=True))
    assert not any(np.allclose(*pair, rtol=1e-3) for pair in zip(own, theirs, strict=True))


@pytest.mark.parametrize(
    ("depth", "advice"), [(21, "take 20 or 26"), (19, "take 14 or 20"), (2, "take 8 or more"), (7, "take 8 or more")]
)
def test_a_depth_that_is_no_residual_network_is_refused(depth, advice):
    with pytest.raises(UserMistake, match=rf"model\.depth is {depth}, but .*6n \+ 2 layers; {advice}"):
        resnet(CIFAR, 10, depth=depth)


@pytest.mark.parametrize("options", [{"depth": 0}, {"width": 0}])
def test_options_below_one_are_refused_by_name(options):
    with pytest.raises(UserMistake, match=rf"model\.{next(iter(options))} is 0"):
        make(MODELS, "model", Choice("resnet", options), CIFAR, 10)
