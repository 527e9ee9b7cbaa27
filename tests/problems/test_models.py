"""Models: shapes, dropout, and the arithmetic of their layers against NumPy and against JAX's own operators."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect.catalog import MODELS
from idiolect.errors import UserMistake
from idiolect.problems.models.convolution import convolve_and_pool
from idiolect.problems.models.networks import Model, cnn, linear, mlp
from idiolect.problems.models.residual import resnet

KEY = jax.random.key(0)
DIGITS, MNIST, CIFAR = (8, 8, 1), (28, 28, 1), (32, 32, 3)
THREE = {"channels": (16, 32, 64), "hidden": (128, 64), "kernel": 3}
BUILT = {
    "linear-digits": (linear(DIGITS, 10), DIGITS),
    "linear-mnist": (linear(MNIST, 10), MNIST),
    "mlp-digits": (mlp(DIGITS, 10), DIGITS),
    "mlp-mnist": (mlp(MNIST, 10), MNIST),
    "mlp-cifar": (mlp(CIFAR, 10, hidden=(30,), activation="tanh"), CIFAR),
    "cnn-digits": (cnn(DIGITS, 10, channels=(4,), kernel=3), DIGITS),
    "cnn-2-mnist": (cnn(MNIST, 10), MNIST),
    "cnn-3-mnist": (cnn(MNIST, 10, **THREE), MNIST),
    "cnn-2-cifar": (cnn(CIFAR, 10, dropout=0.3), CIFAR),
    "cnn-3-cifar": (cnn(CIFAR, 10, **THREE, dropout=0.3), CIFAR),
    "resnet-digits": (resnet(DIGITS, 10, depth=8, width=4), DIGITS),
    "resnet-cifar": (resnet(CIFAR, 10), CIFAR),
}


def normal(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def filled(model: Model) -> Any:
    """Parameters of the model's shapes, biases included, without compiling its initializer."""
    shapes, structure = jax.tree.flatten(jax.eval_shape(model.init, KEY))
    return jax.tree.unflatten(structure, [normal(k, *leaf.shape) / 3 for k, leaf in enumerate(shapes)])


def convolution(x: jax.Array, weight: jax.Array) -> jax.Array:
    """JAX's own, of (batch, height, width, channels) images with (filters, height, width, channels) kernels."""
    return jax.lax.conv_general_dilated(x, weight, (1, 1), "VALID", dimension_numbers=("NHWC", "OHWI", "NHWC"))


def pooling(x: jax.Array, pool: int = 2) -> jax.Array:
    """JAX's own maximum over windows."""
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, pool, pool, 1), (1, pool, pool, 1), "VALID")


def pooling_by_comparison(x: jax.Array, pool: int = 2) -> jax.Array:
    """The same from elementary operations, which, unlike JAX's own, can be differentiated twice."""
    down, across = x.shape[1] // pool * pool, x.shape[2] // pool * pool
    corners = [x[:, i:down:pool, j:across:pool] for i in range(pool) for j in range(pool)]
    return functools.reduce(jnp.maximum, corners)


def ours(x: jax.Array, weight: jax.Array, pool: int = 2) -> jax.Array:
    """The function under test, which wants the channels first and the batch last, in the layout of the references."""
    return jnp.moveaxis(convolve_and_pool(jnp.moveaxis(x, (0, 3), (3, 0)), weight, pool), (0, 3), (3, 0))


def close(left: object, right: object) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4), left, right)


def test_every_model_of_the_catalog_is_tested_here():
    assert {name.split("-")[0] for name in BUILT} == set(MODELS)


@pytest.mark.parametrize("name", BUILT)
def test_a_model_gives_one_logit_a_class_with_and_without_a_key(name):
    model, shape = BUILT[name]
    params = jax.eval_shape(model.init, KEY)
    images = jax.ShapeDtypeStruct((7, *shape), jnp.float32)
    for key in (None, KEY):
        logits = jax.eval_shape(lambda params, images, key=key: model.apply(params, images, key), params, images)
        assert (logits.shape, logits.dtype) == ((7, 10), jnp.float32)


@pytest.mark.parametrize(
    ("name", "layers"), [("cnn-2-mnist", 2), ("cnn-3-mnist", 3), ("cnn-2-cifar", 2), ("cnn-3-cifar", 3)]
)
def test_a_cnn_has_l_convolutional_and_l_dense_layers(name, layers):
    """PersA-FL, Appendix D."""
    params = jax.eval_shape(BUILT[name][0].init, KEY)
    assert len(params["convolutions"]) == len(params["dense"]) == layers


def test_linear_is_one_layer_and_the_mlp_is_80_60_by_default():
    widths = [layer["weight"].shape for layer in jax.eval_shape(mlp(MNIST, 10).init, KEY)]
    assert widths == [(784, 80), (80, 60), (60, 10)]
    assert [layer["weight"].shape for layer in jax.eval_shape(linear(MNIST, 10).init, KEY)] == [(784, 10)]


@pytest.mark.parametrize("model", [mlp((10, 10, 1), 10, hidden=(40,)), cnn((8, 8, 2), 10, channels=(20,), kernel=5)])
def test_weights_start_random_with_he_s_variance_and_biases_at_zero(model):
    first, other = (jax.tree.leaves_with_path(jax.jit(model.init)(jax.random.key(k))) for k in (0, 1))
    for (path, leaf), (_, changed) in zip(first, other, strict=True):
        if path[-1].key == "bias":
            np.testing.assert_array_equal(leaf, 0)
        else:  # (fan in, fan out), or (filters, height, width, channels)
            fan_in = leaf.shape[0] if leaf.ndim == 2 else leaf[0].size
            assert abs(float(leaf.var()) * fan_in / 2 - 1) < 5 * np.sqrt(2 / leaf.size)
            assert not np.array_equal(leaf, changed)


NUMPY = {
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "relu": lambda x: x * (x > 0),
    "tanh": np.tanh,
}


@pytest.mark.parametrize("activation", NUMPY)
def test_an_mlp_is_the_numpy_forward_pass(activation):
    model = mlp((3, 2, 1), 4, hidden=(5, 6), activation=activation)
    params, images = filled(model), normal(3, 9, 3, 2, 1)
    x = np.asarray(images, np.float64).reshape(9, 6)
    for depth, layer in enumerate(params):
        x = x @ np.asarray(layer["weight"], np.float64) + np.asarray(layer["bias"], np.float64)
        x = NUMPY[activation](x) if depth < 2 else x
    close(model.apply(params, images, None), x)


def test_a_cnn_convolves_rectifies_pools_and_then_is_dense():
    """With the rectifier before the pooling, where the papers have it."""
    model = cnn((14, 12, 2), 5, channels=(3, 4), kernel=3, hidden=(7,))
    params, images = filled(model), normal(4, 3, 14, 12, 2)
    x = images
    for layer in params["convolutions"]:
        x = pooling(jax.nn.relu(convolution(x, layer["weight"]) + layer["bias"]))
    x = x.transpose(0, 3, 1, 2).reshape(3, -1)  # channel by channel
    first, last = params["dense"]
    x = jax.nn.relu(x @ first["weight"] + first["bias"]) @ last["weight"] + last["bias"]
    close(jax.jit(model.apply)(params, images, None), x)


def dropping(rate: float) -> tuple[Model, Any, jax.Array]:
    model = cnn((6, 6, 1), 3, channels=(2,), kernel=3, hidden=(40,), dropout=rate)
    return model._replace(apply=jax.jit(model.apply)), filled(model), normal(5, 2, 6, 6, 1)


def test_dropout_changes_with_the_key_and_only_with_the_key():
    model, params, images = dropping(0.5)
    first, again, other = (model.apply(params, images, jax.random.key(k)) for k in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)


def test_dropout_is_off_without_a_key_and_at_a_rate_of_zero():
    model, params, images = dropping(0.5)
    none, _, _ = dropping(0.0)
    expected = none.apply(params, images, None)
    assert np.array_equal(model.apply(params, images, None), expected)
    assert np.array_equal(none.apply(params, images, jax.random.key(1)), expected)


@pytest.mark.parametrize("rate", [0.2, 0.7])
def test_dropout_preserves_the_expectation_of_what_it_drops(rate):
    """The layer after the dropout is linear, so the logits' mean over keys is the logits without dropout."""
    model, params, images = dropping(rate)
    draws = jax.vmap(lambda key: model.apply(params, images, key))(jax.random.split(KEY, 4000))
    error = np.asarray(draws.std(0)) / np.sqrt(len(draws))
    assert (error > 0).all()
    assert (np.abs(draws.mean(0) - model.apply(params, images, None)) < 5 * error).all()


def test_an_mlp_has_no_dropout():
    model, images = mlp((4, 4, 1), 3), normal(1, 2, 4, 4, 1)
    params = filled(model)
    assert np.array_equal(model.apply(params, images, KEY), model.apply(params, images, None))


@pytest.mark.parametrize(
    ("shape", "options", "needles"),
    [
        (DIGITS, {}, ["model.kernel is 5", "(8, 8)", "convolution 2 of 2"]),
        (MNIST, {"channels": (16, 32, 64)}, ["model.kernel is 5", "(28, 28)", "convolution 3 of 3"]),
        ((4, 28, 1), {}, ["model.kernel is 5", "(4, 28)", "convolution 1 of 2"]),
    ],
)
def test_images_that_are_used_up_by_the_convolutions_are_refused(shape, options, needles):
    with pytest.raises(UserMistake) as mistake:
        cnn(shape, 10, **options)
    for needle in needles:
        assert needle in str(mistake.value)


# (batch, height, width, channels), filters, kernel, pool; some leave rows or columns that fill no window
CONVOLUTIONS = [
    ((2, 8, 8, 1), 3, (3, 3), 2),
    ((3, 12, 10, 2), 4, (5, 5), 2),
    ((1, 6, 6, 3), 2, (5, 5), 2),
    ((2, 7, 10, 2), 3, (2, 4), 2),
    ((2, 7, 9, 2), 2, (1, 1), 2),
    ((2, 9, 8, 2), 3, (3, 3), 1),
    ((2, 12, 13, 1), 2, (3, 2), 3),
]


def drawn(shape: tuple[int, ...], filters: int, kernel: tuple[int, int]) -> tuple[jax.Array, jax.Array]:
    return normal(1, *shape), normal(2, filters, *kernel, shape[3]) / kernel[0]


@pytest.mark.parametrize(("shape", "filters", "kernel", "pool"), CONVOLUTIONS)
def test_convolution_and_pooling_and_their_derivatives_are_jax_s_own(shape, filters, kernel, pool):
    """The value, the gradient, and the gradient's derivative along a direction, for Hessian-vector products."""
    point = normal(1, *shape), normal(2, filters, *kernel, shape[3]) / kernel[0]
    direction = normal(3, *point[0].shape), normal(4, *point[1].shape)

    def derivatives(layer):
        gradient = jax.grad(lambda x, weight: jnp.tanh(layer(x, weight)).sum(), argnums=(0, 1))
        return jax.jit(lambda: (layer(*point), *jax.jvp(gradient, point, direction)))()

    expected = derivatives(lambda x, weight: pooling_by_comparison(convolution(x, weight), pool))
    close(derivatives(lambda x, weight: ours(x, weight, pool)), expected)
    close(expected[0], pooling(convolution(*point), pool))


def test_where_several_places_are_largest_the_first_one_has_the_whole_gradient():
    pull = normal(1, 1, 2, 3, 1)
    gradient = jax.jit(jax.grad(lambda x: (ours(x, jnp.ones((1, 1, 1, 1))) * pull).sum()))(jnp.zeros((1, 4, 6, 1)))
    close(gradient[:, ::2, ::2], pull)
    assert np.count_nonzero(gradient) == pull.size


def test_convolution_and_pooling_map_over_clients_with_their_own_weights():
    xs, weights = normal(1, 3, 2, 9, 8, 2), normal(2, 3, 4, 3, 3, 2)

    @jax.jit
    def layer(x: jax.Array, weight: jax.Array) -> tuple[jax.Array, jax.Array]:
        return ours(x, weight), jax.grad(lambda weight: jnp.tanh(ours(x, weight)).sum())(weight)

    one_by_one = [layer(x, weight) for x, weight in zip(xs, weights, strict=True)]
    close(jax.vmap(layer)(xs, weights), tuple(map(jnp.stack, zip(*one_by_one, strict=True))))


def test_a_cnn_differentiates_twice_inside_a_scan():
    """What exact MAML asks of it: Hessian-vector products along the local steps."""
    model = cnn((8, 8, 1), 3, channels=(2,), kernel=3, hidden=(4,))
    params, images = filled(model), normal(3, 4, 8, 8, 1)

    def product(vector: object) -> object:
        loss = jax.grad(lambda params: (model.apply(params, images, None) ** 2).mean())
        return jax.jvp(loss, (params,), (vector,))[1]

    found = jax.jit(lambda: jax.lax.scan(lambda vector, _: (product(vector), None), params, length=2)[0])()
    close(found, jax.jit(lambda: product(product(params)))())
    assert any(np.abs(leaf).max() > 1e-3 for leaf in jax.tree.leaves(found))
