"""Small tables, as text and as arrays, that the tests of this folder share."""

from pathlib import Path

import numpy as np

USERS = ("ann", "bob", "cem")
ROWS = 10  # of each user


def visits(seed: int = 0) -> dict[str, list[object]]:
    """Three users' visits in turn: two numbers, a class, and a number to predict."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[object]] = {"user": [], "age": [], "pages": [], "bought": [], "paid": []}
    for row in range(ROWS * len(USERS)):
        age, pages = round(float(rng.normal(40, 9)), 3), int(rng.integers(1, 20))
        cells = (USERS[row % 3], age, pages, "yes" if row % 4 else "no", round(2.5 * pages + age, 3))
        for column, cell in zip(found.values(), cells, strict=True):
            column.append(cell)
    return found


def as_csv(columns: dict[str, list[object]]) -> str:
    """The same as a text; line 1 has the names."""
    rows = zip(*columns.values(), strict=True)
    return "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n"


def write_visits(folder: Path, name: str = "visits.csv", **changed: tuple[int, object]) -> Path:
    """The table as a file, with single cells changed: `age=(4, "n/a")` is row 4, which is line 6."""
    columns = visits()
    for column, (row, cell) in changed.items():
        columns[column][row] = cell
    path = folder / name
    path.write_text(as_csv(columns))
    return path
