"""Cells of another run that need not be run again: those whose algorithm, data, network and seed are the same.

A run folder belongs to one experiment and refuses any other. So where an algorithm or a seed is added, or one algorithm
is set otherwise, what the others came to is taken over into a new folder: every file is checked by its seal there, and
sealed anew here. Left to be run are cells without a server: several of them go side by side, and who runs beside whom
may show in the last digits.
"""

import json
from pathlib import Path
from typing import Any

from idiolect.errors import UserMistake
from idiolect.experiments.describing import describe
from idiolect.experiments.value import Experiment
from idiolect.network.round_tables import Rounds
from idiolect.results.folder import RECIPE, RunFolder, clock_of, saved_tables

_OF_THE_WHOLE = ("name", "description", "factory", "seeds", "chosen", "algorithms")  # a cell does not depend on these


def read_other(path: Path) -> dict[str, Any]:
    """The experiment of a run whose cells are to be taken, as it is described there."""
    tables = saved_tables(path)
    if clock_of(path) == "real":
        raise UserMistake(f"{path} has a real clock, by which no two runs are the same; take cells of a virtual one")
    if not isinstance(tables.get("algorithms"), list):
        raise UserMistake(f"{path / RECIPE} has no list of algorithms; that of a run has one")
    return tables


def take_cells(folder: RunFolder, experiment: Experiment, other: Path) -> int:
    """Copy what another run has of an experiment's cells and this folder has not; how many these are."""
    there, here = read_other(other), json.loads(json.dumps(describe(experiment)))
    shared = [label for label in experiment.labels if _of_cell(there, label) == _of_cell(here, label)]
    taken = [_taken(folder, RunFolder(other), label, seed) for label in shared for seed in experiment.seeds]
    return sum(taken)


def _taken(folder: RunFolder, other: RunFolder, label: str, seed: int) -> bool:
    if folder.has(label, seed) or not other.has(label, seed):
        return False
    table = other.timeline(label, seed)
    if isinstance(table, Rounds):
        return False
    folder.keep(other.cell(label, seed), table, other.tensors(label, seed))
    return True


def _of_cell(tables: dict[str, Any], label: str) -> dict[str, Any]:
    """All of an experiment that a cell of this algorithm depends on, but for its seed."""
    named = [line for line in tables["algorithms"] if isinstance(line, dict)]
    lines = [line for line in named if (line.get("label") or line.get("name")) == label]
    return {**{name: table for name, table in tables.items() if name not in _OF_THE_WHOLE}, "algorithm": lines}
