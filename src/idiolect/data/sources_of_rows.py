"""One door for rows: files, frames, arrays and data sets become columns."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from idiolect.data.columns import Columns, joined
from idiolect.data.library_rows import from_mapping, reader_of
from idiolect.data.table_files import read_table
from idiolect.errors import UserMistake


def read_columns(source: Any) -> Columns:
    r"""Columns from whatever holds rows.

    Args:
        source: The path of a CSV, TSV or Parquet file, or several paths; a pandas or Polars frame; a dict of arrays; a
            Hugging Face `datasets.Dataset`; a PyTorch data set, whose items are dicts, or pairs called `x` and `y`.

    Returns:
        The columns by name, and where their rows stand.

    Example:
        >>> from idiolect.data import read_columns
        >>> _ = (tmp / "visits.csv").write_text("user,pages\nann,3\nbob,5\n")
        >>> found = read_columns(tmp / "visits.csv")
        >>> list(found.values), found.place(1).split(" of ")[0]
        (['user', 'pages'], 'line 3')
    """
    if isinstance(source, Columns):
        return source
    if isinstance(source, str | Path):
        return read_table(Path(source))
    if isinstance(source, list | tuple) and source and all(isinstance(one, str | Path) for one in source):
        return joined([read_table(Path(one)) for one in source])
    read = reader_of(source)  # before mappings, since the dict of splits of Hugging Face is one
    if read is not None:
        return read(source)
    if isinstance(source, Mapping):
        return from_mapping(source)
    raise UserMistake(
        f"data is {type(source).__name__}, but must be a file's path or several, a pandas or Polars frame, a dict of "
        "arrays, a Hugging Face data set, or a PyTorch data set"
    )
