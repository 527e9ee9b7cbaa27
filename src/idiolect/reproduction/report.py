"""The report of one exhibit: its picture, its claims, and the way to the runs behind it."""

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from idiolect.report.page import Section, page
from idiolect.reproduction.exhibit import Findings, Table

_RUN_PAGES = ("report.html", "pictures.html")
_COLOURS = {"holds": "#009E73", "not shown": "#B37700", "fails": "#D55E00"}
_CELL = 'style="padding:.3rem .7rem .3rem 0;vertical-align:top;border-bottom:1px solid #ddd;text-align:left"'


def report_page(record: dict[str, Any], findings: Findings, folder: Path) -> str:
    """The page, with links that hold as long as the folders stay where they are to each other."""
    seeds = ", ".join(map(str, record["seeds"]))
    intro = (
        f"<p>{escape(record['shows'])}</p><p>Scale <b>{escape(record['scale'])}</b>: {escape(record['size'])}. "
        f"Seeds {seeds}. Time: {duration(record['seconds'])}. <code>{escape(record['command'])}</code></p>"
    )
    sections = [
        Section("", intro, findings.pictures),
        Section("Claims", _claims(record["claims"])),
        *(Section(table.title, _table(table)) for table in findings.tables),
    ]
    if findings.runs:
        sections.append(Section("Runs", _runs(findings.runs, folder)))
    return page(record["source"], sections)


def duration(seconds: float) -> str:
    """Seconds or minutes, in words."""
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _claims(claims: Sequence[dict[str, Any]]) -> str:
    rows = []
    for claim in claims:
        verdict = claim["verdict"]
        told = f'<b style="color:{_COLOURS[verdict]}">{verdict}</b>'
        found = f"<br>{escape(claim['finding'])}" if claim["finding"] and verdict != "holds" else ""
        cells = (claim["statement"], claim["paper"], claim["ours"], claim["test"])
        rows.append([*map(escape, cells), told + found])
    return _rows(["the paper says", "its number", "here", "decided by", "verdict"], rows)


def _table(table: Table) -> str:
    return _rows(table.head, [[escape(cell) for cell in row] for row in table.rows])


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th {_CELL}>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td {_CELL}>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<table style="border-collapse:collapse;font-size:.9rem"><tr>{top}</tr>{body}</table>'


def _runs(runs: Sequence[Path], folder: Path) -> str:
    items = []
    for run in runs:
        pages = [name for name in _RUN_PAGES if (run / name).is_file()]
        links = " ".join(f'<a href="{escape(os.path.relpath(run / name, folder))}">{name}</a>' for name in pages)
        items.append(f"<li><code>{escape(run.name)}</code> {links}</li>")
    return f"<ul>{''.join(items)}</ul>"
