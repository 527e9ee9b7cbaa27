"""Problems from a loss and arrays: a key names a batch, and a client's batches hold nothing but its own rows.

The loss `params[id].sum()` has as its gradient a histogram of the rows that were drawn.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect.contracts import Shard
from idiolect.problems.supervised import batch_oracle, problem, with_key

ROWS, START, SIZE = 40, 11, 13
MINE = np.arange(START, START + SIZE)
INPUTS = jnp.asarray(np.random.default_rng(1).standard_normal((ROWS, 3)), jnp.float32)


def shard(rows: object) -> Shard:
    return Shard(rows, np.int32(START), np.int32(SIZE))


def counting(batch_size: int):
    """How often each row is in the batch that a key names."""
    rows = {"id": jnp.arange(ROWS)}
    oracle = batch_oracle(lambda params, batch, key: params[batch["id"]].sum(), shard(rows), batch_size)
    return jax.jit(lambda key: oracle.gradient(jnp.zeros(ROWS), key)[1])


def keys(count: int) -> jax.Array:
    return jax.random.split(jax.random.key(5), count)


def bent_loss(params: jax.Array, batch: dict[str, jax.Array], key: jax.Array) -> jax.Array:
    return jnp.cosh(batch["x"] @ params).mean() + (params**4).sum()


def bent_oracle(batch_size: int = 6):
    return batch_oracle(bent_loss, shard({"x": INPUTS}), batch_size)


def test_the_same_key_means_the_same_batch_and_another_key_another():
    drawn = counting(8)
    first, again, other = (drawn(jax.random.key(k)) for k in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("batch_size", [1, 8, 50])
def test_a_batch_has_its_size_even_where_the_client_has_fewer_rows(batch_size):
    totals = jax.vmap(counting(batch_size))(keys(20)).sum(1)
    np.testing.assert_array_equal(totals, batch_size)


def test_draws_are_uniform_over_the_client_s_own_rows_and_never_reach_others():
    counts = np.asarray(jax.vmap(counting(8))(keys(2000)).sum(0))
    expected = 2000 * 8 / SIZE
    assert counts[np.setdiff1d(np.arange(ROWS), MINE)].sum() == 0
    assert np.abs(counts[MINE] - expected).max() < 5 * np.sqrt(expected)


def test_poisoned_rows_of_other_clients_never_show():
    values = np.full((ROWS, 3), np.nan, np.float32)
    values[MINE] = 1.0
    oracle = batch_oracle(bent_loss, shard({"x": jnp.asarray(values)}), 16)
    w = jnp.ones(3)

    def everything(key: jax.Array) -> object:
        return oracle.value(w, key), oracle.gradient(w, key), oracle.hessian_product(w, w, key)

    for result in jax.tree.leaves(jax.jit(jax.vmap(everything))(keys(300))):
        assert np.isfinite(result).all()


def test_value_gradient_and_hessian_product_of_a_key_are_of_one_function():
    oracle = bent_oracle()
    w, v = jnp.array([0.3, -0.2, 0.5]), jnp.array([1.0, 2.0, -1.0])

    def given(key: jax.Array) -> object:
        return *oracle.gradient(w, key), oracle.hessian_product(w, v, key)

    def expected(key: jax.Array) -> object:
        return oracle.value(w, key), jax.grad(oracle.value)(w, key), jax.hessian(oracle.value)(w, key) @ v

    for left, right in zip(*(jax.jit(jax.vmap(f))(keys(5)) for f in (given, expected)), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-4)


def test_the_mean_over_batches_is_the_client_s_loss():
    oracle, point = bent_oracle(), jnp.array([0.3, -0.2, 0.5])
    values = np.asarray(jax.jit(jax.vmap(lambda key: oracle.value(point, key)))(keys(4000)))
    error = values.std() / np.sqrt(4000)
    assert abs(values.mean() - float(bent_loss(point, {"x": INPUTS[MINE]}, None))) < 5 * error


def test_a_random_loss_gets_a_key_of_its_own_from_the_batch_s_key():
    def noisy(params: jax.Array, batch: object, key: jax.Array) -> jax.Array:
        return params * jax.random.normal(key)

    oracle = batch_oracle(noisy, shard({"x": jnp.zeros(ROWS)}), 4)
    first, again, other = (float(oracle.value(jnp.float32(1), jax.random.key(k))) for k in (0, 0, 1))
    assert first == again != other


def test_a_loss_may_do_without_a_key():
    plain, random = with_key(lambda params, batch: params + batch), with_key(lambda params, batch, key: key)
    assert plain(1, 2, "key") == 3
    assert random(1, 2, "key") == "key"


DATA = [{"x": np.full((10, 2), float(k), np.float32)} for k in range(4)]


def squares(params: jax.Array, batch: dict[str, jax.Array]) -> jax.Array:
    return ((batch["x"] - params) ** 2).mean()


def test_a_problem_from_a_loss_and_arrays_is_scored_by_its_loss():
    made = problem(lambda key: jnp.zeros(2), squares, DATA, unseen=0.25, seed=1)
    assert (made.clients.total, len(made.clients.unseen)) == (4, 1)
    assert (made.metric.name, made.metric.higher_is_better) == ("loss", False)
    assert float(made.metric.score(jnp.ones(2), {"x": jnp.full((3, 2), 3.0)})) == 4.0
    value, gradient = made.oracle(made.clients.train.shard(3), 5).gradient(jnp.zeros(2), jax.random.key(0))
    assert float(value) == 9.0
    np.testing.assert_allclose(gradient, -3.0)


def test_a_problem_may_have_a_score_of_its_own():
    made = problem(
        lambda key: jnp.zeros(2), squares, DATA, score=lambda p, b: b["x"].mean(), score_name="height", name="mine"
    )
    assert (made.name, made.metric.name, made.metric.higher_is_better) == ("mine", "height", True)
    assert float(made.metric.score(None, {"x": jnp.full((3, 2), 3.0)})) == 3.0
