"""Tables from files: CSV by the standard library, Parquet by what the user has installed. Nothing in them is run."""

import csv
import io
from pathlib import Path
from typing import Any

from idiolect.data.columns import Columns, Part, as_objects
from idiolect.data.library_rows import from_arrow, from_polars
from idiolect.errors import UserMistake
from idiolect.files import read_whole

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_PARQUET = (".parquet", ".pq")
SUFFIXES = (*_SEPARATORS, *_PARQUET)


def read_table(path: Path) -> Columns:
    """The columns of a CSV, TSV or Parquet file, as its suffix says; cells of text files are texts."""
    kind = path.suffix.lower()
    if kind in _PARQUET:
        return _read_parquet(path)
    if kind in _SEPARATORS:
        return _read_csv(path, _SEPARATORS[kind])
    raise UserMistake(f"file {path} must end in one of {', '.join(SUFFIXES)}")


def _read_csv(path: Path, separator: str) -> Columns:
    try:
        text = read_whole(path, "file").decode("utf-8-sig")
    except UnicodeDecodeError as reason:
        raise UserMistake(f"file {path} is not UTF-8: {reason}") from None
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_header(header, path)
        rows, lines, began = list[list[str]](), list[int](), reader.line_num
        for row in reader:
            if row:  # a blank line has no cells
                rows.append(row)
                lines.append(began + 1)  # where it begins; a cell in quotes may go on
            began = reader.line_num
    except csv.Error as reason:
        raise UserMistake(f"line {reader.line_num} of {path} is not CSV: {reason}") from None
    part = Part(str(path), len(rows), lines)
    for place, row in enumerate(rows):
        if len(row) != len(header):
            raise UserMistake(f"{part.place(place)} has {len(row)} cells, but the header has {len(header)}")
    _check_rows(len(rows), path)
    columns = zip(*rows, strict=True)
    return Columns(
        {name: as_objects([cell.strip() for cell in cells]) for name, cells in zip(header, columns, strict=True)},
        (part,),
    )


def _check_header(header: list[str], path: Path) -> None:
    if not any(header):
        raise UserMistake(f"file {path} is empty, but must begin with a line of column names")
    if "" in header:
        raise UserMistake(f"line 1 of {path} has no name for column {header.index('') + 1}; give every column one")
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise UserMistake(f"line 1 of {path} has the column '{twice[0]}' twice")


def _check_rows(size: int, path: Path) -> None:
    if not size:
        raise UserMistake(f"file {path} has column names, but no rows")


def _read_parquet(path: Path) -> Columns:
    content = io.BytesIO(read_whole(path, "file"))
    read = _parquet_reader()
    try:
        found: Columns = read(content, str(path))
    except UserMistake:
        raise
    except Exception as reason:  # every library has its own
        raise UserMistake(f"file {path} is not Parquet that can be read ({type(reason).__name__})") from None
    _check_rows(found.size, path)
    return found


def _parquet_reader() -> Any:
    """A function of the bytes and the name, by pyarrow if it is there, else by Polars."""
    try:
        import pyarrow.parquet

        return lambda content, name: from_arrow(pyarrow.parquet.read_table(content), name)
    except ImportError:
        pass
    try:
        import polars

        return lambda content, name: from_polars(polars.read_parquet(content), name)
    except ImportError:
        raise UserMistake("Parquet files need pyarrow or Polars; pip install 'idiolect[tables]'") from None
