"""Run a recipe into a folder, going on where an earlier run of the same recipe stopped."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from idiolect.building import check
from idiolect.engines import Workers
from idiolect.experiment import Progress, run_cells
from idiolect.recipes import Recipe
from idiolect.report.pictures import write_pictures
from idiolect.runs.folder import RunFolder
from idiolect.runs.summary import summarize


def run_recipe(
    recipe: Recipe,
    out: Path,
    *,
    data_dir: Path | None = None,
    progress: Callable[[Progress], None] = lambda state: None,
) -> dict[str, Any]:
    """Run what is missing in `out`, write its tables and pictures, and return the summary."""
    advice = check(recipe, data_dir)
    folder = RunFolder(out, recipe)
    with Workers() as workers:
        for outcome in run_cells(recipe, workers, data_dir=data_dir, skip=folder.has, progress=progress):
            folder.add(outcome)
    cells = folder.cells(recipe)
    summary = {**summarize(recipe, cells), "advice": advice}
    folder.write_tables(cells, summary)
    write_pictures(folder, recipe, cells)
    return summary
