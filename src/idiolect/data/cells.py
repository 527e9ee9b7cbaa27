"""Numbers, classes and owners from the cells of a column; what cannot be one is told with column, row and client."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from idiolect.data.columns import Columns, listed
from idiolect.errors import UserMistake

Told = Callable[[int], str]  # where a row stands and whose it is, for a sentence


class Labels(NamedTuple):
    """The class of every row as a number, and the classes by name in the order of their numbers."""

    numbers: np.ndarray
    names: tuple[str, ...]


def is_missing(cell: Any) -> bool:
    """Is there nothing in this cell?"""
    return cell is None or (isinstance(cell, str) and not cell) or (isinstance(cell, float) and math.isnan(cell))


def owners(columns: Columns, by: str | Sequence[Any] | np.ndarray) -> np.ndarray:
    """Who holds each row, as text: from a column, or from one's own array."""
    cells = columns.column(by, "by") if isinstance(by, str) else np.asarray(by)
    named = f"column '{by}'" if isinstance(by, str) else "by"
    if cells.ndim != 1 or len(cells) != columns.size:
        raise UserMistake(f"{named} has shape {cells.shape}, but must say for each of {columns.size} rows whose it is")
    found = np.empty(columns.size, object)
    for row, cell in enumerate(cells.tolist()):
        if is_missing(cell):
            raise UserMistake(f"{named} is empty in {columns.place(row)}, but every row must say which client it is of")
        found[row] = as_name(cell)
    return found


def as_name(cell: Any) -> str:
    """A cell as the name of a client or class; whole numbers look alike, however they are stored."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    return str(cell)


def in_order(names: Iterable[str]) -> list[str]:
    """Names in the order of people: numbers by size, before texts by letter."""
    return sorted(set(names), key=lambda name: (0, int(name), name) if _is_whole(name) else (1, 0, name))


def _is_whole(name: str) -> bool:
    return name.removeprefix("-").isdecimal() and len(name) < 4000


def numbers(columns: Columns, name: str, option: str, told: Told) -> np.ndarray:
    """A column of finite numbers, or of arrays of them that have one shape, in 32 bits."""
    cells = columns.column(name, option)
    if cells.dtype.kind not in "biuf":
        cells = _as_numbers(cells, name, told)
    with np.errstate(over="ignore"):
        found = cells.astype(np.float32)
    bad = ~np.isfinite(found.reshape(len(found), -1)).all(axis=1)
    if bad.any():
        row = int(np.argmax(bad))
        shown = cells[row] if cells.ndim == 1 else cells[row][~np.isfinite(found[row])][0]
        raise _no_number(name, shown, told(row))
    return found


def _as_numbers(cells: np.ndarray, name: str, told: Told) -> np.ndarray:
    found = [_number(cell, name, row, told) for row, cell in enumerate(cells)]
    shapes = [np.shape(value) for value in found]
    for row, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise UserMistake(
                f"column '{name}' has shape {shape} in {told(row)}, but {shapes[0]} in {told(0)}; rows must be alike"
            )
    return np.asarray(found, np.float64)


def _number(cell: Any, name: str, row: int, told: Told) -> Any:
    if is_missing(cell):
        raise _no_number(name, None if cell == "" else cell, told(row))
    try:
        found = np.asarray(cell, np.float64) if not isinstance(cell, str) else float(_without_bars(cell))
    except (TypeError, ValueError):
        raise _no_number(name, cell, told(row)) from None
    return found


def _without_bars(text: str) -> str:
    if "_" in text:  # Python reads 1_000; a person may have meant something else
        raise ValueError(text)
    return text


def _no_number(name: str, cell: Any, place: str) -> UserMistake:
    said = "is empty" if cell is None else f"is {_shown(cell)}"
    return UserMistake(
        f"column '{name}' {said} in {place}, but must be a finite number; mend the row, or leave it or the column out"
    )


def _shown(cell: Any) -> str:
    text = repr(cell.item() if isinstance(cell, np.generic) else cell)
    return text if len(text) <= 60 else f"{text[:57]}..."


def labels(columns: Columns, target: str, given: Sequence[Any] | None, told: Told) -> Labels:
    """The classes of a column: those that are given, else those that its first file has."""
    cells = columns.column(target, "target")
    if cells.ndim != 1:
        raise UserMistake(f"column '{target}' has shape {cells.shape}, but must have one class for each row")
    found = [_class_name(cell, target, row, told) for row, cell in enumerate(cells.tolist())]
    names = tuple(map(as_name, given)) if given is not None else tuple(in_order(found[: columns.parts[0].size]))
    if len(set(names)) != len(names):
        raise UserMistake(f"classes has '{next(n for n in names if names.count(n) > 1)}' twice")
    number = {name: place for place, name in enumerate(names)}
    for row, name in enumerate(found):
        if name not in number:
            whose = "classes has" if given is not None else f"{columns.parts[0].where} has"
            raise UserMistake(
                f"column '{target}' is '{name}' in {told(row)}, a class that is not known: {whose} {listed(names)}; "
                "name all of them with classes"
            )
    if len(names) < 2:
        raise UserMistake(f"column '{target}' has one class only, {listed(names)}, so there is nothing to learn")
    return Labels(np.array([number[name] for name in found], np.int32), names)


def _class_name(cell: Any, target: str, row: int, told: Told) -> str:
    if is_missing(cell):
        raise UserMistake(f"column '{target}' is empty in {told(row)}, but every row must have a class")
    if isinstance(cell, str) and _is_whole(cell):
        return cell  # however long it is
    value = _fraction(cell)
    if value is not None and not value.is_integer():
        raise UserMistake(
            f"column '{target}' is {value:g} in {told(row)}, but classes are texts or whole numbers; say task = "
            "'regression' to predict numbers"
        )
    return as_name(cell if value is None else value)


def _fraction(cell: Any) -> float | None:
    """A number that may be none of a class; None for texts and truths."""
    if isinstance(cell, bool | np.bool_):
        return None
    try:
        value = float(cell)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None
