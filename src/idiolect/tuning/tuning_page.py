"""The page of a search: for every algorithm what was tried, what it came to, and what was chosen."""

from collections.abc import Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go

from idiolect.experiments.recipe_tables import Chosen
from idiolect.report.headline import Rows, number
from idiolect.report.page import Picture, Section, page
from idiolect.report.style import BLUE, GREEN, MUTED, ORANGE, VERMILION, labelled, log_scale
from idiolect.report.tables import as_html, definitions
from idiolect.tuning.search_space import Search
from idiolect.tuning.studies import Study, Trial

PAGE = "tune.html"
_BEYOND = 8  # times the worst loss of a whole run: there the picture ends, whatever cut trials had
_STATES = {"ended": (BLUE, "circle"), "cut": (ORANGE, "circle-open"), "failed": (VERMILION, "x")}
_OVER_TRIALS = (
    "Every trial by its number. The line is the best so far among those that came to their end; its last is chosen "
    "(green). Trials that were cut stand at the score of their last rung, which is that of a shorter run; those that "
    "failed have none, and are crosses at the bad edge."
)
_AGAINST = "Every trial by what it had for {name}. What is best at the edge of a range may be better beyond it."


def tuning_page(name: str, chosen: Chosen, studies: Sequence[Study], searches: Sequence[Search]) -> str:
    """One HTML page of a search, which needs no network."""
    columns = ("algorithm", "best score", "trials", "cut", "failed", "spent, in whole runs", "chosen")
    overview = Rows(columns, [_summed_up(one) for one in studies])
    known = {
        "scored on": f"{chosen.split} parts of seeds {', '.join(map(str, chosen.seeds))}",
        "searched": "; ".join(f"{what} in {where}" for what, where in chosen.search.items()),
        "cut": chosen.note,
    }
    sections = [Section("What was chosen", as_html(overview) + definitions(known))]
    return page(f"{name}: what was tried", [*sections, *(_section(one, searches) for one in studies)])


def _summed_up(study: Study) -> list[str]:
    counts = [str(len(study.trials)), str(study.cut), str(study.failed), f"{study.spent:.3g}"]
    return [study.label, number(study.best.score or 0.0), *counts, _told(study.best.settings) or "as it is"]


def _section(study: Study, searches: Sequence[Search]) -> Section:
    names = list(dict.fromkeys(name for trial in study.trials for name in trial.settings))
    scales = {search.name: search.scale for search in searches}
    pictures = [_over_trials(study)] if len(study.trials) > 1 else []
    pictures += [_against(study, name, scales.get(name, "choice")) for name in names]
    rows = [
        [str(place), *(_value(trial.settings.get(name)) for name in names), *_end(study, trial)]
        for place, trial in enumerate(study.trials, start=1)
    ]
    table = as_html(Rows(("trial", *names, "score", "state", "of the horizon"), rows))
    folded = f"<details><summary>all {len(rows)} trials of {escape(study.label)}</summary>{table}</details>"
    return Section(study.label, folded, pictures)


def _end(study: Study, trial: Trial) -> list[str]:
    score = "" if trial.score is None else number(trial.score)
    return [score, "chosen" if trial is study.best else _state(trial), f"{trial.share:.0%}"]


def _state(trial: Trial) -> str:
    return "ended" if trial.ended else "cut" if trial.cut else "failed"


def _over_trials(study: Study) -> Picture:
    figure, pick = go.Figure(), max if study.higher_is_better else min
    best, so_far = list[float | None](), None
    for trial in study.trials:
        if trial.ended and trial.score is not None:
            so_far = trial.score if so_far is None else pick(so_far, trial.score)
        best.append(so_far)
    places = list(range(1, len(study.trials) + 1))
    figure.add_scatter(x=places, y=best, name="best so far", mode="lines", line={"color": MUTED, "shape": "hv"})
    _add_trials(figure, study, places)
    labelled(figure, f"{study.label}: score over trials", "trial", "score")
    return Picture(figure, _OVER_TRIALS)


def _against(study: Study, name: str, scale: str) -> Picture:
    figure = go.Figure()
    _add_trials(figure, study, [_place(trial.settings.get(name), scale) for trial in study.trials])
    if scale == "log":
        figure.update_xaxes(type="log")
    labelled(figure, f"{study.label}: score against {name}", name, "score")
    return Picture(figure, _AGAINST.format(name=name))


def _place(value: Any, scale: str) -> Any:
    return _value(value) if scale == "choice" else value


def _add_trials(figure: go.Figure, study: Study, places: Sequence[Any]) -> None:
    """The trials, by state; what came to nothing has no score, and stands at the edge of the picture."""
    tame = [trial.score for trial in study.trials if trial.ended and trial.score is not None]
    every, chosen = [trial.score for trial in study.trials if trial.score is not None], study.best
    worst = min(every) if study.higher_is_better else min(max(every), _BEYOND * max(tame))
    if not study.higher_is_better and min(tame) > 0:  # errors are told apart by their size
        log_scale(figure, tame)
    for state, (colour, symbol) in _STATES.items():
        mine = [(x, trial) for x, trial in zip(places, study.trials, strict=True) if _state(trial) == state]
        if mine:
            figure.add_scatter(
                x=[x for x, _ in mine],
                y=[worst if trial.score is None else trial.score for _, trial in mine],
                name=state,
                mode="markers",
                marker={"color": colour, "symbol": symbol, "size": 8},
                hovertext=[
                    f"{_told(trial.settings)}; {state} at {trial.share:.0%} of the horizon" for _, trial in mine
                ],
            )
    at = next(x for x, trial in zip(places, study.trials, strict=True) if trial is chosen)
    marker = {"color": GREEN, "symbol": "star", "size": 14}
    figure.add_scatter(x=[at], y=[chosen.score], name="chosen", mode="markers", marker=marker)


def _told(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in settings.items())


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "" if value is None else str(value)
