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
    table = _table(f"{summary.recipe}: {summary.metric} {summary.when}", rows)
    # A wide table is better than one with columns cut off.
    whole = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
    console.width = max(console.width, 120, whole)
    console.print(table)
    for metric in other_metrics(mine):
        console.print(_table(f"{summary.recipe}: {metric}", other_metric(mine, metric)))
    for line in [*remarks(summary), *group_lines(summary), *size_lines(summary)]:
        console.print(line)
    for line in meaning_lines(summary, rows.columns):
        console.print(line)
    seeds = len(next(iter(summary.algorithms.values())).seeds)
    console.print(f"Scored on {summary.what.scored_on}. Mean ± std over {seeds} seed{'s' if seeds > 1 else ''}.")


def _table(title: str, rows: Rows) -> Table:
    table = Table(title=title)
    for number, name in enumerate(rows.columns):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in rows.rows:
        table.add_row(*row)
    return table
