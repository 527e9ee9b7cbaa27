"""The table of bit widths that were tried, for the terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from idiolect.inspection.width_advice import Advice


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
