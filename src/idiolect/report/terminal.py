"""The terminal's view of a run that is over: a table, and what it would hide."""

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from idiolect.report.headline import Rows, headline, other_metric, other_metrics
from idiolect.report.remarks import group_lines, meaning_lines, remarks, size_lines
from idiolect.results.summary import Summary


def print_summary(summary: Summary, console: Console | None = None) -> None:
    """The headline table: mean and standard deviation over seeds, for every algorithm."""
    console = console or Console()
    mine = [("", summary)]
    rows = headline(mine)
    if not console.is_terminal:
        console.width = max(console.width, 120, _width(console, rows))  # whoever reads it later has a wide page
    _print_fitting(console, f"{summary.recipe}: {summary.metric} {summary.when}", rows)
    for metric in other_metrics(mine):
        _print_fitting(console, f"{summary.recipe}: {metric}", other_metric(mine, metric))
    for line in [*remarks(summary), *group_lines(summary), *size_lines(summary)]:
        console.print(line)
    for line in meaning_lines(summary, rows.columns):
        console.print(line)
    seeds = len(next(iter(summary.algorithms.values())).seeds)
    console.print(f"Scored on {summary.what.scored_on}. Mean ± std over {seeds} seed{'s' if seeds > 1 else ''}.")


def _print_fitting(console: Console, title: str, rows: Rows) -> None:
    """As one table where the terminal is wide enough, else as several below each other, so that none is cut off."""
    first, end = 1, len(rows.columns)
    while first < end:
        last = next(
            (last for last in range(end, first + 1, -1) if _width(console, _part(rows, first, last)) <= console.width),
            first + 1,
        )
        console.print(_table(title if first == 1 else None, _part(rows, first, last)))
        first = last


def _part(rows: Rows, first: int, last: int) -> Rows:
    """The labels, and some of the columns after them."""
    columns, *told = [[row[0], *row[first:last]] for row in (rows.columns, *rows.rows)]
    return Rows(columns, told)


def _width(console: Console, rows: Rows) -> int:
    return Measurement.get(console, console.options.update(max_width=10_000), _table(None, rows)).maximum


def _table(title: str | None, rows: Rows) -> Table:
    table = Table(title=title)
    for number, name in enumerate(rows.columns):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in rows.rows:
        table.add_row(*row)
    return table
