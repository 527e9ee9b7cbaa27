"""The tables of names: objectives, protocols, and the algorithms that are cells of their product.

A named algorithm is one line. Any other cell is written `objective+protocol`, say `maml+buffered`, and needs none.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from idiolect import objectives, protocols
from idiolect.contracts import Algorithm, Problem
from idiolect.errors import UserMistake
from idiolect.options import Registry, checked, known, make
from idiolect.problems import linear_regression, logistic_regression, models, partitions, quadratics
from idiolect.theory import check_lambda

OBJECTIVES: Registry = {
    "plain": objectives.plain,
    "proximal": objectives.proximal,
    "maml": objectives.maml,
    "moreau": objectives.moreau,
}

PROTOCOLS: Registry = {
    "local": protocols.local,
    "synchronous": protocols.synchronous,
    "scaffold": protocols.scaffold,
    "asynchronous": protocols.asynchronous,
    "buffered": protocols.buffered,
}

MODELS: Registry = {"linear": models.linear, "mlp": models.mlp, "cnn": models.cnn}

PARTITIONS: Registry = {
    "iid": partitions.iid,
    "by_classes": partitions.by_classes,
    "dirichlet": partitions.dirichlet,
    "two_worlds": partitions.two_worlds,
}

IMAGES = ("digits", "mnist", "fashion_mnist", "cifar10")

SYNTHETIC: Registry = {
    "quadratics": quadratics,
    "linear_regression": linear_regression,
    "logistic_regression": logistic_regression,
}


class Cell(NamedTuple):
    """Which objective, under which protocol, and who proposed it."""

    objective: str
    protocol: str
    source: str


ALGORITHMS = {
    "local": Cell("plain", "local", "every client alone"),
    "fedavg": Cell("plain", "synchronous", "McMahan et al. 2017"),
    "fedprox": Cell("proximal", "synchronous", "Li et al. 2020"),
    "scaffold": Cell("plain", "scaffold", "Karimireddy et al. 2020"),
    "per_fedavg": Cell("maml", "synchronous", "Fallah et al. 2020"),
    "pfedme": Cell("moreau", "synchronous", "Dinh et al. 2020"),
    "fedasync": Cell("plain", "asynchronous", "Xie et al. 2019; PersA-FL, option A"),
    "fedbuff": Cell("plain", "buffered", "Nguyen et al. 2022"),
    "persa_fl_maml": Cell("maml", "asynchronous", "Toghani et al. 2023, option B"),
    "persa_fl_me": Cell("moreau", "asynchronous", "Toghani et al. 2023, option C"),
}


def cell(name: str) -> Cell:
    """The cell behind an algorithm's name, or behind `objective+protocol`."""
    objective, plus, protocol = name.partition("+")
    if not plus:
        known(ALGORITHMS, "algorithm", name)
        return ALGORITHMS[name]
    known(OBJECTIVES, "objective", objective)
    known(PROTOCOLS, "protocol", protocol)
    return Cell(objective, protocol, "a cell of the table")


def algorithm(
    name: str,
    problem: Problem,
    *,
    objective: Mapping[str, Any] | None = None,
    protocol: Mapping[str, Any] | None = None,
    local_steps: int = 10,
    step_size: float = 0.01,
    batch_size: int = 32,
    label: str | None = None,
) -> Algorithm:
    """An algorithm by name, with its options checked and the combinations that cannot work refused."""
    chosen = cell(name)
    options = checked(OBJECTIVES, "objective", chosen.objective, objective or {})
    if "lambda_" in options:
        check_lambda(options["lambda_"], problem.smoothness)
    for field, value in (("local_steps", local_steps), ("step_size", step_size), ("batch_size", batch_size)):
        if not value > 0:
            raise UserMistake(f"training.{field} is {value}, but must be positive")
    return Algorithm(
        label or name,
        OBJECTIVES[chosen.objective](**options),
        make(PROTOCOLS, "protocol", chosen.protocol, protocol or {}),
        local_steps,
        step_size,
        batch_size,
    )
