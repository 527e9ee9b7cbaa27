"""The rows of a machine's owner: what a function of theirs returns, or a table of the kind that the recipe describes.

They become the one client of the recipe's problem and never leave the process.
"""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from idiolect.contracts import Clients, Problem, Split
from idiolect.data.table_files import SUFFIXES
from idiolect.deploy.own_tables import problem_of_table
from idiolect.errors import UserMistake
from idiolect.experiments.building import build_problem
from idiolect.experiments.value import Experiment
from idiolect.own_code import import_reference
from idiolect.problems.data.client_splits import PARTS, split_clients


def own_problem(name: str, experiment: Experiment, seed: int, data_dir: Path | None = None) -> Problem:
    """The experiment's problem with one client, whose rows are those that `--data` names, in four parts."""
    if name.lower().endswith(SUFFIXES):
        return problem_of_table(Path(name), experiment, seed, data_dir)
    problem = build_problem(experiment, seed, data_dir)
    return problem._replace(clients=_rows_of_function(name, problem, seed))


def at_place(clients: Clients, number: int, total: int) -> Clients:
    """One client's data as those of this number among so many; the rows of all others are elsewhere."""

    def placed(split: Split) -> Split:
        starts, sizes = np.zeros((2, total), np.int32)
        starts[number], sizes[number] = split.starts[0], split.sizes[0]
        return split._replace(starts=starts, sizes=sizes)

    train, adapt, validation, test = (placed(getattr(clients, part)) for part in PARTS)
    return Clients(train, adapt, validation, test)


def _rows_of_function(name: str, problem: Problem, seed: int) -> Clients:
    """What a function returns, cut into parts that never overlap."""
    rows = import_reference(name)()
    wanted = problem.clients.train.rows
    found, expected = str(jax.tree.structure(rows)), str(jax.tree.structure(wanted))
    if found != expected:
        raise UserMistake(f"--data {name} returns a tree {found}, but the recipe's problem has {expected}")
    fitted = jax.tree.map(partial(_fitted, name), rows, wanted)
    return split_clients([fitted], rng=np.random.default_rng(seed))


def _fitted(name: str, found: Any, wanted: Any) -> np.ndarray:
    array = np.asarray(found)
    if array.shape[1:] != wanted.shape[1:] or array.dtype.kind != np.dtype(wanted.dtype).kind:
        raise UserMistake(
            f"--data {name} returns {array.dtype} {array.shape}, but the recipe's problem has rows of {wanted.dtype} "
            f"{wanted.shape[1:]}"
        )
    return array.astype(wanted.dtype)
