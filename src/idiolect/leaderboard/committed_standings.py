"""Tables of the leaderboard that are committed: one file for each problem, from which the page is written.

All problems together take a day at the desk, so they are run one by one, and what each came to is kept in the sources
with what it was asked and by which code it was computed. A file that was made at another size is not taken for one
of this size.
"""

import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from idiolect.comparison.nesting import Nested
from idiolect.files import write_atomically
from idiolect.leaderboard.board_problems import SHARES_OF_BUDGET, Scale, problem_choice
from idiolect.leaderboard.board_tuning import Tuned
from idiolect.leaderboard.duels import Duel
from idiolect.leaderboard.standings import Row, Standing
from idiolect.results.statistics import MeanStd

COMMITTED = Path(str(resources.files("idiolect.leaderboard"))) / "committed"
_DIGITS = 9


class Kept(NamedTuple):
    """What is committed of a problem."""

    standings: list[Standing]
    code: list[str]  # digests of what computed it


def commit(
    problem: str, scale: Scale, standings: Sequence[Standing], code: Sequence[str], out: Path = COMMITTED
) -> Path:
    """Write down what a problem came to."""
    told = {"asked": _asked(problem, scale), "code": list(code), "standings": [_plain(one) for one in standings]}
    file = out / f"{problem}.json"
    out.mkdir(exist_ok=True)
    write_atomically(file, (json.dumps(told, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())
    return file


def committed(problem: str, scale: Scale, out: Path = COMMITTED) -> Kept | None:
    """What is committed of a problem at this size, if anything is."""
    file = out / f"{problem}.json"
    told = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    if told.get("asked") != _asked(problem, scale):
        return None
    return Kept([_standing(table) for table in told["standings"]], told["code"])


def all_committed(
    scale: Scale, names: Sequence[str], out: Path = COMMITTED
) -> tuple[list[Standing], list[str], list[str]]:
    """The tables of all problems, sentences on those that are not committed, and the digests of what computed them."""
    found = {problem: committed(problem, scale, out) for problem in scale.problems}
    there = {problem: kept for problem, kept in found.items() if kept is not None}
    missing = [
        f"{problem} has not been run at this size: idiolect leaderboard --problems {problem} --commit"
        for problem in found
        if problem not in there
    ]
    standings = [_with_absent(standing, names) for kept in there.values() for standing in kept.standings]
    return standings, missing, sorted({each for kept in there.values() for each in kept.code})


def _with_absent(standing: Standing, names: Sequence[str]) -> Standing:
    """The table, which says who has not been run for it."""
    there = {row.name for row in standing.rows} | standing.out.keys()
    absent = {name: "it has not been run here at this size" for name in names if name not in there}
    return standing._replace(out={**standing.out, **absent})


def _asked(problem: str, scale: Scale) -> dict[str, Any]:
    """Everything that decides the numbers, but the code."""
    choice = problem_choice(problem, scale)
    asked = {
        "problem": {"name": choice.name, **choice.options},
        "trials": scale.trials,
        "tuning_seeds": scale.tuning_seeds,
        "seeds": scale.seeds,
        "evaluations": scale.evaluations,
        "time": scale.time,
        "scored_at": SHARES_OF_BUDGET,
    }
    plain: dict[str, Any] = _plain(asked)
    return plain


def _plain(value: Any) -> Any:
    """As JSON has it: records by the names of their fields, and null for what is not a number."""
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value


def _standing(table: Mapping[str, Any]) -> Standing:
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
