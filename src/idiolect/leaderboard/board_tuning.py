"""Settings for an algorithm on a problem: one study, whose every trial is scored under both budgets."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from idiolect.engines import Workers
from idiolect.errors import UserMistake
from idiolect.experiments.describing import write_experiment
from idiolect.leaderboard.board_cells import Arena, Contender, taking_part
from idiolect.leaderboard.board_problems import SHARES_OF_BUDGET
from idiolect.leaderboard.budgets import BUDGETS, Unaffordable
from idiolect.leaderboard.search_ranges import line_of, searches
from idiolect.leaderboard.turn_costs import TurnCost
from idiolect.tuning.search_space import settings_of, with_settings
from idiolect.tuning.trial_journal import Judgement, Tried, try_settings


class Tuned(NamedTuple):
    """The best settings under one budget, and what they scored on validation parts."""

    settings: dict[str, Any]
    score: float
    trials: int
    failed: int  # of these; they diverged, could not afford a round, or did not go together


def tune_entrant(
    place: Arena,
    name: str,
    cost: TurnCost,
    journal: Path,
    *,
    heard: Callable[[int], None],
    stop: Callable[[], bool],
) -> dict[str, Tuned]:
    """The best settings of an algorithm under each budget; empty if no trial came to its end."""
    line, wanted, seeds = line_of(name), searches(name), place.scale.tuning_seeds
    experiment = place.experiment(line, seeds[0])

    def judge(settings: dict[str, Any]) -> Judgement | None:
        contender = Contender(place, with_settings(line, settings), cost, split="validation")
        with Workers() as workers:
            try:
                found = [contender.run(seed, BUDGETS, workers) for seed in seeds]
            except (Unaffordable, UserMistake):  # settings that do not go together
                return None
        ended = [one for one in found if one is not None]
        if len(ended) < len(found):
            return None
        scores = (np.mean([list(taking_part(one[budget]).values()) for one in ended]) for budget in BUDGETS)
        return Judgement(tuple(map(float, scores)), higher_is_better=True)

    journal.parent.mkdir(parents=True, exist_ok=True)
    told = f"{write_experiment(experiment)} {place.scale.evaluations} {place.scale.time} {SHARES_OF_BUDGET} {wanted}"
    tried = try_settings(
        journal,
        f"{name} {hashlib.sha256(f'{told} {seeds}'.encode()).hexdigest()[:12]}",  # other trials are not taken for these
        wanted,
        trials=place.scale.trials,
        judge=judge,
        as_it_is=settings_of(experiment, line, wanted),
        goals=len(BUDGETS),
        heard=lambda done, found: heard(done),
        stop=stop,
    )
    return _best(tried)


def _best(tried: list[Tried]) -> dict[str, Tuned]:
    """For each budget the best trial by it, the first of equals."""
    ended = [(one.settings, one.scores) for one in tried if one.scores is not None]
    if not ended:
        return {}
    found: dict[str, Tuned] = {}
    for place, budget in enumerate(BUDGETS):
        settings, scores = max(ended, key=lambda one: one[1][place])
        found[budget] = Tuned(settings, scores[place], len(tried), len(tried) - len(ended))
    return found
