"""The terminal's view of a run: a progress bar while it goes on, a table when it is over."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from idiolect.engines.learner import uncompressed
from idiolect.experiments.running import Progress as State
from idiolect.experiments.schema import Recipe
from idiolect.export.run_models import Shipped
from idiolect.inspection.width_advice import Advice
from idiolect.quantization.sizes import bundle_size
from idiolect.report.headline import Rows, headline, other_metric, other_metrics
from idiolect.report.remarks import group_lines, remarks, size_lines
from idiolect.results.models import CellModels


@contextmanager
def progress_bar(recipe: Recipe, metric: str = "score") -> Iterator[Callable[[State], None]]:
    """A bar over all cells of a recipe, with virtual time, score and time left; silent if nobody watches."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(compact=True),
    )
    cells = [(label, seed) for seed in recipe.seeds for label in recipe.labels]
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("starting", total=len(cells) * recipe.horizon, state="")

        def show(state: State) -> None:
            done = cells.index((state.label, state.seed)) * recipe.horizon + state.time
            score = "" if state.score is None else f"  {state.score:.3f}"
            text = f"time {state.time:6.1f} of {recipe.horizon:g}{score}"
            bar.update(task, completed=done, description=f"{state.label}, seed {state.seed}", state=text)

        yield show


def print_summary(summary: dict[str, Any], console: Console | None = None) -> None:
    """The headline table: mean and standard deviation over seeds, for every algorithm."""
    console = console or Console()
    console.width = max(console.width, 120)  # a wide table is better than a folded one
    mine = [("", summary)]
    title = f"{summary['recipe']}: {summary['metric']} at {summary['clock']} time {summary['virtual_time']:g}"
    rows = headline(mine)
    console.print(_table(title, rows))
    for metric in other_metrics(mine):
        console.print(_table(f"{summary['recipe']}: {metric}", other_metric(mine, metric)))
    for line in [*remarks(summary), *group_lines(summary), *size_lines(summary)]:
        console.print(line)
    what, seeds = summary["what"], len(next(iter(summary["algorithms"].values()))["seeds"])
    console.print(f"Global: {what['global']}. Personalized: {what['personalized']}.")
    if "references" in summary:
        console.print("In brackets: what the problem knows to compare with, learned by none of the algorithms.")
    if "unseen" in rows.columns:
        console.print("Unseen: the same personalization for clients that took no part in training.")
    console.print(f"Scored on {what['scored_on']}. Mean ± std over {seeds} seed{'s' if seeds > 1 else ''}.")


def _table(title: str, rows: Rows) -> Table:
    table = Table(title=title)
    for number, name in enumerate(rows.columns):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in rows.rows:
        table.add_row(*row)
    return table


def print_shipped(finished: CellModels, shipped: list[Shipped], console: Console | None = None) -> None:
    """What was written for each client: bits a weight, bytes of the model, its score at the end of the run."""
    console = console or Console()
    console.width = max(console.width, 100)
    full = bundle_size(uncompressed(finished.snapshot.params)).total
    split, metric = finished.recipe.evaluation.split, finished.problem.metric.name
    table = Table(title=f"{finished.label}, seed {finished.seed}: each client's own model, and its {split} {metric}")
    for name in ("client", "bits", "bytes", "of full size", metric, "files"):
        table.add_column(name, justify="left" if name == "files" else "right", no_wrap=True)
    for one in shipped:
        score = "not scored" if one.score is None else f"{one.score:.3f}"
        files = ", ".join(file.name for file in one.files)
        table.add_row(str(one.client), f"{one.bits:.4g}", f"{one.bytes:,}", f"{one.bytes / full:.1%}", score, files)
    console.print(table)
    console.print(f"Written to {shipped[0].files[0].parent}")


def print_advice(advice: Advice, budgets: Sequence[int], console: Console | None = None) -> None:
    """Every width tried, and what to write into the recipe."""
    console = console or Console()
    console.width = max(console.width, 100)
    table = Table(title="Bit widths, judged on validation data (± standard error over clients and seeds)")
    for name in ("bits", "bytes", "score", "chosen for budgets of"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in advice.candidates:
        mine = sorted({budget for budget, width in advice.chosen.items() if width == one.bits})
        table.add_row(
            str(one.bits), f"{one.bytes:,}", f"{one.score:.3f} ± {one.error:.3f}", ", ".join(f"{b:,}" for b in mine)
        )
    console.print(table)
    for budget in sorted({budget for budget, width in advice.chosen.items() if width is None}):
        console.print(
            f"No width fits {budget:,} bytes; the smallest model takes {min(c.bytes for c in advice.candidates):,}."
        )
    if all(advice.chosen[budget] for budget in budgets):
        chosen = [advice.chosen[budget] for budget in budgets]
        console.print(f"bits = {chosen[0] if len(chosen) == 1 else chosen}")
