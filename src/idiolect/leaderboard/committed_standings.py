"""Committed tables of the leaderboard whose scores, client by client, were not kept: they stay as they are.

Nobody can be added to such a table. Whoever runs its problem again keeps the scores (`committed_entries`).
"""

import math
from collections.abc import Mapping
from typing import Any

from idiolect.comparison.nesting import Nested
from idiolect.leaderboard.board_tuning import Tuned
from idiolect.leaderboard.duels import Duel
from idiolect.leaderboard.standings import Row, Standing
from idiolect.results.statistics import MeanStd


def read_standing(table: Mapping[str, Any]) -> Standing:
    """A table as it was committed."""
    rows, duels = [_row(row) for row in table["rows"]], [_duel(duel) for duel in table["duels"]]
    return Standing(table["problem"], table["budget"], rows, dict(table["out"]), duels)


def _row(table: Mapping[str, Any]) -> Row:
    spreads = {name: MeanStd(**table[name]) for name in ("own", "worst", "unseen") if table[name] is not None}
    return Row(**{**table, **spreads, "tuned": Tuned(**table["tuned"]), "p": _number(table["p"])})


def _duel(table: Mapping[str, Any]) -> Duel:
    gap = Nested(**{name: _number(value) for name, value in table["difference"].items()})
    return Duel(table["first"], table["second"], gap, _number(table["p"]))


def _number(value: Any) -> Any:
    return math.nan if value is None else value
