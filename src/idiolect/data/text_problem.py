"""Problems of texts: what comes next, character by character or token by token."""

from collections.abc import Callable
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from annotated_types import Ge, Lt

from idiolect.contracts import Batch, Key, Metric, Params, Problem, Scalar
from idiolect.data.ownership import LEAST, Hands, Owners, Ownership, dealt, teller
from idiolect.data.sources_of_rows import read_columns
from idiolect.data.token_rows import Windows, cut, places_of, tokens_of
from idiolect.options import OneOf
from idiolect.problems.data.client_splits import Shares, split_clients
from idiolect.problems.data.partitions import Deal, iid
from idiolect.problems.models.networks import Model
from idiolect.problems.models.sequences import MakeTokenModel, gru
from idiolect.problems.supervised import supervised_problem


def text(
    source: Any,
    *,
    column: str = "text",
    by: Owners | None = None,
    length: Annotated[int, Ge(1)] = 40,
    alphabet: str | None = None,
    vocabulary: Annotated[int, Ge(2)] | None = None,
    clients: Annotated[int, Ge(1)] | None = None,
    smallest: Annotated[int, Ge(LEAST)] | None = None,
    partition: Annotated[Callable[[], Deal], OneOf("partitions")] = iid,
    model: Annotated[MakeTokenModel, OneOf("token_models")] = gru,
    unseen: Annotated[float, Ge(0), Lt(1)] = 0.0,
    shares: Shares = Shares(),
    name: str = "text",
    seed: int = 0,
) -> Problem:
    """Texts cut into windows, one client for each value of a column (`by`), and what comes next in them.

    Args:
        source: What `idiolect.data.table` takes: a file or several, a frame, arrays, a data set.
        column: The column with texts, or with lists of whole numbers that a tokenizer has made.
        by: The column that says which client a row is of, or an array that does. Without it a partition deals windows.
        length: Predictions in a window, at most. Windows share no token.
        alphabet: The characters that count, each once; all others are one. By default all that occur.
        vocabulary: How many tokens there are; by default as many as the largest says.
        clients: How many a partition makes; with `by`, how many of those there are take part in the experiment.
        smallest: Clients with fewer windows are left out; without it, a client with fewer than 3 is refused.
        partition: Who gets which window where there is no `by`; windows have no classes.
        model: Makes the model from the number of tokens and the length.
        unseen: The share of clients that take no part in training.
        shares: How much of a client's windows goes to training, adaptation and validation; the rest is for tests.
        name: What the problem is called.
        seed: Of the order of windows, the deal, and of who is unseen.

    Returns:
        The problem. Loss and metrics are means over the predictions of a window and then over windows: the accuracy,
        and the cross-entropy in nats (`token_loss`).

    Example:
        >>> from idiolect.data import text
        >>> made = text({"text": ["to be or not to be", "that is the question"] * 3}, by=[0, 1] * 3, length=5)
        >>> made.clients.train.rows["tokens"].shape, made.metric.name
        ((21, 6), 'token_accuracy')
    """
    columns = read_columns(source)
    found = tokens_of(columns, column, alphabet, vocabulary, teller(columns, by))
    windows, rng = cut(found.rows, length), np.random.default_rng(seed)
    whose = by if by is None or isinstance(by, str) else np.asarray(by)[windows.origin]
    how = Ownership(whose, clients, smallest, partition)
    hands = dealt(places_of(columns, windows.origin), how, np.zeros(len(windows.origin), int), rng, "windows")
    note = f"{name}: {len(windows.tokens)} windows of at most {length} predictions, of {found.vocabulary} tokens"
    made = model(found.vocabulary, length)
    return token_problem(name, windows, hands, made, shares=shares, unseen=unseen, rng=rng, notes=(note,))


def token_problem(
    name: str,
    windows: Windows,
    hands: Hands,
    model: Model,
    *,
    shares: Shares,
    unseen: float,
    rng: np.random.Generator,
    notes: tuple[str, ...],
) -> Problem:
    """The problem of what comes next in every client's windows."""
    data = [{"tokens": windows.tokens[hand], "mask": windows.mask[hand]} for hand in hands.rows]
    split = split_clients(data, shares=shares, unseen=unseen, rng=rng)._replace(names=hands.names)

    def losses(params: Params, batch: Batch, key: Key | None) -> jax.Array:
        logits = model.apply(params, batch["tokens"][:, :-1], key)
        return optax.losses.softmax_cross_entropy_with_integer_labels(logits, batch["tokens"][:, 1:])

    def loss(params: Params, batch: Batch, key: Key) -> Scalar:
        return per_token(losses(params, batch, key), batch["mask"])

    def accuracy(params: Params, batch: Batch) -> Scalar:
        said = model.apply(params, batch["tokens"][:, :-1], None).argmax(-1)
        return per_token(said == batch["tokens"][:, 1:], batch["mask"])

    metric = Metric("token_accuracy", accuracy, higher_is_better=True)
    entropy = Metric("token_loss", lambda params, batch: per_token(losses(params, batch, None), batch["mask"]), False)
    whole = supervised_problem(name, model.init, loss, metric, split)
    return whole._replace(also=(entropy,), notes=(*(f"{name}: {note}" for note in hands.notes), *notes))


def per_token(values: jax.Array, mask: jax.Array) -> Scalar:
    """The mean over the places that count in each window, and over windows.

    Args:
        values: (windows, places), a number for each prediction.
        mask: Where there is one.

    Returns:
        One number; a window counts as one sample, however long it is.

    Example:
        >>> import jax.numpy as jnp
        >>> from idiolect.data import per_token
        >>> float(per_token(jnp.array([[1.0, 3.0], [4.0, 9.0]]), jnp.array([[True, True], [True, False]])))
        3.0
    """
    counted = jnp.where(mask, values, 0).sum(-1) / jnp.maximum(mask.sum(-1), 1)
    return counted.mean()
