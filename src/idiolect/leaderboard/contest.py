"""The whole leaderboard: every algorithm tuned and scored on every problem; what is finished is not run again."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from idiolect import catalog
from idiolect.engines import Workers
from idiolect.errors import Interrupted, UserMistake
from idiolect.experiments.describing import write_experiment
from idiolect.experiments.recipe_tables import NamedAlgorithm
from idiolect.leaderboard.board_cells import Arena, Contender, Outcome, arena
from idiolect.leaderboard.board_problems import SHARES_OF_BUDGET, Scale
from idiolect.leaderboard.board_tuning import Tuned, tune_entrant
from idiolect.leaderboard.budgets import BUDGETS, BudgetName, Spent, Unaffordable
from idiolect.leaderboard.search_ranges import line_of
from idiolect.leaderboard.turn_costs import TurnCost
from idiolect.papers.kept_results import kept
from idiolect.papers.provenance import code
from idiolect.tuning.search_space import with_settings


class Entry(NamedTuple):
    """One algorithm on one problem."""

    name: str
    source: str
    cost: TurnCost | None
    tuned: Mapping[str, Tuned]  # by budget
    outcomes: Mapping[str, Mapping[int, Outcome | None]]  # by budget and seed; None where it diverged
    refused: str = ""  # why it is not scored
    code: tuple[str, ...] = ()  # digests of what computed it


class Request(NamedTuple):
    """One running of the leaderboard. What is finished under `out` is not run again."""

    scale: Scale
    problems: Sequence[str]
    names: Sequence[str]
    out: Path
    data_dir: Path | None = None
    progress: Callable[[str, float], None] = lambda what, share: None  # what is being done, and how much of all is done
    finished: Callable[[str, Entry], None] = lambda problem, entry: None
    stop: Callable[[], bool] = lambda: False


def compete(request: Request) -> dict[str, list[Entry]]:
    """Run what is missing; by problem, what became of every algorithm."""
    common = sorted(set(request.scale.seeds) & set(request.scale.tuning_seeds))
    if common:
        raise UserMistake(f"--seeds has {common[0]}, on which settings are chosen; score on other seeds")
    board, total = {}, len(request.problems) * len(request.names)
    for problem in request.problems:
        place, board[problem] = arena(problem, request.scale, request.data_dir), list[Entry]()
        for name in request.names:
            done = sum(map(len, board.values()))

            def tell(what: str, share: float, name: str = name, problem: str = problem, done: int = done) -> None:
                request.progress(f"{problem}: {name}, {what}", (done + share) / total)

            entry = _enter(place, name, request, tell)
            board[problem].append(entry)
            request.finished(problem, entry)
    return board


def _enter(place: Arena, name: str, request: Request, tell: Callable[[str, float], None]) -> Entry:
    source, line = catalog.cell(name).source, line_of(name)
    tell("starting", 0.0)
    try:
        cost = _cost(place, line, request.out)
        trials, seeds = request.scale.trials, request.scale.seeds
        parts = trials + len(seeds)
        tuned = tune_entrant(
            place,
            name,
            cost,
            request.out / "tuning" / place.name / f"{name}.log",
            heard=lambda done: tell(f"trial {done} of {trials}", done / parts),
            stop=request.stop,
        )
        if not tuned:
            return Entry(name, source, cost, {}, {}, f"none of its {trials} trials came to an end within both budgets")
        outcomes, codes = _score(place, line, cost, tuned, request, lambda n: tell(f"seed {n}", (trials + n) / parts))
    except (UserMistake, Unaffordable) as reason:
        return Entry(name, source, None, {}, {}, str(reason))
    return Entry(name, source, cost, tuned, outcomes, code=tuple(sorted(codes)))


def _cost(place: Arena, line: NamedAlgorithm, out: Path) -> TurnCost:
    """What a turn costs, counted once."""
    asked = {"experiment": _digest(write_experiment(place.experiment(line, place.scale.tuning_seeds[0])))}
    path = out / "costs" / place.name / f"{line.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    told = kept(path, asked, lambda: place.cost(line)._asdict())
    return TurnCost(told["calls"], told["received"], told["sent"])


def _score(
    place: Arena,
    line: NamedAlgorithm,
    cost: TurnCost,
    tuned: Mapping[str, Tuned],
    request: Request,
    tell: Callable[[int], None],
) -> tuple[dict[str, dict[int, Outcome | None]], set[str]]:
    """The outcomes on all seeds; budgets whose settings are the same are read off one run."""
    found: dict[str, dict[int, Outcome | None]] = {budget: {} for budget in BUDGETS}
    groups: dict[str, list[BudgetName]] = {}
    for budget in BUDGETS:
        groups.setdefault(json.dumps(tuned[budget].settings, sort_keys=True), []).append(budget)
    codes = set()
    for settings, budgets in groups.items():
        mine = with_settings(line, json.loads(settings))
        contender = Contender(place, mine, cost)
        for number, seed in enumerate(request.scale.seeds):
            if request.stop():
                raise Interrupted
            tell(number)
            for paid, told in _kept_outcomes(place, mine, contender, seed, budgets, request.out).items():
                found[paid][seed] = _read(told["outcome"])
                codes.add(str(told["code"]))
    return found, codes


def _kept_outcomes(
    place: Arena, line: NamedAlgorithm, contender: Contender, seed: int, budgets: Sequence[BudgetName], out: Path
) -> dict[str, dict[str, Any]]:
    """What files say of a seed, or what a run now comes to, which is written there."""
    ran: dict[str, Outcome] | None = None
    seconds = 0.0

    def run(budget: BudgetName) -> dict[str, Any]:
        nonlocal ran, seconds
        if not seconds:
            began = time.perf_counter()
            with Workers() as workers:
                ran = contender.run(seed, budgets, workers)
            seconds = time.perf_counter() - began
        outcome = None if ran is None else {**ran[budget]._asdict(), "spent": ran[budget].spent._asdict()}
        return {"outcome": outcome, "code": code(), "seconds": round(seconds, 2)}

    told: dict[str, dict[str, Any]] = {}
    for budget in budgets:
        limits = f"{budget} {place.scale.evaluations} {place.scale.time} {SHARES_OF_BUDGET}"
        asked = {"experiment": _digest(write_experiment(place.experiment(line, seed)) + limits)}
        path = out / "cells" / place.name / line.name / f"{budget}-{seed}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        told[budget] = kept(path, asked, lambda budget=budget: run(budget))  # type: ignore[misc]
    return told


def _read(outcome: Mapping[str, Any] | None) -> Outcome | None:
    return None if outcome is None else Outcome(outcome["scores"], outcome["unseen"], Spent(**outcome["spent"]))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
