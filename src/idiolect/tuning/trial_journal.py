"""Trials of settings, kept in a journal: Optuna's tree-structured Parzen estimator suggests, somebody judges.

Trials come in cohorts (`idiolect.tuning.halving`; without halving, of one). A cohort's settings are suggested before
any of it is judged, each by a sampler whose seed is the trial's place, and its results are told together, in that
order. So a search comes to the same trials whoever judges them in whatever order, and one that was stopped goes on as
if it had not been: what is judged at a rung is in the journal at once.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from idiolect.errors import Interrupted, UserMistake
from idiolect.tuning.halving import Halving
from idiolect.tuning.search_space import Search


class Judgement(NamedTuple):
    """What some settings came to, by one goal or by several, and whether more is better."""

    scores: tuple[float, ...]
    higher_is_better: bool


class Tried(NamedTuple):
    """Settings that were tried, and their scores by each goal; None where the run came to nothing.

    `share` is how much of the horizon was run when it was scored last, and `spent` how much in all, one rung after
    another.
    """

    settings: dict[str, Any]
    scores: tuple[float, ...] | None
    higher_is_better: bool
    share: float = 1.0
    spent: float = 1.0


class Asked(NamedTuple):
    """Settings that are to be judged after a share of the horizon, and who is to be told."""

    settings: dict[str, Any]
    share: float
    note: Callable[[Judgement | None], None]


def try_settings(
    journal: Path,
    name: str,
    searches: Sequence[Search],
    *,
    trials: int,
    judge: Callable[[dict[str, Any]], Judgement | None],
    as_it_is: dict[str, Any] | None,
    goals: int = 1,
    heard: Callable[[int, Judgement | None], None] = lambda done, found: None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Tried]:
    """All trials of one study: those in the journal, and what is missing of `trials`.

    `as_it_is` are the settings that are tried first. With several goals one trial serves all of them: it is scored by
    each, and suggestions look for what is good by any.
    """
    study = TrialStudy(journal, name, searches, trials=trials, as_it_is=as_it_is, goals=goals, heard=heard)
    judge_in_order(study, lambda asked: judge(asked.settings), stop)
    return study.tried()


class TrialStudy:
    """The trials of one algorithm: `rounds` gives what is to be judged next, until there is nothing."""

    def __init__(
        self,
        journal: Path,
        name: str,
        searches: Sequence[Search],
        *,
        trials: int,
        as_it_is: dict[str, Any] | None,
        goals: int = 1,
        halving: Halving = Halving(),
        heard: Callable[[int, Judgement | None], None] = lambda done, found: None,
    ) -> None:
        self._study, self._searches, self._trials = _open(journal, name, goals), searches, trials
        self._as_it_is, self._halving, self._heard = as_it_is, halving, heard

    def rounds(self) -> Iterator[list[Asked]]:
        """What is to be judged; whoever asks for the next has told all of the last."""
        for first in range(0, self._trials, self._halving.cohort):
            places = range(first, min(first + self._halving.cohort, self._trials))
            for place in places:
                if place not in self._placed():
                    self._ask(place)
            if not all(self._placed()[place].state.is_finished() for place in places):
                yield from self._judged(places)
                self._tell(places)

    def tried(self) -> list[Tried]:
        """The trials so far."""
        placed = self._placed()
        found = [placed[place] for place in sorted(placed) if place < self._trials]
        return [_read(trial, self._halving.shares) for trial in found if trial.state.is_finished()]

    def _ask(self, place: int) -> None:
        waits = any(trial.state.name == "WAITING" for trial in self._study.trials)
        if place == 0 and self._as_it_is and not waits:
            self._study.enqueue_trial(self._as_it_is)
        self._study.sampler = _sampler(place, self._trials)
        asked = self._study.ask()
        asked.set_user_attr("settings", {search.name: _suggested(asked, search) for search in self._searches})
        asked.set_user_attr("place", place)

    def _judged(self, places: Sequence[int]) -> Iterator[list[Asked]]:
        """Rung by rung, those that are not cut and are not judged there yet."""
        alive = list(places)
        for rung, share in enumerate(self._halving.shares):
            placed = self._placed()
            missing = [place for place in alive if _rung(rung) not in placed[place].user_attrs]
            if missing:
                settings = [placed[place].user_attrs["settings"] for place in missing]
                notes = [partial(self._note, placed[place], rung) for place in missing]
                yield [Asked(one, share, note) for one, note in zip(settings, notes, strict=True)]
            found = {place: _judgement(self._placed()[place], rung) for place in alive}
            higher = any(one.higher_is_better for one in found.values() if one)
            scores = {place: one.scores[0] if one else None for place, one in found.items()}
            alive = self._halving.kept(scores, rung, len(places), higher_is_better=higher)

    def _note(self, trial: Any, rung: int, found: Judgement | None) -> None:
        self._held(trial).set_user_attr(_rung(rung), None if found is None else [list(found.scores), found[1]])

    def _tell(self, places: Sequence[int]) -> None:
        """Tell the study what the whole cohort came to."""
        states, last = _optuna().trial.TrialState, len(self._halving.shares) - 1
        for place in places:
            trial = self._placed()[place]
            if trial.state.is_finished():
                continue
            judged = [_judgement(trial, rung) for rung in range(last + 1) if _rung(rung) in trial.user_attrs]
            end, held = judged[-1], self._held(trial)
            if end is None:
                self._study.tell(trial.number, state=states.FAIL)
            else:
                held.set_user_attr("higher_is_better", end.higher_is_better)
                values = [-score if end.higher_is_better else score for score in end.scores]
                if len(judged) > last:
                    self._study.tell(trial.number, values)
                else:
                    held.report(values[0], step=len(judged) - 1)
                    self._study.tell(trial.number, state=states.PRUNED)
            self._heard(place + 1, end)

    def _held(self, trial: Any) -> Any:
        return _optuna().trial.Trial(self._study, trial._trial_id)

    def _placed(self) -> dict[int, Any]:
        """The trials by their places. In journals of earlier versions that is the order of those that were finished."""
        trials = self._study.trials
        old = [trial for trial in trials if trial.state.is_finished() and "place" not in trial.user_attrs]
        placed = {trial.user_attrs["place"]: trial for trial in trials if "place" in trial.user_attrs}
        return {**dict(enumerate(old)), **placed}


def judge_in_order(study: TrialStudy, judge: Callable[[Asked], Judgement | None], stop: Callable[[], bool]) -> None:
    """Judge all that a study asks for, one after another; if somebody says stop, no further one is begun."""
    for asked in study.rounds():
        for one in asked:
            if stop():
                raise Interrupted
            one.note(judge(one))


def _rung(number: int) -> str:
    return f"rung {number}"


def _judgement(trial: Any, rung: int) -> Judgement | None:
    found = trial.user_attrs.get(_rung(rung))
    return None if found is None else Judgement(tuple(found[0]), bool(found[1]))


def _open(journal: Path, name: str, goals: int) -> Any:
    optuna = _optuna()
    backend = optuna.storages.journal.JournalFileBackend(str(journal))
    storage = optuna.storages.JournalStorage(backend)
    wanted = ["minimize"] * goals
    return optuna.create_study(storage=storage, study_name=name, directions=wanted, load_if_exists=True)


def _sampler(seed: int, trials: int) -> Any:
    return _optuna().samplers.TPESampler(seed=seed, n_startup_trials=max(2, trials // 2), multivariate=True)


def _read(trial: Any, shares: Sequence[float]) -> Tried:
    higher, settings = trial.user_attrs.get("higher_is_better", True), trial.user_attrs.get("settings", {})
    judged = [rung for rung in range(len(shares)) if _rung(rung) in trial.user_attrs]
    if not judged:  # of an earlier version
        scores = None if trial.values is None else tuple(-value if higher else value for value in trial.values)
        return Tried(settings, scores, higher)
    end, spent = _judgement(trial, judged[-1]), sum(shares[rung] for rung in judged)
    return Tried(settings, end and end.scores, higher, shares[judged[-1]], spent)


def _suggested(trial: Any, search: Search) -> Any:
    if search.scale == "choice":
        return trial.suggest_categorical(search.name, list(search.choices))
    if search.scale == "whole":
        return trial.suggest_int(search.name, int(search.low), int(search.high))
    # Three digits are all that a search like this can tell apart, and all that a recipe should say.
    return float(f"{trial.suggest_float(search.name, search.low, search.high, log=search.scale == 'log'):.3g}")


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise UserMistake("tuning needs Optuna; pip install 'idiolect[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
