"""What the leaderboard came to, as it is committed: one file for each problem, with every client's scores.

All problems together take a day at the desk, so they are run one by one, or some algorithms at a time, and what each
came to is kept in the sources with what it was asked and by which code it was computed. Tables are made of all that is
there, so that who is added later is compared with the others on the same clients of the same seeds. A file that was
made at another size is not taken for one of this size.
"""

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from idiolect.files import write_atomically
from idiolect.leaderboard.board_cells import COLUMNS, Outcome
from idiolect.leaderboard.board_problems import SHARES_OF_BUDGET, Scale, problem_choice
from idiolect.leaderboard.board_tuning import Tuned
from idiolect.leaderboard.budgets import BUDGETS, Spent
from idiolect.leaderboard.contest import Entry
from idiolect.leaderboard.standings import Standing, standing
from idiolect.leaderboard.turn_costs import TurnCost

COMMITTED = Path(str(resources.files("idiolect.leaderboard"))) / "committed"
_DIGITS = 6


def commit(problem: str, scale: Scale, entries: Sequence[Entry], out: Path = COMMITTED) -> Path:
    """Write down what some algorithms came to on a problem, beside those that are there already."""
    kept = {entry.name: entry for entry in [*committed(problem, scale, out), *entries]}
    # A line for each algorithm, so that a change of one is seen as such.
    lines = [f" {json.dumps(name)}: {_compact(_written(entry))}" for name, entry in sorted(kept.items())]
    text = f'{{"asked": {_compact(_asked(problem, scale))},\n"entries": {{\n' + ",\n".join(lines) + "\n}}\n"
    out.mkdir(exist_ok=True)
    write_atomically(out / f"{problem}.json", text.encode())
    return out / f"{problem}.json"


def committed(problem: str, scale: Scale, out: Path = COMMITTED) -> list[Entry]:
    """What is committed of a problem at this size, if anything is."""
    return [_read(name, entry) for name, entry in _told(problem, scale, out).get("entries", {}).items()]


def all_committed(
    scale: Scale, names: Sequence[str], out: Path = COMMITTED
) -> tuple[list[Standing], list[str], list[str]]:
    """The tables of all problems, sentences on those that are not committed, and the digests of what computed them."""
    standings, missing, code = list[Standing](), list[str](), set[str]()
    for problem in scale.problems:
        entries = committed(problem, scale, out)
        standings += [_with_absent(standing(problem, budget, entries), names) for budget in BUDGETS if entries]
        code |= {each for entry in entries for each in entry.code}
        if not entries:
            missing.append(
                f"{problem} has not been run at this size: idiolect leaderboard --problems {problem} --commit"
            )
    return standings, missing, sorted(code)


def _told(problem: str, scale: Scale, out: Path) -> dict[str, Any]:
    """What the file of a problem says, if it is of this size."""
    file = out / f"{problem}.json"
    told: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return told if told.get("asked") == json.loads(_compact(_asked(problem, scale))) else {}


def _with_absent(table: Standing, names: Sequence[str]) -> Standing:
    """The table, which says who has not been run for it."""
    there = {row.name for row in table.rows} | table.out.keys()
    absent = {name: "it has not been run here at this size" for name in names if name not in there}
    return table._replace(out={**table.out, **absent})


def _asked(problem: str, scale: Scale) -> dict[str, Any]:
    """Everything that decides the numbers, but the code."""
    choice = problem_choice(problem, scale)
    return {
        "problem": {"name": choice.name, **choice.options},
        "trials": scale.trials,
        "tuning_seeds": scale.tuning_seeds,
        "seeds": scale.seeds,
        "evaluations": scale.evaluations,
        "time": scale.time,
        "scored_at": SHARES_OF_BUDGET,
    }


def _written(entry: Entry) -> dict[str, Any]:
    outcomes = {
        budget: {str(seed): _outcome(outcome) for seed, outcome in found.items()}
        for budget, found in entry.outcomes.items()
    }
    tuned = {budget: one._asdict() for budget, one in entry.tuned.items()}
    cost = None if entry.cost is None else entry.cost._asdict()
    return {**entry._asdict(), "cost": cost, "tuned": tuned, "outcomes": outcomes}


def _outcome(outcome: Outcome | None) -> dict[str, Any] | None:
    """Scores as lists: clients are numbered, so their names need not be told."""
    if outcome is None:
        return None
    scores = {
        column: [_rounded(scores[client]) for client in sorted(scores, key=int)]
        for column, scores in outcome.scores.items()
    }
    return {"scores": scores, "unseen": list(outcome.unseen), "spent": outcome.spent._asdict()}


def _read(name: str, told: Mapping[str, Any]) -> Entry:
    outcomes = {
        budget: {int(seed): _read_outcome(outcome) for seed, outcome in found.items()}
        for budget, found in told["outcomes"].items()
    }
    tuned = {budget: Tuned(**one) for budget, one in told["tuned"].items()}
    cost = None if told["cost"] is None else TurnCost(**told["cost"])
    return Entry(name, told["source"], cost, tuned, outcomes, told["refused"], tuple(told["code"]))


def _read_outcome(told: Mapping[str, Any] | None) -> Outcome | None:
    if told is None:
        return None
    scores = {column: {str(client): score for client, score in enumerate(told["scores"][column])} for column in COLUMNS}
    return Outcome(scores, told["unseen"], Spent(**told["spent"]))


def _rounded(score: float) -> float:
    return float(f"{score:.{_DIGITS}g}")


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
