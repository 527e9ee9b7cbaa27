"""The leaderboard as one HTML page that needs no network to open, with tables that sort themselves when asked."""

from collections.abc import Iterable
from html import escape
from importlib import resources

from idiolect.leaderboard.board_words import (
    BUDGET_TITLES,
    DUEL_COLUMNS,
    TITLE,
    Leaderboard,
    Shown,
    columns,
    duel_in_words,
    fairness,
    problem_title,
    settings_in_words,
    shown,
)
from idiolect.leaderboard.published import DIFFERS, NONE, PFLLIB, SOURCE, pfllib
from idiolect.leaderboard.standings import Standing
from idiolect.report.headline import Rows
from idiolect.report.page import Section, page
from idiolect.report.tables import as_html

_FILES = resources.files("idiolect.leaderboard")


def as_page(board: Leaderboard) -> str:
    """The whole page; all that comes from a run is taken for plain text."""
    sections = [Section("", _paragraph(f"Scale {board.scale_name}. Written by: {board.command}"))]
    for standing in board.standings:
        title = f"{problem_title(standing.problem)}: {BUDGET_TITLES[standing.budget]}"
        sections.append(Section(title, _standing(standing)))
    sections += [
        Section("How it is made fair", _list(fairness(board))),
        Section("Settings that were chosen", _settings(board)),
        Section("What PFLlib publishes", _published()),
    ]
    reasons = [*(f"{name}: {why}." for name, why in board.left_out.items()), *board.missing]
    if reasons:
        sections.append(Section("Left out", _list(reasons)))
    sections.append(Section("", _paragraph(f"Computed by code {', '.join(board.code) or 'unknown'}.") + _sorting()))
    return page(f"idiolect: {TITLE}", sections)


def _standing(standing: Standing) -> str:
    if not standing.rows:
        return _paragraph("Nobody has come to the end.") + _list(f"{n}: {why}." for n, why in standing.out.items())
    head = "".join(f"<th scope=col><button>{escape(name)}</button></th>" for name in columns(standing))
    body = "".join(f"<tr>{''.join(map(_entry, shown(standing, row)))}</tr>" for row in standing.rows)
    table = f"<table class=sortable><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    out = _list(f"{name} is not in this table: {why}." for name, why in standing.out.items())
    asked = as_html(Rows(DUEL_COLUMNS, [tuple(duel_in_words(duel)) for duel in standing.duels]))
    return f"<div class=table>{table}</div>{asked if standing.duels else ''}{out}"


def _entry(entry: Shown) -> str:
    value = "" if entry.value is None else f" data-value={entry.value:.12g}"
    return f"<td{value}>{escape(entry.text)}</td>"


def _settings(board: Leaderboard) -> str:
    rows = [
        (standing.problem, standing.budget, row.name, settings_in_words(row))
        for standing in board.standings
        for row in standing.rows
    ]
    table = as_html(Rows(["problem", "budget", "algorithm", "settings"], rows), words=True)
    return f"<details><summary>{len(rows)} choices</summary>{table}</details>"


def _published() -> str:
    names = list(dict.fromkeys(name for numbers in PFLLIB.values() for name in numbers))
    rows = [(name, *(pfllib(problem, name) for problem in PFLLIB)) for name in names]
    table = as_html(Rows(["algorithm", *map(problem_title, PFLLIB)], rows))
    return (
        _paragraph(f"{NONE} Test accuracy in percent after {SOURCE}.") + table + _paragraph(f"What differs: {DIFFERS}")
    )


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _list(lines: Iterable[str]) -> str:
    entries = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{entries}</ul>" if entries else ""


def _sorting() -> str:
    style, script = (_FILES.joinpath(f"sorting.{kind}").read_text("utf-8") for kind in ("css", "js"))
    return f"<style>{style}</style><script>{script}</script>"
