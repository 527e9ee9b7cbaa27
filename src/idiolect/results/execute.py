"""Run a recipe into a folder, going on where an earlier run of the same recipe stopped."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from idiolect.engines import Workers
from idiolect.engines.tree_store import MemoryBudget
from idiolect.experiments.building import check
from idiolect.experiments.places import Place, opened
from idiolect.experiments.references import reference_record
from idiolect.experiments.running import Progress, run_cells
from idiolect.experiments.schema import Recipe, write_recipe
from idiolect.results.checkpoint_files import Pace, checkpoints
from idiolect.results.folder import RunFolder, check_clock
from idiolect.results.summary import summarize
from idiolect.results.traits import write_traits


def run_recipe(
    recipe: Recipe,
    out: Path,
    *,
    data_dir: Path | None = None,
    progress: Callable[[Progress], None] = lambda state: None,
    pace: Pace = Pace(),
    memory: int = MemoryBudget().bytes,
    stop: Callable[[], bool] = lambda: False,
    notice: Callable[[str], None] = lambda sentence: None,
    place: Place = Place(),
) -> dict[str, Any]:
    """Run what is missing in `out`, write its tables and its report, and return the summary.

    The run is saved at the given pace, and when `stop` says so, which then raises `Interrupted`. What clients keep goes
    to disk beyond so many bytes of `memory`. `notice` hears what a user may want to know. Clients work at the `place`.
    """
    check_clock(out, place.clock)
    real = place.clock == "real"
    advice = check(recipe, data_dir, timelines=not real)
    with opened(place, recipe, data_dir) as engine:
        folder = RunFolder(out, recipe, real_clock=real)
        keep = partial(checkpoints, folder.path / "checkpoints", write_recipe(recipe))
        checkpointers = partial(keep, pace=pace, memory=memory, stop=stop, notice=notice)
        with folder.locked(), Workers() as workers:
            _add_references(folder, recipe, data_dir)
            for outcome in run_cells(
                recipe,
                workers,
                data_dir=data_dir,
                skip=folder.has,
                progress=progress,
                checkpointers=checkpointers,
                engine=engine,
                meet=partial(write_traits, folder.path),
            ):
                folder.add(outcome)
            return _summed_up(folder, recipe, {"clock": place.clock, "advice": advice})


def _summed_up(folder: RunFolder, recipe: Recipe, known: dict[str, Any]) -> dict[str, Any]:
    from idiolect.report.writing import PAGE, write_report  # which reads what is written here, and needs plotly

    cells, references = folder.cells(recipe), folder.references(recipe)
    summary = {**summarize(recipe, cells, references), **known}
    folder.write_tables(cells, summary)
    write_report([folder.path], folder.path / PAGE)
    return summary


def _add_references(folder: RunFolder, recipe: Recipe, data_dir: Path | None) -> None:
    for name in recipe.evaluation.references:
        for seed in recipe.seeds:
            if not folder.has_reference(name, seed):
                folder.add_reference(reference_record(recipe, name, seed, data_dir))
