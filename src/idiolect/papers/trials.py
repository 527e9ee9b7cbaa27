"""The runs that exhibits are made from: ordinary run folders, which exhibits share, of the recipes at every scale."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from idiolect.experiments.building import headline_column
from idiolect.experiments.recipe_files import load_recipe
from idiolect.experiments.running import Progress
from idiolect.experiments.schema import Recipe
from idiolect.papers.exhibit import Request, Scale
from idiolect.results.execute import run_recipe
from idiolect.results.folder import RunFolder

Cell = dict[str, Any]


class Size(NamedTuple):
    """A recipe at one scale: settings on top of it, and which of its algorithms run (all, if none is named)."""

    words: str
    seeds: tuple[int, ...]
    recipe: str
    settings: tuple[str, ...] = ()
    only: tuple[str, ...] = ()


class Trial(NamedTuple):
    """One run that an exhibit needs."""

    name: str
    sizes: Mapping[str, Size]

    def scales(self) -> dict[str, Scale]:
        """What an exhibit made from this run says of its scales."""
        return {name: Scale(size.words, size.seeds) for name, size in self.sizes.items()}


class FinishedTrial(NamedTuple):
    """A finished run, as its folder has it."""

    recipe: Recipe
    folder: Path
    cells: list[Cell]
    references: list[dict[str, Any]]

    @property
    def labels(self) -> list[str]:
        """The algorithms."""
        return self.recipe.labels

    @property
    def seeds(self) -> list[int]:
        """The seeds, in the order of every list of numbers below."""
        return self.recipe.seeds

    @property
    def seconds(self) -> float:
        """What its cells and references took when they were run; references that are older did not note it."""
        return float(sum(record.get("seconds", 0.0) for record in [*self.cells, *self.references]))

    def of(self, label: str) -> list[Cell]:
        """An algorithm's cells, one for each seed."""
        found = {cell["seed"]: cell for cell in self.cells if cell["label"] == label}
        return [found[seed] for seed in self.seeds]

    def scores(self, label: str, column: str | None = None, metric: str | None = None) -> list[float]:
        """Mean over participating clients at the end, for each seed; of the headline and first metric if not named."""
        column = column or headline_column(self.recipe)
        return [_score(cell, column, metric) for cell in self.of(label)]

    def reference(self, name: str, metric: str) -> list[float]:
        """What a reference scores, mean over clients, for each seed."""
        found = {record["seed"]: record["scores"][metric] for record in self.references if record["name"] == name}
        return [float(np.mean(list(found[seed].values()))) for seed in self.seeds]


def _score(cell: Cell, column: str, metric: str | None) -> float:
    if metric is None or metric == cell["metric"]:
        return float(cell["points"][-1]["participating"][column]["mean"])
    mine = [client for client in cell["clients"] if client["group"] == "participating"]
    return float(np.mean([client["also"][metric][column] for client in mine]))


def recipe_of(trial: Trial, scale: str, seeds: Sequence[int] | None = None) -> Recipe:
    """The recipe that a trial runs at this scale."""
    size = trial.sizes[scale]
    recipe = load_recipe(size.recipe, [*size.settings, f"seeds={list(seeds or size.seeds)}"])
    kept = [table for table in recipe.algorithms if (table.label or table.name) in (size.only or recipe.labels)]
    return recipe.model_copy(update={"algorithms": kept})


def folder_of(trial: Trial, request: Request) -> Path:
    """Where a trial lies; other seeds than the scale's own are another run."""
    return request.out / "runs" / named(trial.name, request, trial.sizes[request.scale].seeds)


def named(name: str, request: Request, usual: Sequence[int]) -> str:
    """The folder of something at a scale, and on which seeds if they are not the usual ones."""
    other = "" if tuple(request.seeds) == tuple(usual) else f"-seeds{','.join(map(str, request.seeds))}"
    return f"{name}-{request.scale}{other}"


def carry_out(trial: Trial, request: Request) -> FinishedTrial:
    """Run a trial, or what is missing of it; a finished one is only read, and needs no data."""
    recipe, out = recipe_of(trial, request.scale, request.seeds), folder_of(trial, request)
    if not _finished(recipe, out):
        cells = [(label, seed) for seed in recipe.seeds for label in recipe.labels]

        def show(state: Progress) -> None:
            done = cells.index((state.label, state.seed)) + min(state.time / recipe.horizon, 1.0)
            request.progress(f"{trial.name}: {state.label}, seed {state.seed}", done / len(cells))

        run_recipe(recipe, out, data_dir=request.data_dir, progress=show, stop=request.stop)
    folder = RunFolder(out, recipe)
    return FinishedTrial(recipe, out, folder.cells(recipe), folder.references(recipe))


def _finished(recipe: Recipe, out: Path) -> bool:
    if not (out / "summary.json").is_file():
        return False
    folder = RunFolder(out, recipe)  # which refuses a folder of another recipe
    known = all(folder.has_reference(name, seed) for name in recipe.evaluation.references for seed in recipe.seeds)
    return known and all(folder.has(label, seed) for label in recipe.labels for seed in recipe.seeds)
