"""A user's own searches from a table: one row per candidate, as CSV (UTF-8, with commas) or as Parquet.

Columns: `user` and `query` (unique among the queries of a user), text or whole numbers; `clicked` (1 or 0, true or
false); and any number of others, which are all taken for features and must hold finite numbers. The rows of a query
need not stand together; their order is the order of its list. Features are taken as they are: bring them to about the
same scale.
"""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from idiolect.errors import UserMistake
from idiolect.problems.ranking.search_data import Searches

_KEYS = ("user", "query", "clicked")
_TRUTH = {"1": True, "true": True, "1.0": True, "0": False, "false": False, "0.0": False}


class Clicks(NamedTuple):
    """What a table holds: its users by name, in the order in which they appear, their searches, and the features."""

    users: list[str]
    searches: list[Searches]
    features: list[str]


class _Table(NamedTuple):
    """Cells column by column, and where a row stands, in the words of a message."""

    columns: dict[str, list[Any]]
    place: Callable[[int], str]


def read_clicks(path: str | Path) -> Clicks:
    """Every user's searches, lists padded to the longest one; or one sentence on the first thing that is wrong."""
    path = Path(path)
    table = _read_parquet(path) if path.suffix.lower() in (".parquet", ".pq") else _read_csv(path)
    names = [name for name in table.columns if name not in _KEYS]
    missing = [name for name in _KEYS if name not in table.columns]
    if missing:
        raise UserMistake(
            f"{path} has no column '{missing[0]}', but needs user, query, clicked and features; "
            f"it has {', '.join(table.columns)}"
        )
    if not names:
        raise UserMistake(f"{path} has no column beside user, query and clicked, but needs at least one of features")
    if not table.columns["user"]:
        raise UserMistake(f"{path} has no rows, but needs one for every candidate of a query")
    features = np.stack([_numbers(table, name) for name in names], axis=1)
    clicked = np.array([_truth(table, row) for row in range(len(features))])
    people = _people(path, table, clicked)
    longest = max(len(rows) for queries in people.values() for rows in queries)
    searches = [_searches(queries, features, clicked, longest) for queries in people.values()]
    return Clicks(list(people), searches, names)


def _people(path: Path, table: _Table, clicked: np.ndarray) -> dict[str, list[list[int]]]:
    """The rows of each query of each user, with exactly one click in every query."""
    people: dict[str, dict[str, list[int]]] = {}
    for row, (user, query) in enumerate(zip(table.columns["user"], table.columns["query"], strict=True)):
        for name, cell in (("user", user), ("query", query)):
            if cell is None or not str(cell).strip():
                raise UserMistake(f"{table.place(row)}: {name} is empty, but every row must say whose query it is of")
            if not isinstance(cell, str | int) or isinstance(cell, bool):
                raise UserMistake(f"{table.place(row)}: {name} is {cell!r}, but must be text or a whole number")
        people.setdefault(str(user).strip(), {}).setdefault(str(query).strip(), []).append(row)
    for user, queries in people.items():
        for query, rows in queries.items():
            clicks = int(clicked[rows].sum())
            if clicks != 1:
                raise UserMistake(
                    f"{table.place(rows[0])}: query '{query}' of user '{user}' has {clicks} clicks among "
                    f"{len(rows)} candidates, but must have exactly one"
                )
        if len(queries) < 3:
            raise UserMistake(
                f"{path}: user '{user}' has only {len(queries)} queries, but needs at least 3: "
                "to train, to adapt and to test; leave such users out"
            )
    return {user: list(queries.values()) for user, queries in people.items()}


def _searches(queries: Sequence[Sequence[int]], features: np.ndarray, clicked: np.ndarray, longest: int) -> Searches:
    padded = np.zeros((len(queries), longest, features.shape[1]), np.float32)
    for query, rows in enumerate(queries):
        padded[query, : len(rows)] = features[rows]
    lengths = np.array([len(rows) for rows in queries])
    places = np.array([clicked[rows].argmax() for rows in queries], np.int32)
    return {"features": padded, "mask": np.arange(longest) < lengths[:, None], "clicked": places}


def _numbers(table: _Table, name: str) -> np.ndarray:
    """A column of features as numbers that are finite in single precision."""
    values = np.empty(len(table.columns[name]), np.float32)
    for row, cell in enumerate(table.columns[name]):
        try:
            with np.errstate(over="ignore"):
                values[row] = float(cell)
        except (TypeError, ValueError):
            values[row] = np.nan
        if not np.isfinite(values[row]):
            shown = "empty" if cell is None or cell == "" else f"'{cell}'"
            raise UserMistake(f"{table.place(row)}: {name} is {shown}, but a feature must be a finite number")
    return values


def _truth(table: _Table, row: int) -> bool:
    cell = table.columns["clicked"][row]
    value = _TRUTH.get(str(cell).strip().lower())
    if value is None:
        raise UserMistake(f"{table.place(row)}: clicked is '{cell}', but must be 1 or 0")
    return value


def _read_csv(path: Path) -> _Table:
    lines: list[int] = []
    cells: list[list[str]] = []
    try:
        if path.exists() and not path.is_file():
            raise OSError("it is no file")  # a device would never end
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = [name.strip() for name in next(reader, [])]
            _check_header(path, header)
            for row in reader:
                if not row:
                    continue  # a blank line
                if len(row) != len(header):
                    raise UserMistake(
                        f"{path}, line {reader.line_num} has {len(row)} cells, but the header has {len(header)}"
                    )
                lines.append(reader.line_num)
                cells.append(row)
    except (OSError, UnicodeDecodeError, csv.Error) as reason:
        raise UserMistake(
            f"{path} cannot be read: {reason}; give a CSV or Parquet file with a row per candidate"
        ) from None
    columns = {name: [row[place] for row in cells] for place, name in enumerate(header)}
    return _Table(columns, lambda row: f"{path}, line {lines[row]}")


def _read_parquet(path: Path) -> _Table:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UserMistake(
            f"{path} is a Parquet file, which needs pyarrow: pip install pyarrow, or give a CSV"
        ) from None
    try:
        with path.open("rb") as file:
            content = parquet.read_table(file)
    except (OSError, pyarrow.ArrowException) as reason:
        raise UserMistake(
            f"{path} cannot be read: {reason}; give a CSV or Parquet file with a row per candidate"
        ) from None
    _check_header(path, content.column_names)
    columns = {name: content[name].to_pylist() for name in content.column_names}
    return _Table(columns, lambda row: f"{path}, row {row + 1}")


def _check_header(path: Path, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise UserMistake(f"{path} has two columns '{twice[0]}', but every column needs a name of its own")
