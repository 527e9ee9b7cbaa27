"""A comparison of runs, for people and for programs."""

import math
from typing import Any, NamedTuple

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from idiolect.comparison.contrasts import Contrast
from idiolect.comparison.pairing import LEVEL, Paired
from idiolect.comparison.run_comparison import Compared, Comparison

_METHODS = (
    "Over seeds: Student's paired test on the means over participating clients, one pair a seed, two-sided.",
    "Over clients: the interval is a bootstrap in two stages (seeds, then clients of each), too narrow with few seeds; "
    "Wilcoxon's signed-rank test takes clients for independent, but clients of one seed share a model and are not, so "
    "its p is smaller than it should be. Where the two disagree, trust the seeds.",
)


class Rows(NamedTuple):
    """A table as text."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def add(self, *row: str) -> None:
        """One more row."""
        self.rows.append(row)


def print_comparison(comparison: Comparison, console: Console | None = None) -> None:
    """Two tables, over seeds and over clients, and what they can be trusted for."""
    console = console or Console()
    if not console.is_terminal:
        console.width = max(console.width, 140)  # whoever reads it later has a wide page
    better = "higher is better" if comparison.higher_is_better else "lower is better"
    console.print(f"{comparison.metric} ({better}) of {comparison.what}", highlight=False, markup=False)
    for table in (_over_seeds(comparison), _over_clients(comparison)):
        _print_fitting(console, table)
    for line in (*_METHODS, _correction(comparison), *comparison.notes):
        console.print(line, highlight=False, markup=False)


def _print_fitting(console: Console, table: Rows) -> None:
    """As a table where the terminal is wide enough for all of it; else line by line, so that nothing is cut off."""
    drawn = Table(title=table.title, title_justify="left")
    for number, name in enumerate(table.columns):
        drawn.add_column(name, justify="right" if number > 1 else "left", no_wrap=True)
    for row in table.rows:
        drawn.add_row(*row)
    if Measurement.get(console, console.options.update(max_width=10_000), drawn).maximum <= console.width:
        console.print(drawn)
        return
    console.print(table.title)
    for second, first, *numbers in table.rows:
        told = ", ".join(f"{name} {text}" for name, text in zip(table.columns[2:], numbers, strict=True))
        console.print(f"  {second} minus {first}: {told}", highlight=False, markup=False)


def _over_seeds(comparison: Comparison) -> Rows:
    table = _table(
        "Over seeds", ("first mean", "second mean", "difference", "95 % interval", "p", "worst decile", "seeds")
    )
    for row in comparison.rows:
        found = row.contrast
        table.add(
            *_names(row),
            f"{found.first:.3g}",
            f"{found.second:.3g}",
            f"{found.over_seeds.mean:+.3g}",
            _interval(found.over_seeds),
            _p(row.p),
            f"{found.worst_decile.mean:+.3g}",
            str(len(found.seeds)),
        )
    return table


def _over_clients(comparison: Comparison) -> Rows:
    table = _table("Over clients", ("difference", "95 % interval", "better", "worse", "p (Wilcoxon)", "pairs"))
    for row in comparison.rows:
        found = row.contrast.over_clients
        table.add(
            *_names(row),
            f"{found.mean:+.3g}",
            f"[{found.low:+.3g}, {found.high:+.3g}]",
            f"{found.better:.0%}",
            f"{found.worse:.0%}",
            _p(row.p_clients),
            str(found.pairs),
        )
    return table


def _table(title: str, columns: tuple[str, ...]) -> Rows:
    return Rows(title, ("second", "minus first", *columns), [])


def _names(row: Compared) -> tuple[str, str]:
    """What is compared with what; runs are named only where there are several."""
    (first_run, first), (second_run, second) = row.first, row.second
    if first_run == second_run:
        return second, first
    return f"{second_run} {second}", f"{first_run} {first}"


def _interval(result: Paired) -> str:
    return f"[{result.low:+.3g}, {result.high:+.3g}]" if math.isfinite(result.low) else "[?]"


def _p(value: float) -> str:
    if math.isnan(value):
        return "?"
    return "<0.0001" if value < 1e-4 else f"{value:.4f}"


def _correction(comparison: Comparison) -> str:
    count = len(comparison.rows)
    lone = " One seed is no test: neither an interval nor a p over seeds (?)."
    said = (
        f"p are corrected after Holm for the {count} comparisons of each table; below {LEVEL:g} they speak for a "
        "difference."
        if count > 1
        else "One comparison, so p needs no correction."
    )
    return said + (lone if any(len(row.contrast.seeds) < 2 for row in comparison.rows) else "")


def as_json(comparison: Comparison) -> dict[str, Any]:
    """The same as plain JSON values; what is not known is null."""
    return {
        "metric": comparison.metric,
        "higher_is_better": comparison.higher_is_better,
        "score": comparison.which,
        "what": comparison.what,
        "difference": "second - first",
        "comparisons": [_row(row) for row in comparison.rows],
        "methods": [*_METHODS, _correction(comparison)],
        "notes": comparison.notes,
    }


def _row(row: Compared) -> dict[str, Any]:
    found: Contrast = row.contrast
    sides = {
        name: {"run": run, "label": label, "mean": mean}
        for name, (run, label), mean in (("first", row.first, found.first), ("second", row.second, found.second))
    }
    clients = found.over_clients
    return {
        **sides,
        "seeds": found.seeds,
        "over_seeds": {**_numbers(found.over_seeds), "p": _known(found.p), "p_holm": _known(row.p)},
        "over_clients": {
            "mean": clients.mean,
            "interval": [clients.low, clients.high],
            "better": clients.better,
            "worse": clients.worse,
            "wilcoxon_p": clients.p,
            "wilcoxon_p_holm": row.p_clients,
            "pairs": clients.pairs,
        },
        "worst_decile": _numbers(found.worst_decile),
    }


def _numbers(result: Paired) -> dict[str, Any]:
    return {"mean": result.mean, "std": result.std, "interval": [_known(result.low), _known(result.high)]}


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
