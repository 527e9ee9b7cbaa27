"""The data of a device: what a function of its owner's returns, or a client's rows of the recipe's own problem."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from idiolect.contracts import Clients, PyTree
from idiolect.deploy.assignment import Assignment
from idiolect.deploy.joining.device import OwnData
from idiolect.errors import UserMistake
from idiolect.evaluation.scores import OWN
from idiolect.evaluation.scoring import adaptation_key, scored_split, scorer
from idiolect.experiments.evaluation_plan import plan_evaluation
from idiolect.own_code import import_reference
from idiolect.problems.data.client_splits import split_clients

RECIPE = "recipe:"  # begins the name of a client of the recipe's own problem, for trials


def own_data(name: str, work: Assignment) -> tuple[OwnData, int | None]:
    """The data that `--data` names, and the number that the device would like, if it has one."""
    clients = work.problem.clients
    if not name.startswith(RECIPE):
        return _parts(_split(name, work), 0, work), None
    number = name.removeprefix(RECIPE)
    if not number.isdecimal() or int(number) not in clients.participating:
        raise UserMistake(f"--data is '{name}', but the recipe's clients are 0 to {clients.total - 1}, as recipe:0")
    return _parts(clients, int(number), work), int(number)


def own_scores(work: Assignment) -> Callable[[PyTree, PyTree, OwnData], dict[str, float]]:
    """Scores of a model and what its client keeps, by the same rules as in simulations: the headline metric's."""
    budget = plan_evaluation(work.experiment).budget
    score, key = scorer(work.problem, work.algorithm.objective, budget), adaptation_key(work.seed)

    def found(model: PyTree, own: PyTree, data: OwnData) -> dict[str, float]:
        first = np.asarray(score(model, own, data.adapt, data.scored, key))[0]
        return dict(zip((*map(str, budget.steps), OWN), map(float, first), strict=True))

    return found


def _parts(clients: Clients, number: int, work: Assignment) -> OwnData:
    scored = scored_split(clients, plan_evaluation(work.experiment).budget)
    return OwnData(clients.train.shard(number), clients.adapt.shard(number), scored.shard(number))


def _split(name: str, work: Assignment) -> Clients:
    """What a function returns, cut into parts that never overlap."""
    rows = import_reference(name)()
    wanted = work.problem.clients.train.rows
    found, expected = str(jax.tree.structure(rows)), str(jax.tree.structure(wanted))
    if found != expected:
        raise UserMistake(f"--data {name} returns a tree {found}, but the recipe's problem has {expected}")
    fitted = jax.tree.map(partial(_fitted, name), rows, wanted)
    return split_clients([fitted], rng=np.random.default_rng(work.seed))


def _fitted(name: str, found: Any, wanted: Any) -> np.ndarray:
    array = np.asarray(found)
    if array.shape[1:] != wanted.shape[1:] or array.dtype.kind != np.dtype(wanted.dtype).kind:
        raise UserMistake(
            f"--data {name} returns {array.dtype} {array.shape}, but the recipe's problem has rows of {wanted.dtype} "
            f"{wanted.shape[1:]}"
        )
    return array.astype(wanted.dtype)
