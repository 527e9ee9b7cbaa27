"""The data of a device: the rows of its owner, or for trials those of a client of the recipe's own problem."""

from collections.abc import Callable

import numpy as np

from idiolect.contracts import Clients, PyTree
from idiolect.deploy.assignment import RECIPE, Assignment
from idiolect.deploy.joining.device import OwnData
from idiolect.errors import UserMistake
from idiolect.evaluation.scores import OWN
from idiolect.evaluation.scoring import adaptation_key, scored_split, scorer
from idiolect.experiments.evaluation_plan import plan_evaluation


def own_data(name: str, work: Assignment) -> tuple[OwnData, int | None]:
    """The data that `--data` names, and the number that the device would like, if it has one.

    Where those are rows of its owner, they are the one client of what `assignment` was told to work on.
    """
    clients = work.problem.clients
    if not name.startswith(RECIPE):
        return _parts(clients, 0, work), None
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
