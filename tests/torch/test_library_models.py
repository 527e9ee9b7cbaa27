"""Models of Equinox, Flax and Haiku learn as hand-written ones do, and their dropout follows the key."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import idiolect
from idiolect.problems.models.library_models import adapted

KEY = jax.random.key(3)
WIDTH, CLASSES = 8, 3


def data():
    rng = np.random.default_rng(0)
    return [{"x": rng.standard_normal((20, 4)).astype(np.float32), "y": rng.integers(0, CLASSES, 20)} for _ in range(3)]


def equinox_model(rate):
    eqx = pytest.importorskip("equinox", reason="Equinox is not installed: pip install 'idiolect[equinox]'")
    keys = jax.random.split(KEY, 2)
    layers = [
        eqx.nn.Linear(4, WIDTH, key=keys[0]),
        eqx.nn.Lambda(jnp.tanh),
        eqx.nn.Dropout(rate),
        eqx.nn.Linear(WIDTH, CLASSES, key=keys[1]),
    ]

    def call(model, x, key):
        return jax.vmap(lambda row: model(row, key=key))(x)

    return eqx.nn.Sequential(layers), call


def nnx_model(rate):
    nnx = pytest.importorskip("flax.nnx", reason="Flax is not installed: pip install 'idiolect[flax]'")

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.first, self.second = nnx.Linear(4, WIDTH, rngs=rngs), nnx.Linear(WIDTH, CLASSES, rngs=rngs)
            self.dropout = nnx.Dropout(rate, rngs=rngs)

        def __call__(self, x):
            return self.second(self.dropout(jnp.tanh(self.first(x))))

    return Net(nnx.Rngs(0)), lambda model, x, key: model(x)


def linen_model(rate):
    nn = pytest.importorskip("flax.linen", reason="Flax is not installed: pip install 'idiolect[flax]'")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, train):
            hidden = nn.Dropout(rate, deterministic=not train)(jnp.tanh(nn.Dense(WIDTH)(x)))
            return nn.Dense(CLASSES)(hidden)

    return Net(), lambda model, x, key: model(x, train=key is not None)


def haiku_model(rate):
    hk = pytest.importorskip("haiku", reason="Haiku is not installed: pip install 'idiolect[haiku]'")

    def net(x, train):
        hidden = jnp.tanh(hk.Linear(WIDTH)(x))
        return hk.Linear(CLASSES)(hk.dropout(hk.next_rng_key(), rate, hidden) if train else hidden)

    return hk.transform(net), lambda model, x, key: model(x, train=key is not None)


LIBRARIES = {"equinox": equinox_model, "nnx": nnx_model, "linen": linen_model, "haiku": haiku_model}


def library_problem(library, rate):
    model, call = LIBRARIES[library](rate)

    def loss(model, batch, key):
        logits = call(model, batch["x"], key)
        return optax.losses.softmax_cross_entropy_with_integer_labels(logits, batch["y"]).mean()

    def score(model, batch):
        return (call(model, batch["x"], None).argmax(-1) == batch["y"]).mean()

    return idiolect.problem(model=model, loss=loss, data=data(), score=score)


def weights(params):
    """The two matrices, as (inputs, outputs), and the two offsets."""
    leaves = jax.tree.leaves(params)
    pick = {np.shape(leaf): np.asarray(leaf) for leaf in leaves}
    first = pick.get((4, WIDTH), pick.get((WIDTH, 4), np.zeros(0)).T if (WIDTH, 4) in pick else None)
    second = pick.get((WIDTH, CLASSES), pick[(CLASSES, WIDTH)].T if (CLASSES, WIDTH) in pick else None)
    return first, pick[(WIDTH,)], second, pick[(CLASSES,)]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_model_gives_the_loss_of_a_hand_written_one(library):
    problem = library_problem(library, rate=0.0)
    params = problem.init(KEY)
    shard = problem.clients.train._replace(sizes=np.ones(3, np.int32)).shard(0)
    x, y = (np.asarray(shard.rows[name])[int(shard.start)] for name in ("x", "y"))
    first, offset, second, shift = weights(params)
    logits = np.tanh(x @ first + offset) @ second + shift
    wanted = np.log(np.exp(logits).sum()) - logits[y]
    value, grads = jax.jit(problem.oracle(shard, 2).gradient)(params, KEY)
    np.testing.assert_allclose(value, wanted, rtol=1e-5)
    assert jax.tree.structure(grads) == jax.tree.structure(params)
    result = idiolect.learn(problem, "fedavg", horizon=20.0, points=1, local_steps=1, batch_size=4)
    assert jax.tree.structure(result.params) == jax.tree.structure(params)


@pytest.mark.parametrize("library", LIBRARIES)
def test_dropout_follows_the_key_and_is_off_in_scores(library):
    problem = library_problem(library, rate=0.5)
    params, train = problem.init(KEY), problem.clients.train
    oracle = problem.oracle(train._replace(sizes=np.ones(3, np.int32)).shard(0), 4)  # one row, so only masks differ
    value = jax.jit(oracle.value)
    losses = [float(value(params, jax.random.key(seed))) for seed in (1, 2, 1)]
    assert losses[0] == losses[2] != losses[1]
    sharp, blurred = library_problem(library, rate=0.0), {"x": data()[0]["x"], "y": data()[0]["y"]}
    assert problem.metric.score(params, blurred) == sharp.metric.score(params, blurred)


def test_what_is_no_model_or_keeps_state_is_refused():
    with pytest.raises(idiolect.UserMistake, match="model is int"):
        adapted(3)
    with pytest.raises(idiolect.UserMistake, match=r"either init .* or model"):
        idiolect.problem(lambda key: jnp.zeros(2), lambda params, batch: 0.0, data(), model=3)
    nnx = pytest.importorskip("flax.nnx", reason="Flax is not installed")
    with pytest.raises(idiolect.UserMistake, match=r"nnx\.LayerNorm"):
        adapted(nnx.BatchNorm(3, rngs=nnx.Rngs(0)))
    nn = pytest.importorskip("flax.linen", reason="Flax is not installed")
    normalized = nn.BatchNorm(use_running_average=False)
    with pytest.raises(idiolect.UserMistake, match=r"batch_stats.*nn\.LayerNorm"):
        idiolect.problem(model=normalized, loss=lambda model, batch: model(batch["x"]).sum(), data=data())
    hk = pytest.importorskip("haiku", reason="Haiku is not installed")
    with pytest.raises(idiolect.UserMistake, match=r"haiku\.transform"):
        adapted(hk.transform_with_state(lambda x: x))
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    with pytest.raises(idiolect.UserMistake, match=r"idiolect\.torch\.problem"):
        adapted(torch.nn.Linear(2, 2))
