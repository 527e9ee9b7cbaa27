"""The report of one exhibit: its picture, its claims, and the way to the runs behind it."""

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path

from idiolect.papers.exhibit import Claim, ExhibitRecord, Findings
from idiolect.papers.wording import listed
from idiolect.report.headline import Rows
from idiolect.report.page import Section, page
from idiolect.report.tables import as_html, marked_up
from idiolect.report.writing import PAGE

_COLOURS = {"holds": "#009E73", "not shown": "#B37700", "excluded": "#CC4499", "fails": "#D55E00"}


def report_page(record: ExhibitRecord, findings: Findings, folder: Path) -> str:
    """The page, with links that hold as long as the folders stay where they are to each other."""
    intro = (
        f"<p>{escape(record.shows)}</p><p>Scale <b>{escape(record.scale)}</b>: {escape(record.size)}. "
        f"Seeds {listed(record.seeds)}. Time: {duration(record.seconds)}. <code>{escape(record.command)}</code></p>"
    )
    sections = [
        Section("", intro, findings.pictures),
        Section("Claims", _claims(record)),
        *(Section(table.title, as_html(Rows(table.head, table.rows), words=True)) for table in findings.tables),
    ]
    if findings.runs:
        sections.append(Section("Runs", _runs(findings.runs, folder)))
    return page(record.source, sections)


def duration(seconds: float) -> str:
    """Seconds or minutes, in words."""
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def measured(claim: Claim, record: ExhibitRecord) -> str:
    """What was found, and on which seeds where they are not the exhibit's."""
    others = "" if tuple(claim.seeds) == tuple(record.seeds) else f"; seeds {listed(claim.seeds)}"
    return claim.ours + others


def _claims(record: ExhibitRecord) -> str:
    rows = []
    for claim in record.claims:
        told = f'<b style="color:{_COLOURS[claim.verdict]}">{claim.verdict}</b>'
        found = f"<br>{escape(claim.finding)}" if claim.finding and claim.verdict != "holds" else ""
        cells = (claim.statement, claim.paper, measured(claim, record), claim.test)
        rows.append([*map(escape, cells), told + found, escape(claim.needs)])
    head = ["the paper says", "its number", "here", "decided by", "verdict", "a decision takes"]
    return marked_up(head, rows, words=True)


def _runs(runs: Sequence[Path], folder: Path) -> str:
    items = []
    for run in runs:
        link = escape(os.path.relpath(run / PAGE, folder))
        items.append(f'<li><a href="{link}">{escape(run.name)}</a></li>')
    return f"<ul>{''.join(items)}</ul>"
