"""The leaderboard as Markdown, for the documentation."""

from collections.abc import Sequence

from idiolect.leaderboard.board_words import (
    BUDGET_TITLES,
    DUEL_COLUMNS,
    TITLE,
    Leaderboard,
    columns,
    duel_in_words,
    fairness,
    problem_title,
    settings_in_words,
    shown,
)
from idiolect.leaderboard.published import DIFFERS, NONE, PFLLIB, SOURCE, pfllib
from idiolect.leaderboard.standings import Standing


def as_markdown(board: Leaderboard, table_page: str) -> str:
    """The whole page; `table_page` is the address of the one whose tables can be sorted."""
    parts = [
        f"# {TITLE}",
        f"Every algorithm of the catalog on the same problems, at the scale `{board.scale_name}`. This page is written "
        f"by `{board.command}`; [the same with tables to sort]({table_page}).",
        "## How it is made fair",
        "\n".join(f"- {_plain(sentence)}" for sentence in fairness(board)),
    ]
    for standing in board.standings:
        parts += [f"## {problem_title(standing.problem)}: {BUDGET_TITLES[standing.budget]}", _standing(standing)]
    parts += ["## Settings that were chosen", _settings(board), "## What PFLlib publishes", _published()]
    if board.left_out or board.missing:
        reasons = [f"`{name}`: {why}." for name, why in board.left_out.items()]
        parts += ["## Left out", "\n".join(f"- {_plain(line)}" for line in [*reasons, *board.missing])]
    parts.append(f"Computed by code {', '.join(board.code) or 'unknown'}.")
    return "\n\n".join(parts) + "\n"


def _standing(standing: Standing) -> str:
    rows = [[one.text for one in shown(standing, row)] for row in standing.rows]
    table = _table(columns(standing), rows) if rows else "Nobody has come to the end."
    parts = [table]
    if standing.duels:
        parts.append(_table(DUEL_COLUMNS, [duel_in_words(duel) for duel in standing.duels]))
    out = "\n".join(f"- `{name}`: {_plain(why)}." for name, why in standing.out.items())
    return "\n\n".join([*parts, f"Not in this table:\n\n{out}"] if out else parts)


def _settings(board: Leaderboard) -> str:
    rows = [
        [standing.problem, standing.budget, row.name, settings_in_words(row)]
        for standing in board.standings
        for row in standing.rows
    ]
    return _table(["problem", "budget", "algorithm", "settings"], rows)


def _published() -> str:
    names = list(dict.fromkeys(name for numbers in PFLLIB.values() for name in numbers))
    rows = [[name, *(pfllib(problem, name) for problem in PFLLIB)] for name in names]
    table = _table(["algorithm", *map(problem_title, PFLLIB)], rows)
    return f"{NONE} Test accuracy in percent after {SOURCE}:\n\n{table}\n\nWhat differs: {DIFFERS}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_plain(entry) for entry in line) + " |" for line in lines)


def _plain(text: str) -> str:
    """Text that Markdown leaves alone in a table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
