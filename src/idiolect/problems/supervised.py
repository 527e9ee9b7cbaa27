"""Problems from a loss and arrays: the oracle draws batches, the metric is a mean over samples."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Batch, Clients, Key, Metric, Oracle, Params, Problem, PyTree, Scalar, Shard
from idiolect.errors import UserMistake
from idiolect.options import Seed, checked_value
from idiolect.problems.data.client_splits import Shares, split_clients
from idiolect.problems.data.given_data import checked_data
from idiolect.problems.given_functions import check_callable, check_number, checked_start, few_rows
from idiolect.problems.models.library_models import Adapter, adapted

Loss = Callable[[Params, Batch, Key], Scalar]


def problem(
    init: Callable[[Key], Params] | None = None,
    loss: Callable[..., Scalar] | None = None,
    data: Sequence[PyTree] = (),
    *,
    model: Any = None,
    score: Callable[[Params, Batch], Scalar] | None = None,
    score_name: str = "accuracy",
    higher_is_better: bool = True,
    unseen: float = 0.0,
    shares: Shares = Shares(),
    start_models: PyTree | None = None,
    name: str = "custom",
    seed: int = 0,
) -> Problem:
    """Make a problem from plain functions and one pytree of arrays per client.

    Args:
        init: `init(key)` gives the parameters that training starts with, any pytree of arrays.
        loss: `loss(params, batch)`, a mean over the batch, or `loss(params, batch, key)` if it is random (dropout).
        data: For each client a pytree of arrays whose first axis runs over its samples.
        model: In place of `init`, a model of Equinox, Flax (NNX or linen) or Haiku. Loss and score then get the model,
            ready to be called, where they would get parameters.
        score: `score(params, batch)`, also a mean, is what runs report; by default the loss.
        score_name: What it is called.
        higher_is_better: Whether more of it is better; the loss is better lower.
        unseen: The share of clients that take no part in training.
        shares: How much of a client's data goes to training, adaptation and validation; the rest is for tests.
        start_models: A pytree like that of `init`, with a row for each client: where agents without a server start.
        name: What the problem is called.
        seed: Of the order of rows, and of who is unseen.

    Returns:
        The problem, for `learn`, or for an `Experiment`.

    Example:
        >>> import idiolect, jax.numpy as jnp, numpy as np
        >>> data = [{"x": np.ones((10, 2)), "y": np.full(10, float(client))} for client in range(4)]
        >>> def loss(params, batch):
        ...     return ((batch["x"] @ params - batch["y"]) ** 2).mean()
        >>> idiolect.problem(lambda key: jnp.zeros(2), loss, data).clients.total
        4
    """
    if loss is None or (init is None) == (model is None):
        raise UserMistake("a problem needs a loss, data, and either init (parameters from a key) or model")
    check_callable("loss(params, batch)", loss, (2, 3))
    if score is not None:
        check_callable("score(params, batch)", score, (2,))
    data = checked_data(data)
    if model is not None:
        init, loss, score = _with_model(adapted(model), with_key(loss), score, data)
    assert init is not None
    check_callable("init(key)", init, (1,))
    keyed, still = with_key(loss), jax.random.key(0)
    _check_functions(init, keyed, score, few_rows(data[0]))
    if score is None:
        metric = Metric("loss", lambda params, batch: keyed(params, batch, still), higher_is_better=False)
    else:
        metric = Metric(score_name, score, higher_is_better)
    shares, unseen = checked_value("shares", Shares, shares), checked_value("unseen", float, unseen)
    rng = np.random.default_rng(checked_value("seed", Seed, seed))
    clients = split_clients(data, shares=shares, unseen=unseen, rng=rng)
    return supervised_problem(name, init, keyed, metric, clients._replace(start_models=start_models))


def _check_functions(
    init: Callable[[Key], Params], loss: Loss, score: Callable[[Params, Batch], Scalar] | None, batch: Batch
) -> None:
    """Try the user's functions on shapes, so that what is wrong with them is told here and not while they train."""
    params = checked_start(init)
    check_number("loss(params, batch)", loss, params, batch, jax.random.key(0), gradient=True)
    if score is not None:
        check_number("score(params, batch)", score, params, batch, gradient=False)


def _with_model(
    adapter: Adapter, loss: Loss, score: Callable[[Any, Batch], Scalar] | None, data: Sequence[PyTree]
) -> tuple[Callable[[Key], Params], Loss, Callable[[Params, Batch], Scalar] | None]:
    """A start, a loss and a score of parameters from those of a model."""

    def start(key: Key) -> Params:
        few = jax.tree.map(lambda rows: jnp.asarray(np.asarray(rows)[:1]), data[0])
        return adapter.start(key, lambda made: loss(made, few, key))

    def bound_loss(params: Params, batch: Batch, key: Key) -> Scalar:
        return loss(adapter.bind(params, key), batch, key)

    if score is None:
        return start, bound_loss, None
    return start, bound_loss, lambda params, batch: score(adapter.bind(params, None), batch)


def supervised_problem(
    name: str,
    init: Callable[[Key], Params],
    loss: Loss,
    metric: Metric,
    clients: Clients,
    smoothness: float | None = None,
    calibrate: Callable[[Params, Shard], Params] = lambda params, shard: params,
) -> Problem:
    """The same from ready-made parts: a keyed loss, a metric, and clients already split."""

    def oracle(shard: Shard, batch_size: int) -> Oracle:
        return batch_oracle(loss, shard, batch_size)

    return Problem(name, init, oracle, metric, clients, smoothness, calibrate=calibrate)


def batch_oracle(loss: Loss, shard: Shard, batch_size: int) -> Oracle:
    """Derivatives of the loss on batches of independent draws (with replacement) from the client's rows."""

    def at(key: Key) -> Callable[[Params], Scalar]:
        # The bias of the remainder is below size / 2^32, far under anything a batch can show.
        draws = jax.random.bits(key, (batch_size,), np.uint32)
        index = shard.start + (draws % shard.size.astype(np.uint32)).astype(np.int32)
        batch = jax.tree.map(lambda rows: rows.at[index].get(mode="promise_in_bounds"), shard.rows)
        return lambda params: loss(params, batch, jax.random.fold_in(key, 0))

    return Oracle(
        value=lambda params, key: at(key)(params),
        gradient=lambda params, key: jax.value_and_grad(at(key))(params),
        hessian_product=lambda params, vector, key: jax.jvp(jax.grad(at(key)), (params,), (vector,))[1],
    )


def with_key(loss: Callable[..., Scalar]) -> Loss:
    """A loss of (params, batch) as one of (params, batch, key)."""
    wants_key = len(inspect.signature(loss).parameters) >= 3
    return loss if wants_key else lambda params, batch, key: loss(params, batch)
