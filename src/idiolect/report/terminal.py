"""The terminal's view of a run: a progress bar while it goes on, a table when it is over."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from idiolect.experiments.running import Progress as State
from idiolect.experiments.value import Experiment
from idiolect.report.headline import Rows, headline, other_metric, other_metrics
from idiolect.report.remarks import group_lines, meaning_lines, remarks, size_lines
from idiolect.results.summary import Summary


@contextmanager
def progress_bar(experiment: Experiment) -> Iterator[Callable[[State], None]]:
    """A bar over all cells of an experiment, with virtual time, score and time left; silent if nobody watches."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(compact=True),
    )
    horizon, cells = experiment.horizon, [(label, seed) for seed in experiment.seeds for label in experiment.labels]
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("starting", total=len(cells) * horizon, state="")

        def show(state: State) -> None:
            done = cells.index((state.label, state.seed)) * horizon + state.time
            score = "" if state.score is None else f"  {state.score:.3f}"
            text = f"time {state.time:6.1f} of {horizon:g}{score}"
            bar.update(task, completed=done, description=f"{state.label}, seed {state.seed}", state=text)

        yield show


def print_summary(summary: Summary, console: Console | None = None) -> None:
    """The headline table: mean and standard deviation over seeds, for every algorithm."""
    console = console or Console()
    console.width = max(console.width, 120)  # a wide table is better than a folded one
    mine = [("", summary)]
    rows = headline(mine)
    console.print(_table(f"{summary.recipe}: {summary.metric} at {summary.clock} time {summary.virtual_time:g}", rows))
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
