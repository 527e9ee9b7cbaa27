"""Trials of settings, kept in a journal: Optuna's tree-structured Parzen estimator suggests, a judge scores.

Each trial has a seed of its own, its number, so that a search that was stopped goes on as if it had not been.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from idiolect.errors import Interrupted, UserMistake
from idiolect.tuning.search_space import Search


class Judgement(NamedTuple):
    """What some settings came to, by one goal or by several, and whether more is better."""

    scores: tuple[float, ...]
    higher_is_better: bool


class Tried(NamedTuple):
    """Settings that were tried, and their scores by each goal; None where the run came to nothing."""

    settings: dict[str, Any]
    scores: tuple[float, ...] | None
    higher_is_better: bool


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
    study = _open(journal, name, goals)
    done = _finished(study)
    if not done and as_it_is and not any(trial.state.name == "WAITING" for trial in study.trials):
        study.enqueue_trial(as_it_is)
    while len(done) < trials:
        if stop():
            raise Interrupted
        study.sampler = _sampler(len(done), trials)
        asked = study.ask()
        settings = {search.name: _suggested(asked, search) for search in searches}
        found = judge(settings)
        asked.set_user_attr("settings", settings)
        if found is None:
            study.tell(asked, state=_optuna().trial.TrialState.FAIL)
        else:
            asked.set_user_attr("higher_is_better", found.higher_is_better)
            study.tell(asked, [-score if found.higher_is_better else score for score in found.scores])
        done = _finished(study)
        heard(len(done), found)
    return [_read(trial) for trial in done[:trials]]


def _open(journal: Path, name: str, goals: int) -> Any:
    optuna = _optuna()
    backend = optuna.storages.journal.JournalFileBackend(str(journal))
    storage = optuna.storages.JournalStorage(backend)
    wanted = ["minimize"] * goals
    return optuna.create_study(storage=storage, study_name=name, directions=wanted, load_if_exists=True)


def _sampler(seed: int, trials: int) -> Any:
    return _optuna().samplers.TPESampler(seed=seed, n_startup_trials=max(2, trials // 2), multivariate=True)


def _finished(study: Any) -> list[Any]:
    return [trial for trial in study.trials if trial.state.is_finished()]


def _read(trial: Any) -> Tried:
    higher = trial.user_attrs.get("higher_is_better", True)
    scores = None if trial.values is None else tuple(-value if higher else value for value in trial.values)
    return Tried(trial.user_attrs.get("settings", {}), scores, higher)


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
