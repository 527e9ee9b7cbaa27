"""Texts and lists of tokens as rows of one length, with a mask of the places where something is to be predicted.

A sequence is cut into windows that share no token, so that what is trained on never shows what is scored. A window of
`length` + 1 tokens has `length` predictions, each from the tokens before it; a short one is filled up and masked.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from idiolect.data.cells import Told, is_missing
from idiolect.data.columns import Columns, Part
from idiolect.errors import UserMistake

UNKNOWN = 0  # the token of characters that an alphabet lacks


class Tokens(NamedTuple):
    """Every row's tokens, and how many there are to choose from."""

    rows: list[np.ndarray]
    vocabulary: int


class Windows(NamedTuple):
    """Rows of tokens (length + 1 of them), where a prediction counts, and which row of the source each comes from."""

    tokens: np.ndarray
    mask: np.ndarray
    origin: np.ndarray


def tokens_of(columns: Columns, name: str, alphabet: str | None, vocabulary: int | None, told: Told) -> Tokens:
    """The tokens of a column: of texts their characters, of lists of whole numbers those."""
    cells = columns.column(name, "column")
    if any(isinstance(cell, str) for cell in cells):
        for row, cell in enumerate(cells):
            if not isinstance(cell, str):
                said = "is empty" if is_missing(cell) else f"is {str(cell)[:40]}"
                raise UserMistake(f"column '{name}' {said} in {told(row)}, but must be a text as in the other rows")
        if vocabulary is not None:
            raise UserMistake(
                f"vocabulary is given, but column '{name}' holds texts; say with alphabet which characters count"
            )
        return as_characters(list(cells), alphabet)
    if alphabet is not None:
        raise UserMistake(f"alphabet is given, but column '{name}' holds no texts; leave it out")
    rows = [_whole_numbers(cell, name, told(row)) for row, cell in enumerate(cells)]
    largest = max((int(row.max()) for row in rows if len(row)), default=0)
    limit = largest + 1 if vocabulary is None else vocabulary
    for place, held in enumerate(rows):
        beyond = held[(held < 0) | (held >= limit)]
        if len(beyond):
            raise UserMistake(
                f"column '{name}' has token {beyond[0]} in {told(place)}, but tokens are 0 to {limit - 1}"
            )
    return Tokens(rows, limit)


def as_characters(texts: Sequence[str], alphabet: str | None) -> Tokens:
    """Characters by number, from 1; what the alphabet lacks is 0. By default it is all that occur, in order."""
    known = "".join(sorted(set().union(*texts))) if alphabet is None else alphabet
    if len(set(known)) != len(known) or not known:
        raise UserMistake(f"alphabet is {known!r}, but must name every character once")
    number = {character: place for place, character in enumerate(known, start=1)}
    rows = [np.array([number.get(one, UNKNOWN) for one in text], np.int32) for text in texts]
    return Tokens(rows, len(known) + 1)


def _whole_numbers(cell: Any, name: str, place: str) -> np.ndarray:
    found = None if is_missing(cell) else np.asarray(cell)
    if found is None or found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
        said = "is empty" if is_missing(cell) else f"is {str(cell)[:40]}"
        raise UserMistake(f"column '{name}' {said} in {place}, but must be a text, or a list of whole numbers")
    return found.astype(np.int32)


def cut(rows: Iterable[np.ndarray], length: int) -> Windows:
    """Windows of `length` + 1 tokens; what is left of a row counts if anything can be predicted in it."""
    tokens, sizes, origin = list[np.ndarray](), list[int](), list[int]()
    for place, row in enumerate(rows):
        for start in range(0, len(row), length + 1):
            window = row[start : start + length + 1]
            if len(window) > 1:
                tokens.append(np.pad(window, (0, length + 1 - len(window))))
                sizes.append(len(window))
                origin.append(place)
    if not tokens:
        raise UserMistake("the texts have no two tokens in a row, so there is nothing to predict")
    mask = np.arange(length) < np.array(sizes)[:, None] - 1
    return Windows(np.stack(tokens), mask, np.array(origin))


def places_of(columns: Columns, origin: np.ndarray) -> Columns:
    """The same sources with a row for each window, which stands where the text does that it was cut from."""
    where, starts = columns.where, {name: cells[origin] for name, cells in columns.values.items()}
    single = columns.parts[0].lines if len(columns.parts) == 1 else None
    lines = None if single is None else [single[row] for row in origin]
    return Columns(starts, (Part(where, len(origin), lines),))
