"""The table of bit widths that were tried, for the terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from idiolect.inspection.width_advice import Advice


def print_advice(advice: Advice, budgets: Sequence[int | None], console: Console | None = None) -> None:
    """Every width tried, and what to write into the recipe."""
    console = console or Console()
    console.width = max(console.width, 100)
    table = Table(title="Bit widths, judged on validation data (± standard error over clients and seeds)")
    measured = ("memory", "ms a sample") if advice.candidates[0].memory is not None else ()
    for name in ("bits", "bytes", *measured, "score", "chosen for budgets of"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in advice.candidates:
        mine = [budget for budget, width in advice.chosen.items() if width == one.bits]
        takes = [f"{one.memory:,}", f"{one.milliseconds:.3f}"] if measured else []
        told = ", ".join("any size" if budget is None else f"{budget:,}" for budget in mine)
        table.add_row(str(one.bits), f"{one.bytes:,}", *takes, f"{one.score:.3f} ± {one.error:.3f}", told)
    console.print(table)
    for budget in (budget for budget, width in advice.chosen.items() if width is None):
        console.print(_nothing_fits(advice, budget))
    if all(advice.chosen[budget] for budget in budgets):
        chosen = [advice.chosen[budget] for budget in budgets]
        console.print(f"bits = {chosen[0] if len(chosen) == 1 else chosen}")


def _nothing_fits(advice: Advice, budget: int | None) -> str:
    smallest = min(advice.candidates, key=lambda one: one.bytes)
    takes = f"the smallest model takes {smallest.bytes:,} bytes"
    if smallest.memory is not None:
        takes += f", {smallest.memory:,} in memory and {smallest.milliseconds:.3f} ms a sample"
    return f"No width fits {'the limits' if budget is None else f'{budget:,} bytes'}; {takes}."
