"""The terminal's view of a run: a progress bar while it goes on, a table when it is over."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from idiolect.engines.serverless import LEAK
from idiolect.experiment import Progress as State
from idiolect.export.contents import bundle_size
from idiolect.learner import uncompressed
from idiolect.recipes import Recipe
from idiolect.runs.models import Finished
from idiolect.runs.shipping import Shipped
from idiolect.runs.widths import Advice

_NAMED = 5  # clients that a remark names before it counts the others


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
    unseen = any("unseen" in entry for entry in summary["algorithms"].values())
    packed = any(entry["bits"]["mean"] < 32 for entry in summary["algorithms"].values())
    table = Table(
        title=f"{summary['recipe']}: {summary['metric']} at {summary['clock']} time {summary['virtual_time']:g}"
    )
    table.add_column("algorithm", no_wrap=True)
    optional = [*(["unseen"] if unseen else []), *(["bits", "bytes"] if packed else [])]
    for name in ("global", "personalized", "worst decile", *optional, "updates", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    for label, entry in summary["algorithms"].items():
        mine = entry["participating"]
        row = [_pm(mine["global"]), _pm(mine["personalized"]), _pm(mine["personalized"]["worst_decile"])]
        if unseen:
            row.append(_pm(entry["unseen"]["personalized"]))
        if packed:
            row += [f"{entry['bits']['mean']:.4g}", f"{entry['bytes']['mean']:,.0f}"]
        table.add_row(label, *row, f"{entry['updates']['mean']:.0f}", f"{entry['wall_clock_seconds']['mean']:.1f}")
    for name, scores in summary.get("references", {}).items():
        mine = scores[summary["metric"]]
        table.add_row(f"({name})", "", _pm(mine), _pm(mine["worst_decile"]))
    console.print(table)
    for metric in next(iter(summary["algorithms"].values())).get("also", {}):
        console.print(_other_metric(summary, metric))
    for line in [*remarks(summary), *group_lines(summary), *size_lines(summary)]:
        console.print(line)
    what, seeds = summary["what"], len(next(iter(summary["algorithms"].values()))["seeds"])
    console.print(f"Global: {what['global']}. Personalized: {what['personalized']}.")
    if "references" in summary:
        console.print("In brackets: what the problem knows to compare with, learned by none of the algorithms.")
    if unseen:
        console.print("Unseen: the same personalization for clients that took no part in training.")
    console.print(f"Scored on {what['scored_on']}. Mean ± std over {seeds} seed{'s' if seeds > 1 else ''}.")


def _other_metric(summary: dict[str, Any], metric: str) -> Table:
    """The same models by another of the problem's metrics."""
    table = Table(title=f"{summary['recipe']}: {metric}")
    table.add_column("algorithm", no_wrap=True)
    for name in ("global", "personalized", "worst decile"):
        table.add_column(name, justify="right", no_wrap=True)
    for label, entry in summary["algorithms"].items():
        mine = entry["also"][metric]
        row = (_pm(mine["global"]), _pm(mine["personalized"]), _pm(mine["personalized"]["worst_decile"]))
        table.add_row(label, *row)
    for name, scores in summary.get("references", {}).items():
        table.add_row(f"({name})", "", _pm(scores[metric]), _pm(scores[metric]["worst_decile"]))
    return table


def print_shipped(finished: Finished, shipped: list[Shipped], console: Console | None = None) -> None:
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


def group_lines(summary: dict[str, Any]) -> list[str]:
    """The scores of each named group of clients, and their gain over the recipe's first algorithm."""
    lines = []
    for name, group in summary.get("groups", {}).items():
        (first, _), *others = group["algorithms"].items()
        start = _pm(group["algorithms"][first])
        lines.append(f"{name} ({len(group['clients'])} clients), personalized: {first} {start}")
        lines += [f"  {label} {_pm(entry)}, a gain of {_pm(entry['gain'])}" for label, entry in others]
    return lines


def size_lines(summary: dict[str, Any]) -> list[str]:
    """Who gains most: clients with few samples against clients with many."""
    gains = summary.get("gains_by_size", {"algorithms": {}})
    return [
        f"{label}, personalized, over {gains['over']}: {_pm(gain['few'])} for the third of clients with the fewest "
        f"samples, {_pm(gain['many'])} for the third with the most"
        for label, gain in gains["algorithms"].items()
    ]


def remarks(summary: dict[str, Any]) -> list[str]:
    """What a table of scores would hide: runs that ended early, clients that were refused, and mass that leaked."""
    lines = []
    for label, entry in summary["algorithms"].items():
        lines += [
            f"{label}, seed {seed}, ended before its time: {why}." for seed, why in entry.get("ended", {}).items()
        ]
        lines += [
            f"{label}, seed {seed}: {refusals_in_words(clients)}."
            for seed, clients in entry.get("refusals", {}).items()
        ]
        leaked = entry.get("leaked_share", {"mean": 0.0})["mean"]
        if abs(leaked) > LEAK and "ended" not in entry:
            lines.append(f"{label} leaks: {leaked:.2%} of the mass is gone, and its models are not what they seem.")
    return lines


def refusals_in_words(clients: dict[str, dict[str, int]]) -> str:
    """Whose updates were refused or cut down, how many and why: the first few clients by number, the rest counted."""
    parts = []
    for client, counts in list(clients.items())[:_NAMED]:
        cut = {"cut down": counts["cut down"]} if "cut down" in counts else {}
        out = {why: count for why, count in counts.items() if why not in cut}
        said = [f"{_updates(sum(out.values()))} refused ({', '.join(out)})"] if out else []
        said += [f"{_updates(count)} cut down" for count in cut.values()]
        parts.append(f"client {client}: {', '.join(said)}")
    others = len(clients) - _NAMED
    return "; ".join([*parts, *([f"and {others} more client{'s' if others > 1 else ''}"] if others > 0 else [])])


def _updates(count: int) -> str:
    return f"{count} update{'s' if count > 1 else ''}"


def _pm(value: dict[str, float]) -> str:
    pattern = ".3f" if abs(value["mean"]) < 1e6 else ".2e"
    return f"{value['mean']:{pattern}} ± {value['std']:{pattern}}"
