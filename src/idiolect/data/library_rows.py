"""Rows from what other libraries hold: pandas, Polars, Arrow, Hugging Face, PyTorch. None of them is imported here."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from idiolect.data.columns import Columns, Part, as_objects
from idiolect.errors import UserMistake


def from_mapping(arrays: Mapping[str, Any], where: str = "the arrays") -> Columns:
    """Columns from arrays by name; all must have as many rows."""
    values = {str(name): as_column(cells) for name, cells in arrays.items()}
    sizes = {name: len(cells) for name, cells in values.items()}
    if len(set(sizes.values())) != 1:
        told = ", ".join(f"{name} {size}" for name, size in sizes.items()) or "none"
        raise UserMistake(f"columns must have equally many rows, but {where} have {told}")
    return Columns(values, (Part(where, next(iter(sizes.values()))),))


def from_pandas(frame: Any) -> Columns:
    """Columns from a pandas frame; what is missing becomes None in columns of objects."""
    values = {}
    for name in frame.columns:
        column = frame[name]
        plain = isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf"
        values[str(name)] = column.to_numpy() if plain else as_objects(_nothing_is_none(column))
    return _columns(values, "the pandas frame", len(frame))


def _nothing_is_none(column: Any) -> list[Any]:
    missing = column.isna().to_numpy()
    return [None if gone else cell for cell, gone in zip(column.tolist(), missing, strict=True)]


def from_polars(frame: Any, where: str = "the Polars frame") -> Columns:
    """Columns from a Polars frame; a lazy one is collected."""
    frame = frame.collect() if hasattr(frame, "collect") else frame
    values = {}
    for name in frame.columns:
        column = frame[name]
        plain = column.dtype.is_numeric() and not column.dtype.is_decimal() and not column.null_count()
        values[name] = column.to_numpy() if plain else as_column(column.to_list())
    return _columns(values, where, frame.height)


def from_arrow(table: Any, where: str) -> Columns:
    """Columns from an Arrow table."""
    return _columns({name: as_column(table[name].to_pylist()) for name in table.column_names}, where, table.num_rows)


def from_hugging_face(dataset: Any) -> Columns:
    """Columns from a `datasets.Dataset`, decoded as the library does it."""
    if type(dataset).__name__ != "Dataset":
        raise UserMistake(
            f"data is a {type(dataset).__name__} of Hugging Face, but must be a datasets.Dataset: take one of its "
            "splits, or put them together with datasets.concatenate_datasets"
        )
    values = {name: as_column(list(dataset[name])) for name in dataset.column_names}
    return _columns(values, "the Hugging Face data set", len(dataset))


def from_torch(dataset: Any, names: Sequence[str] = ("x", "y")) -> Columns:
    """Columns from a `torch.utils.data.Dataset` with a length; items are dicts, or tuples that `names` names."""
    if not hasattr(dataset, "__len__"):
        raise UserMistake(
            f"data is {type(dataset).__name__}, a PyTorch data set without a length; give one that has it"
        )
    items = [dataset[place] for place in range(len(dataset))]
    if items and not isinstance(items[0], Mapping):
        items = [dict(zip(names, item if isinstance(item, tuple | list) else (item,), strict=False)) for item in items]
    keys = list(items[0]) if items else []
    values = {str(key): as_column([item[key] for item in items]) for key in keys}
    return _columns(values, "the PyTorch data set", len(items))


def _columns(values: Mapping[str, np.ndarray], where: str, size: int) -> Columns:
    if not size or not values:
        raise UserMistake(f"{where} has no rows")
    return Columns(values, (Part(where, size),))


def as_column(cells: Any) -> np.ndarray:
    """A column: numbers of one shape as an array of numbers, all else as objects with one axis."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        return cells
    held = [_plain(cell) for cell in cells]
    if any(cell is None or isinstance(cell, str) for cell in held):
        return as_objects(held)
    try:
        found = np.asarray(held)
    except ValueError:  # lists of several lengths
        return as_objects(held)
    return found if found.dtype.kind in "biuf" and found.ndim else as_objects(held)


def _plain(cell: Any) -> Any:
    """A tensor or a picture as an array; everything else as it is."""
    return np.asarray(cell) if hasattr(cell, "__array__") and not isinstance(cell, str) else cell


def reader_of(source: Any) -> Callable[[Any], Columns] | None:
    """What reads a value of another library, by where its class is written; None if nothing here does."""
    homes = [kind.__module__ for kind in type(source).__mro__]
    known: dict[str, Callable[[Any], Columns]] = {
        "pandas": from_pandas,
        "polars": from_polars,
        "datasets": from_hugging_face,
        "torch": from_torch,
    }
    for home in homes:
        library = home.partition(".")[0]
        if library == "torch" and not home.startswith("torch.utils.data"):
            continue
        if library in known:
            return known[library]
    return None
