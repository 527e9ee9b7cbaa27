"""Who holds which row: a client for each value of a column, or a partition that deals rows without owners."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from idiolect.data.cells import Told, in_order, numbers, owners
from idiolect.data.columns import Columns
from idiolect.data.sources_of_rows import read_columns
from idiolect.errors import UserMistake
from idiolect.problems.data.partitions import Deal, iid

LEAST = 3  # rows of a client: to train, to adapt and to test
Owners: TypeAlias = str | Sequence[Any] | np.ndarray


class Hands(NamedTuple):
    """Every client's row numbers, the clients' names if they have any, and what a user may want to know of it.

    Args:
        rows: One array of row numbers for each client.
        names: As the data has them; empty where a partition has made the clients.
        notes: Sentences.
    """

    rows: list[np.ndarray]
    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class ClientRows(NamedTuple):
    """Every client's arrays, for a loss or a module of one's own, and the clients' names.

    Args:
        names: Client k is called `names[k]`.
        rows: For each client a dict of arrays whose first axis runs over its samples.
    """

    names: tuple[str, ...]
    rows: list[dict[str, np.ndarray]]


class Ownership(NamedTuple):
    """How rows get to clients.

    Args:
        by: The column that says whose a row is, or an array that does; None to deal them by a partition.
        clients: How many; with `by`, that many of those there are, drawn at random, whatever the seed.
        smallest: Clients with fewer rows are left out; without it, a client with too few is refused.
        partition: Makes the deal where there is no `by`.
    """

    by: Owners | None = None
    clients: int | None = None
    smallest: int | None = None
    partition: Callable[[], Deal] = iid


def teller(columns: Columns, by: Owners | None) -> Told:
    """Says where a row stands and, where that is known, whose it is."""
    if by is None:
        return columns.place
    held = owners(columns, by)
    return lambda row: f"{columns.place(row)} (client '{held[row]}')"


def dealt(columns: Columns, how: Ownership, labels: np.ndarray, rng: np.random.Generator, what: str = "rows") -> Hands:
    """Every client's rows. A partition sees `labels`; a column or an array of owners does without."""
    if how.by is None:
        return _by_partition(how, labels, rng)
    if getattr(how.partition, "func", how.partition) is not iid:
        raise UserMistake("partition is given, but by says already which client holds which row; leave one of them out")
    return by_owner(columns, owners(columns, how.by), how, what)


def by_owner(columns: Columns, held: np.ndarray, how: Ownership, what: str = "rows") -> Hands:
    """A client for each owner, in the order of their names."""
    names = in_order(held)
    number = {name: place for place, name in enumerate(names)}
    code = np.array([number[name] for name in held])
    order = np.argsort(code, kind="stable")
    rows = np.split(order, np.cumsum(np.bincount(code, minlength=len(names)))[:-1])
    kept, notes = list(range(len(names))), list[str]()
    if how.smallest is not None:
        kept = [place for place in kept if len(rows[place]) >= max(how.smallest, LEAST)]
        left = len(names) - len(kept)
        notes += (
            [f"{left} of {len(names)} clients have fewer than {how.smallest} {what} and are left out"] if left else []
        )
        if not kept:
            raise UserMistake(f"smallest is {how.smallest}, but no client has that many {what}")
    for place in kept:
        if (few := len(rows[place])) < LEAST:
            raise UserMistake(
                f"client '{names[place]}' has {few} {what} (the first in {columns.place(rows[place][0])}), but needs "
                f"at least {LEAST}: to train, to adapt and to test; leave such clients out with smallest = {LEAST}"
            )
    if how.clients is not None:
        kept = _some(kept, how.clients)
    return Hands([rows[place] for place in kept], tuple(names[place] for place in kept), tuple(notes))


def _some(kept: list[int], clients: int) -> list[int]:
    """That many of them, drawn at random but for all seeds alike, so that what is compiled for one serves all."""
    if clients > len(kept):
        raise UserMistake(f"clients is {clients}, but there are only {len(kept)}")
    return sorted(np.random.default_rng(0).permutation(kept)[:clients].tolist())


def _by_partition(how: Ownership, labels: np.ndarray, rng: np.random.Generator) -> Hands:
    if how.clients is None:
        raise UserMistake(
            "by is missing: name the column that says which client a row is of, or say with clients how "
            "many a partition is to deal the rows to"
        )
    if how.smallest is not None:
        raise UserMistake("smallest leaves out clients that by names, but by is missing")
    return Hands(how.partition()(labels, how.clients, rng))


def by_client(
    source: Any, *, by: Owners, columns: Sequence[str] | None = None, smallest: int | None = None
) -> ClientRows:
    """One client for each value of a column, for a loss or a module of one's own.

    Args:
        source: What `read_columns` reads: a file, a frame, arrays, a data set.
        by: The column that says whose a row is, or an array that does.
        columns: Those that are wanted; by default all but `by`. They must hold numbers.
        smallest: Clients with fewer rows are left out; without it, a client with fewer than 3 is refused.

    Returns:
        The clients' names, and for each a dict of arrays, as `idiolect.problem` and `idiolect.torch.problem` want.

    Example:
        >>> import numpy as np
        >>> from idiolect.data import by_client
        >>> found = by_client({"x": np.arange(8.0), "y": np.arange(8)}, by=["ann", "bob"] * 4)
        >>> found.names, found.rows[1]["y"].tolist()
        (('ann', 'bob'), [1, 3, 5, 7])
    """
    table = read_columns(source)
    hands, told = by_owner(table, owners(table, by), Ownership(smallest=smallest)), teller(table, by)
    key = by if isinstance(by, str) else None
    wanted = [name for name in table.values if name != key] if columns is None else columns
    arrays = {name: _as_they_are(table, name, told) for name in wanted}
    return ClientRows(hands.names, [{name: cells[hand] for name, cells in arrays.items()} for hand in hands.rows])


def _as_they_are(table: Columns, name: str, told: Told) -> np.ndarray:
    """Whole numbers and truths stay what they are; everything else must be finite numbers."""
    cells = table.column(name, "columns")
    return cells if cells.dtype.kind in "biu" else numbers(table, name, "columns", told)
