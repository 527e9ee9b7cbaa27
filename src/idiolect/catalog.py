"""The tables of names: objectives, protocols, and the algorithms that are cells of their product.

A named algorithm is one line. Any other cell is written `objective+protocol`, say `maml+buffered`, and needs none.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax

from idiolect import objectives, protocols
from idiolect.contracts import Algorithm, Peer, PersonalObjective, Problem, Protocol, Screening, StepRule
from idiolect.errors import UserMistake
from idiolect.network.topologies import (
    complete,
    edges,
    erdos_renyi,
    exponential,
    file,
    grid,
    random_regular,
    ring,
    star,
)
from idiolect.options import Registry, checked, known, make
from idiolect.problems.data import partitions
from idiolect.problems.models import networks as models
from idiolect.problems.models import residual
from idiolect.problems.ranking import ranking
from idiolect.problems.synthetic import linear_regression, logistic_regression, quadratics, robust_location
from idiolect.problems.worlds import cartpole, navigation, point_navigation
from idiolect.protocols.attacks import Attack, under_attack
from idiolect.theory import check_lambda, check_personal_step

OBJECTIVES: Registry = {
    "plain": objectives.plain,
    "proximal": objectives.proximal,
    "maml": objectives.maml,
    "moreau": objectives.moreau,
    "quantized": objectives.quantized,
    "binary_relax": objectives.binary_relax,
    "post_training": objectives.post_training,
}

PROTOCOLS: Registry = {
    "local": protocols.local,
    "synchronous": protocols.synchronous,
    "scaffold": protocols.scaffold,
    "asynchronous": protocols.asynchronous,
    "buffered": protocols.buffered,
    "running_sum": protocols.running_sum,
    "push_sum": protocols.push_sum,
    "gossip": protocols.gossip,
}

MODELS: Registry = {"linear": models.linear, "mlp": models.mlp, "cnn": models.cnn, "resnet": residual.resnet}

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
    "robust_location": robust_location,
    "ranking": ranking,
    "navigation": navigation,
    "point_navigation": point_navigation,
    "cartpole": cartpole,
}


TOPOLOGIES: Registry = {
    "erdos_renyi": erdos_renyi,
    "ring": ring,
    "exponential": exponential,
    "star": star,
    "grid": grid,
    "complete": complete,
    "random_regular": random_regular,
    "edges": edges,
    "file": file,
}


class Cell(NamedTuple):
    """Which objective, under which protocol, and who proposed it; and where its defaults differ."""

    objective: str
    protocol: str
    source: str
    defaults: Mapping[str, Any] = {}  # of the objective
    local_steps: int | None = None


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
    "pars_push": Cell("maml", "running_sum", "Toghani et al. 2022", {"batches": "shared"}),
    "pars_push_me": Cell("moreau", "running_sum", "PARS-Push with Moreau envelopes"),
    "rasgp": Cell("plain", "running_sum", "Spiridonoff et al. 2020"),
    "sgp": Cell("plain", "push_sum", "Assran et al. 2019"),
    "dpsgd": Cell("plain", "gossip", "Lian et al. 2017"),
    "qupel": Cell("quantized", "synchronous", "Ozkara et al. 2021, Algorithm 2", {"lambda_p": 0.025}),
    "qupel_async": Cell("quantized", "asynchronous", "QuPeL without waiting", {"lambda_p": 0.025}),
    "local_quantized": Cell("quantized", "local", "Ozkara et al. 2021, Algorithm 1"),
    "proxquant": Cell("quantized", "local", "Bai et al. 2019", {"centers_step_size": 0.0}),
    "binary_relax": Cell("binary_relax", "local", "Yin et al. 2018"),
    "post_training": Cell("post_training", "local", "rounding after full-precision training"),
    "memrl": Cell("moreau", "synchronous", "Toghani et al. 2023 (MEMRL), Algorithm 1", {"batches": "independent"}, 1),
    "maml_rl": Cell("maml", "synchronous", "Finn et al. 2017", local_steps=1),
    "multi_task": Cell("plain", "synchronous", "plain policy gradient on all tasks", local_steps=1),
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


def serverless(name: str) -> bool:
    """Does this algorithm do without a server?"""
    return isinstance(make(PROTOCOLS, "protocol", cell(name).protocol, {}), Peer)


def in_rounds(name: str) -> bool:
    """Does this algorithm's server wait for the end of a round?"""
    chosen = make(PROTOCOLS, "protocol", cell(name).protocol, {})
    return isinstance(chosen, Protocol) and chosen.schedule.rounds


def algorithm(
    name: str,
    problem: Problem,
    *,
    objective: Mapping[str, Any] | None = None,
    protocol: Mapping[str, Any] | None = None,
    local_steps: int | None = None,
    step_size: float = 0.01,
    batch_size: int = 32,
    step_rule: StepRule = StepRule(),
    label: str | None = None,
    screening: Screening = Screening(),
    attack: Attack | None = None,
) -> Algorithm:
    """An algorithm by name, with its options checked and the combinations that cannot work refused.

    Unless told otherwise a client takes 10 local steps between a download and its upload, and 1 where agents exchange
    messages without a server or the named algorithm says so.
    """
    chosen = cell(name)
    options = objective_options(chosen, objective or {})
    if chosen.objective == "moreau":
        check_lambda(options["lambda_"], problem.smoothness)
    if chosen.objective == "maml" and options["steps"]:
        check_personal_step(options["step_size"], problem.smoothness)
    combine = make(PROTOCOLS, "protocol", chosen.protocol, protocol or {})
    serverless = isinstance(combine, Peer)
    if not serverless and step_rule.name != "constant":
        raise UserMistake(
            f"training.step_rule is '{step_rule.name}', but {name} has a server and knows constant steps only"
        )
    if local_steps is None:
        local_steps = chosen.local_steps or (1 if serverless else 10)
    for field, value in (("local_steps", local_steps), ("step_size", step_size), ("batch_size", batch_size)):
        if not value > 0:
            raise UserMistake(f"training.{field} is {value}, but must be positive")
    minimised = OBJECTIVES[chosen.objective](**options)
    if isinstance(minimised, PersonalObjective):
        _check_personal(name, minimised, combine, problem)
    if attack is not None:
        combine = _attacked(name, chosen, combine, attack, problem)
    return Algorithm(
        label or name,
        minimised,
        combine,
        local_steps,
        step_size,
        batch_size,
        step_rule,
        screening,
        attacked=attack is not None,
    )


def _attacked(name: str, chosen: Cell, combine: Protocol | Peer, attack: Attack, problem: Problem) -> Protocol:
    if isinstance(combine, Peer):
        raise UserMistake(f"attack is on what clients send to a server, but {name} has none")
    alone = chosen.protocol == "local"  # nothing is sent, so nothing can be falsified
    return combine if alone else under_attack(combine, attack, problem.clients.total)


def _check_personal(name: str, objective: PersonalObjective, combine: Protocol | Peer, problem: Problem) -> None:
    """Refuse what an objective with a state of its own cannot do: other clients, other layers, no server."""
    if isinstance(combine, Peer):
        raise UserMistake(
            f"{name} keeps a model of its own on every client, which needs a protocol with a server or `local`"
        )
    if objective.clients not in (None, problem.clients.total):
        raise UserMistake(
            f"objective.bits is for {objective.clients} clients, but the problem has {problem.clients.total}"
        )
    jax.eval_shape(lambda key: objective.begin(problem.init(key), 0), jax.random.key(0))


def objective_options(chosen: Cell, options: Mapping[str, Any], what: str = "objective") -> dict[str, Any]:
    """The checked options of a cell's objective, its own defaults included."""
    return checked(OBJECTIVES, what, chosen.objective, {**chosen.defaults, **options})
