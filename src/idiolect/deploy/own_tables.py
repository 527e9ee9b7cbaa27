"""A machine's own table, read as the recipe's `[problem] name = "table"` reads the file that it names.

Columns, their order, classes and scales are the same for everybody. They stand in the recipe or, where this machine
has the recipe's file too (a few rows that all may see are enough), are those of that file. No other machine is asked.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from idiolect import catalog
from idiolect.contracts import Problem
from idiolect.data.cells import labels
from idiolect.data.columns import Columns
from idiolect.data.named_files import find_files
from idiolect.data.ownership import teller
from idiolect.data.sources_of_rows import read_columns
from idiolect.data.standardizing import rescaled, training_scales
from idiolect.data.table_problem import feature_names
from idiolect.errors import UserMistake
from idiolect.experiments.value import Experiment
from idiolect.options import checked, make
from idiolect.registry import Choice

_KIND = "table"
_DEALING = ("by", "clients", "smallest", "partition", "unseen", "digest")  # what makes clients from one file


def problem_of_table(path: Path, experiment: Experiment, seed: int, data_dir: Path | None = None) -> Problem:
    """The experiment's problem with the rows of this table as its one client."""
    recipe = experiment.problem
    if not isinstance(recipe, Choice) or recipe.name != _KIND:
        found = recipe.name if isinstance(recipe, Choice) else "one of your own"
        raise UserMistake(
            f"--data is the table {path}, but the recipe's problem is {found}; name a function by FILE.py:FUNCTION, or "
            f"take a recipe with [problem] name = '{_KIND}'"
        )
    if not path.is_file():
        raise UserMistake(f"--data is '{path}', but there is no such file")
    options, example = checked(catalog.PROBLEMS, "problem", recipe), _example(recipe, data_dir)
    told = _told_by_recipe(options, path) if example is None else _told_by_example(options, example)
    together = options["standardize"] == "together"
    mine = {name: value for name, value in recipe.options.items() if name not in _DEALING}
    mine |= told | {"file": str(path), "clients": 1} | ({"standardize": "none"} if together else {})
    problem: Problem = _built(mine, seed)
    if together:
        everybody = _built({**recipe.options, "standardize": "none"}, seed, data_dir).clients
        scaled = ["features"] if options["task"] == "classification" else ["features", "target"]
        scales = training_scales(everybody, scaled, everybody.participating)
        problem = problem._replace(clients=rescaled(problem.clients, [scales]))
    return problem


def _built(options: Mapping[str, Any], seed: int, data_dir: Path | None = None) -> Problem:
    made: Problem = make(catalog.PROBLEMS, "problem", Choice(_KIND, dict(options)), seed=seed, data_dir=data_dir)
    return made


def _example(recipe: Choice, data_dir: Path | None) -> Columns | None:
    """The columns of the recipe's own file, if this machine has it."""
    try:
        paths = find_files(recipe.options["file"], data_dir)
    except UserMistake:
        return None
    return read_columns(paths)


def _told_by_example(options: Mapping[str, Any], example: Columns) -> dict[str, Any]:
    target, by = options["target"], options["by"]
    told: dict[str, Any] = {"features": feature_names(example, options["features"], [target, by])}
    if options["task"] == "classification":
        told["classes"] = list(labels(example, target, options["classes"], teller(example, by)).names)
    return told


def _told_by_recipe(options: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Nothing but what stands in the recipe, if that is enough."""
    needed = ["features"] + (["classes"] if options["task"] == "classification" else [])
    missing = [name for name in needed if options[name] is None]
    if missing:
        raise UserMistake(
            f"problem.{missing[0]} is missing, and the recipe's file {options['file']} is not here to tell: name the "
            f"{missing[0]} in the recipe, so that {path} is read as everybody's tables are"
        )
    if options["standardize"] == "together":
        raise UserMistake(
            f"problem.standardize is 'together', but the recipe's file {options['file']} is not here to tell means; "
            "say standardize = 'each' or 'none' in the recipe, or bring the file"
        )
    return {}
