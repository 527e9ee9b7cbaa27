"""Which algorithms of the catalog enter the leaderboard, decided by a rule, and why others are left out.

Every line of the catalog enters that is an algorithm of its own here. Two lines whose objective, protocol, sharing and
options are all the same are one algorithm: on the leaderboard a turn has as many local steps for all that have a
server, and what is named for policies differs from what it is named after in nothing else. The first of them stays.
"""

from collections.abc import Sequence
from typing import NamedTuple

from idiolect import catalog
from idiolect.contracts import Sharing
from idiolect.leaderboard.board_problems import matching
from idiolect.options import as_written


class Entrants(NamedTuple):
    """The names that enter, and for those that do not, why."""

    names: list[str]
    left_out: dict[str, str]


def entrants(patterns: Sequence[str] | None = None) -> Entrants:
    """All algorithms, or those that patterns or names such as `maml+buffered` choose; a name is taken at its word."""
    first: dict[str, str] = {}
    left_out = {}
    for name in catalog.ALGORITHMS:
        same = first.setdefault(_identity(name), name)
        if same != name:
            left_out[name] = f"the same as {same} on samples: it differs in the number of local steps only"
    if patterns is None:
        return Entrants(list(first.values()), left_out)
    cells = [name for name in patterns if "+" in name]
    for name in cells:
        catalog.cell(name)
    named = matching(catalog.ALGORITHMS, [name for name in patterns if "+" not in name], "--algorithms")
    return Entrants([*named, *cells], {})


def _identity(name: str) -> str:
    """Everything of a line of the catalog but its name, its source and its local steps."""
    cell = catalog.cell(name)
    options = [as_written(part) for part in catalog.options_of(name, {}, {})]
    sharing = cell.sharing if cell.sharing.private else Sharing()
    return repr((cell.objective, cell.protocol, sharing, options))
