"""Which bit width a client should take for the bytes it can spend: tried out, and judged on validation data."""

import tomllib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from idiolect import catalog
from idiolect.errors import UserMistake
from idiolect.experiments.building import build_problem
from idiolect.experiments.running import Progress
from idiolect.experiments.schema import AlgorithmTable, Recipe, parse_recipe, write_recipe
from idiolect.results.execute import run_recipe
from idiolect.results.folder import RunFolder


class Candidate(NamedTuple):
    """What one width came to: bytes of a client's model, mean score over clients and seeds, and its standard error."""

    bits: int
    bytes: int
    score: float
    error: float


class Advice(NamedTuple):
    """All widths tried, and the one chosen for each byte budget; None where no width fits."""

    candidates: list[Candidate]
    chosen: dict[int, int | None]


def advise(
    recipe: Recipe,
    label: str | None,
    budgets: Sequence[int],
    widths: Sequence[int],
    out: Path,
    *,
    data_dir: Path | None = None,
    progress: Callable[[Recipe], AbstractContextManager[Callable[[Progress], None]]],
) -> Advice:
    """Run one of a recipe's algorithms at every width, score it on validation data, and choose for every budget.

    Of the widths that fit a budget the narrowest is chosen whose score is within one standard error of the best. The
    runs go into the folder `out`, and go on there if they were interrupted.
    """
    widths = sorted(widths)
    trial = _trial(recipe, _choose(recipe, label), widths)
    clients = build_problem(trial, trial.seeds[0], data_dir).clients.total
    if len(budgets) not in (1, clients):
        raise UserMistake(f"--bytes has {len(budgets)} budgets, but must have 1 for all or {clients}, one per client")
    with progress(trial) as report:
        run_recipe(trial, out, data_dir=data_dir, progress=report)
    cells = RunFolder(out, trial).cells(trial)
    candidates = [_candidate(width, name, cells) for width, name in zip(widths, trial.labels, strict=True)]
    return Advice(candidates, {budget: choose_width(candidates, budget) for budget in budgets})


def choose_width(candidates: Sequence[Candidate], budget: int) -> int | None:
    """The narrowest width that fits, and is within one standard error of the best that does."""
    fitting = [candidate for candidate in candidates if candidate.bytes <= budget]
    if not fitting:
        return None
    best = max(fitting, key=lambda candidate: candidate.score)
    return min(c.bits for c in fitting if c.score >= best.score - best.error)


def _choose(recipe: Recipe, label: str | None) -> AlgorithmTable:
    wide = {
        table.label or table.name: table
        for table in recipe.algorithms
        if "bits" in catalog.objective_options(catalog.cell(table.name), table.objective)
    }
    if label is None and len(wide) == 1:
        return next(iter(wide.values()))
    if label not in wide:
        said = "is missing" if label is None else f"is '{label}'"
        raise UserMistake(f"--algorithm {said}; with bit widths the recipe has {', '.join(wide) or 'none'}")
    return wide[label]


def _trial(recipe: Recipe, table: AlgorithmTable, widths: Sequence[int]) -> Recipe:
    """The recipe with this algorithm alone, once for every width, judged on validation data."""
    if len(set(widths)) != len(widths) or not widths:
        raise UserMistake(f"--widths are {list(widths)}, but must be some different numbers of bits")
    options = {key: value for key, value in table.objective.items() if key not in ("bits", "levels")}
    tables = tomllib.loads(write_recipe(recipe))
    tables["name"] = f"{recipe.name}-widths"
    tables["evaluation"] |= {"split": "validation", "headline": "own"}
    name = table.label or table.name
    own = {key: value for key, value in dict(table.training).items() if value is not None}
    tables["algorithms"] = [
        {
            "name": table.name,
            "label": f"{name}-{width}bit",
            "objective": {**options, "bits": width},
            "protocol": dict(table.protocol),
            "training": own,
        }
        for width in widths
    ]
    return parse_recipe(tables)


def _candidate(width: int, label: str, cells: list[dict[str, Any]]) -> Candidate:
    clients = [c for cell in cells if cell["label"] == label for c in cell["clients"] if c["group"] == "participating"]
    scores = [client["scores"]["own"] for client in clients]
    sign = 1 if cells[0]["higher_is_better"] else -1
    error = float(np.std(scores, ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else 0.0
    return Candidate(width, max(client["bytes"] for client in clients), sign * float(np.mean(scores)), error)
