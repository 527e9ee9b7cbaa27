"""Problems from tables: some columns are features, one is the target, and another says whose a row is."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
import optax
from annotated_types import Ge, Lt

from idiolect.contracts import Batch, Key, Metric, Params, Problem, Scalar
from idiolect.data.cells import Told, labels, numbers
from idiolect.data.columns import Columns
from idiolect.data.ownership import LEAST, Owners, Ownership, dealt, teller
from idiolect.data.sources_of_rows import read_columns
from idiolect.data.standardizing import NOTES, Standardize, standardized
from idiolect.errors import UserMistake
from idiolect.options import OneOf
from idiolect.problems.data.client_splits import Shares, split_clients
from idiolect.problems.data.partitions import Deal, iid
from idiolect.problems.images import MakeModel
from idiolect.problems.models.networks import Model, mlp
from idiolect.problems.supervised import supervised_problem

Task = Literal["classification", "regression"]


class _Target(NamedTuple):
    """What is predicted: its rows, how many outputs that takes, what a partition sees of it, and what is told."""

    rows: dict[str, np.ndarray]
    outputs: int
    kinds: np.ndarray
    note: str


def table(
    source: Any,
    *,
    target: str,
    by: Owners | None = None,
    features: Sequence[str] | None = None,
    task: Task = "classification",
    classes: Sequence[Any] | None = None,
    standardize: Standardize = "together",
    clients: Annotated[int, Ge(1)] | None = None,
    smallest: Annotated[int, Ge(LEAST)] | None = None,
    partition: Annotated[Callable[[], Deal], OneOf("partitions")] = iid,
    model: Annotated[MakeModel, OneOf("models")] = mlp,
    unseen: Annotated[float, Ge(0), Lt(1)] = 0.0,
    shares: Shares = Shares(),
    name: str = "table",
    seed: int = 0,
) -> Problem:
    """Rows of a table, one client for each value of a column (`by`), or dealt by a partition, for a model.

    Args:
        source: A CSV, TSV or Parquet file, or several; a pandas or Polars frame; a dict of arrays; a Hugging Face or a
            PyTorch data set.
        target: The column to predict.
        by: The column that says which client a row is of, or an array that does. Without it a partition deals rows.
        features: The columns to predict from; by default all others.
        task: Whether the target is a class or a number.
        classes: All classes, in order; by default those of the (first) file, in order of their names.
        standardize: Bring features, and a number that is a target, to mean 0 and deviation 1 over the training parts of
            all participating clients (`together`), of `each` client by itself, or not (`none`).
        clients: How many a partition makes; with `by`, how many of those there are take part in the experiment.
        smallest: Clients with fewer rows are left out; without it, a client with fewer than 3 is refused.
        partition: Who gets which row where there is no `by`. Of numbers to predict it sees the tenth they are in.
        model: Makes the model from the shape of a row's features and the number of outputs.
        unseen: The share of clients that take no part in training.
        shares: How much of a client's data goes to training, adaptation and validation; the rest is for tests.
        name: What the problem is called.
        seed: Of the order of rows, the deal, and of who is unseen.

    Returns:
        The problem, with the cross-entropy loss and the accuracy, or with the squared error. Of a standardized target
        the error is relative: 1 is what the mean of the training parts would have.

    Example:
        >>> import numpy as np
        >>> from idiolect.data import table
        >>> rng = np.random.default_rng(0)
        >>> data = {"user": np.arange(60) % 4, "age": rng.normal(40, 9, 60), "bought": rng.integers(0, 2, 60)}
        >>> made = table(data, by="user", target="bought")
        >>> made.clients.total, made.clients.names, made.clients.train.rows["features"].shape
        (4, ('0', '1', '2', '3'), (60, 1))
    """
    columns = read_columns(source)
    told, rng = teller(columns, by), np.random.default_rng(seed)
    inputs = _features(columns, features, [target, by], told)
    aim = _classes(columns, target, classes, told) if task == "classification" else _number(columns, target, told)
    if task == "regression" and classes is not None:
        raise UserMistake("classes is given, but task is 'regression', which predicts numbers; leave one of them out")
    hands = dealt(columns, Ownership(by, clients, smallest, partition), aim.kinds, rng)
    rows = {"features": inputs, **aim.rows}
    data = [{key: cells[hand] for key, cells in rows.items()} for hand in hands.rows]
    split = split_clients(data, shares=shares, unseen=unseen, rng=rng)._replace(names=hands.names)
    scaled = ["features"] if task == "classification" else ["features", "target"]
    made = model(inputs.shape[1:], aim.outputs)
    loss, metric = _classification(made) if task == "classification" else _regression(made, standardize != "none")
    notes = [*hands.notes, aim.note]
    notes += [] if standardize == "none" else [f"{' and '.join(scaled)} {NOTES[standardize]}"]
    split, scaling = standardized(split, scaled, standardize)
    whole = supervised_problem(name, made.init, loss, metric, split)
    return whole._replace(notes=tuple(f"{name}: {note}" for note in notes), scaling=scaling)


def _features(columns: Columns, names: Sequence[str] | None, others: Sequence[Any], told: Told) -> np.ndarray:
    """One array: columns of numbers side by side, or the one column of arrays in its own shape."""
    cells = [numbers(columns, name, "features", told) for name in feature_names(columns, names, others)]
    if len(cells) == 1 and cells[0].ndim > 1:
        return cells[0]
    return np.concatenate([one.reshape(len(one), -1) for one in cells], axis=1)


def feature_names(columns: Columns, names: Sequence[str] | None, others: Sequence[Any]) -> list[str]:
    """The columns to predict from, in order: those that are named, or all but the target and the owner's."""
    keys = [one for one in others if isinstance(one, str)]
    chosen = [name for name in columns.values if name not in keys] if names is None else list(names)
    for key in keys:
        columns.column(key, "target" if key == others[0] else "by")
    if not chosen:
        raise UserMistake(f"features is empty, but {columns.where} must have a column to predict from")
    twice = [name for name in chosen if chosen.count(name) > 1 or name == others[0]]
    if twice:
        raise UserMistake(
            f"features has '{twice[0]}', which is {'there twice' if twice[0] != others[0] else 'the target'}"
        )
    return chosen


def _classes(columns: Columns, target: str, given: Sequence[Any] | None, told: Told) -> _Target:
    found = labels(columns, target, given, told)
    shown = ", ".join(found.names[:6]) + (", …" if len(found.names) > 6 else "")
    note = f"{target} has {len(found.names)} classes: {shown}"
    return _Target({"label": found.numbers}, len(found.names), found.numbers, note)


def _number(columns: Columns, target: str, told: Told) -> _Target:
    values = numbers(columns, target, "target", told)
    if values.ndim != 1:
        raise UserMistake(f"column '{target}' has shape {values.shape}, but must have one number for each row")
    tenths = np.searchsorted(np.quantile(values, np.arange(1, 10) / 10), values).astype(np.int32)
    return _Target({"target": values}, 1, tenths, f"{target} is a number")


def _classification(model: Model) -> tuple[Callable[[Params, Batch, Key], Scalar], Metric]:
    def loss(params: Params, batch: Batch, key: Key) -> Scalar:
        logits = model.apply(params, batch["features"], key)
        return optax.losses.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()

    def accuracy(params: Params, batch: Batch) -> Scalar:
        return (model.apply(params, batch["features"], None).argmax(-1) == batch["label"]).mean()

    return loss, Metric("accuracy", accuracy, higher_is_better=True)


def _regression(model: Model, relative: bool) -> tuple[Callable[[Params, Batch, Key], Scalar], Metric]:
    def errors(params: Params, batch: Batch, key: Key | None) -> Scalar:
        return jnp.square(model.apply(params, batch["features"], key)[:, 0] - batch["target"]).mean()

    name = "relative_squared_error" if relative else "squared_error"
    metric = Metric(name, lambda params, batch: errors(params, batch, None), higher_is_better=False)
    return errors, metric
