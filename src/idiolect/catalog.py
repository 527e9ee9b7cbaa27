"""The names of everything that a recipe can choose, and the algorithms that are cells of objectives x protocols.

A named algorithm is one line. Any other cell is written `objective+protocol`, say `maml+buffered`, and needs none.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from idiolect import objectives, protocols
from idiolect.contracts import (
    Algorithm,
    LocalOptimizer,
    Peer,
    Problem,
    Protocol,
    Screening,
    Sharing,
    StepRule,
)
from idiolect.data import femnist, images, shakespeare, table, text
from idiolect.data.named_files import named_by_file
from idiolect.errors import UserMistake
from idiolect.network import changing_graphs, random_graphs, topologies
from idiolect.network.delays import LAWS
from idiolect.options import checked, known, make
from idiolect.problems import data, models, ranking, synthetic, worlds
from idiolect.problems.images import image_problem
from idiolect.protocols import server_optimizers
from idiolect.protocols.attacks import Attack, under_attack
from idiolect.protocols.changing_steps import changing_steps
from idiolect.refusals import check_algorithm
from idiolect.registry import Choice, Registry
from idiolect.sharing import keep_private

OBJECTIVES = Registry(
    "objectives",
    {
        "plain": objectives.plain,
        "proximal": objectives.proximal,
        "maml": objectives.maml,
        "moreau": objectives.moreau,
        "ditto": objectives.ditto,
        "apfl": objectives.apfl,
        "quantized": objectives.quantized,
        "binary_relax": objectives.binary_relax,
        "post_training": objectives.post_training,
    },
)
PROTOCOLS = Registry(
    "protocols",
    {
        "local": protocols.local,
        "synchronous": protocols.synchronous,
        "scaffold": protocols.scaffold,
        "asynchronous": protocols.asynchronous,
        "buffered": protocols.buffered,
        "mixing": protocols.mixing,
        "feddyn": protocols.feddyn,
        "calibrated": protocols.calibrated,
        "ifca": protocols.ifca,
        "l2gd": protocols.l2gd,
    },
)
PEERS = Registry(
    "peers",
    {"running_sum": protocols.running_sum, "push_sum": protocols.push_sum, "gossip": protocols.gossip},
)
SERVER_OPTIMIZERS = Registry("server_optimizers", server_optimizers.BY_NAME)
MODELS = Registry("models", {"linear": models.linear, "mlp": models.mlp, "cnn": models.cnn, "resnet": models.resnet})
TOKEN_MODELS = Registry("token_models", {"gru": models.gru, "transformer": models.transformer})
PARTITIONS = Registry(
    "partitions",
    {"iid": data.iid, "by_classes": data.by_classes, "dirichlet": data.dirichlet, "two_worlds": data.two_worlds},
)
PROBLEMS = Registry(
    "problems",
    {name: image_problem(name) for name in ("digits", "mnist", "fashion_mnist", "cifar10")}
    | {
        "quadratics": synthetic.quadratics,
        "linear_regression": synthetic.linear_regression,
        "logistic_regression": synthetic.logistic_regression,
        "robust_location": synthetic.robust_location,
        "ranking": ranking.ranking,
        "navigation": worlds.navigation,
        "point_navigation": worlds.point_navigation,
        "cartpole": worlds.cartpole,
        "table": named_by_file(table, by=str | None),
        "text": named_by_file(text, by=str | None),
        "images": named_by_file(images),
        "femnist": named_by_file(femnist),
        "shakespeare": named_by_file(shakespeare),
    },
)
TOPOLOGIES = Registry(
    "topologies",
    {
        "erdos_renyi": topologies.erdos_renyi,
        "ring": topologies.ring,
        "exponential": topologies.exponential,
        "star": topologies.star,
        "grid": topologies.grid,
        "complete": topologies.complete,
        "random_regular": random_graphs.random_regular,
        "one_peer": changing_graphs.one_peer,
        "changing": changing_graphs.changing,
        "edges": topologies.edges,
        "file": topologies.file,
    },
)
DELAY_LAWS = LAWS


class Cell(NamedTuple):
    """Which objective, under which protocol, and who proposed it; and where its defaults differ."""

    objective: str
    protocol: str
    source: str
    defaults: Mapping[str, Any] = {}  # of the objective
    local_steps: int | None = None
    sharing: Sharing = Sharing()
    combining: Mapping[str, Any] = {}  # where the defaults of the protocol differ


ALGORITHMS = {
    "local": Cell("plain", "local", "every client alone"),
    "fedavg": Cell("plain", "synchronous", "McMahan et al. 2017"),
    "fedprox": Cell("proximal", "synchronous", "Li et al. 2020"),
    "fedavgm": Cell("plain", "synchronous", "Hsu et al. 2019", combining={"server": {"name": "sgd", "momentum": 0.9}}),
    "fedadam": Cell("plain", "synchronous", "Reddi et al. 2021", combining={"server": {"name": "adam"}}),
    "fedyogi": Cell("plain", "synchronous", "Reddi et al. 2021", combining={"server": {"name": "yogi"}}),
    "fedadagrad": Cell("plain", "synchronous", "Reddi et al. 2021", combining={"server": {"name": "adagrad"}}),
    "scaffold": Cell("plain", "scaffold", "Karimireddy et al. 2020"),
    "per_fedavg": Cell("maml", "synchronous", "Fallah et al. 2020"),
    "pfedme": Cell("moreau", "synchronous", "Dinh et al. 2020"),
    "fedasync": Cell("plain", "asynchronous", "Xie et al. 2019; PersA-FL, option A"),
    "fedbuff": Cell("plain", "buffered", "Nguyen et al. 2022"),
    "feddyn": Cell("plain", "feddyn", "Acar et al. 2021"),
    "ifca": Cell("plain", "ifca", "Ghosh et al. 2020"),
    "l2gd": Cell("plain", "l2gd", "Hanzely and Richtarik 2020"),
    "ca2fl": Cell("plain", "calibrated", "Wang et al. 2024"),
    "fedasync_mixing": Cell("proximal", "mixing", "Xie et al. 2019, Algorithm 1"),
    "ditto": Cell("ditto", "synchronous", "Li et al. 2021"),
    "ditto_async": Cell("ditto", "asynchronous", "Ditto without waiting"),
    "ditto_push": Cell("ditto", "running_sum", "Ditto without a server"),
    "apfl": Cell("apfl", "synchronous", "Deng et al. 2020"),
    "apfl_async": Cell("apfl", "asynchronous", "APFL without waiting"),
    "persa_fl_maml": Cell("maml", "asynchronous", "Toghani et al. 2023, option B"),
    "persa_fl_me": Cell("moreau", "asynchronous", "Toghani et al. 2023, option C"),
    "fedper": Cell("plain", "synchronous", "Arivazhagan et al. 2019", sharing=Sharing(["last"])),
    "lg_fedavg": Cell("plain", "synchronous", "Liang et al. 2020", sharing=Sharing(["body"])),
    "fedrep": Cell("plain", "synchronous", "Collins et al. 2021", sharing=Sharing(["last"], "private_first")),
    "fedbabu": Cell("plain", "synchronous", "Oh et al. 2022", sharing=Sharing(["last"], "shared_only")),
    "pars_push": Cell("maml", "running_sum", "Toghani et al. 2022", {"batches": "shared"}),
    "pars_push_me": Cell("moreau", "running_sum", "PARS-Push with Moreau envelopes"),
    "rasgp": Cell("plain", "running_sum", "Spiridonoff et al. 2020"),
    "sgp": Cell("plain", "push_sum", "Assran et al. 2019"),
    "dpsgd": Cell("plain", "gossip", "Lian et al. 2017"),
    "qupel": Cell("quantized", "synchronous", "Ozkara et al. 2021, Algorithm 2", {"lambda_p": 0.025}),
    "qupel_async": Cell("quantized", "asynchronous", "QuPeL without waiting", {"lambda_p": 0.025}),
    "qupel_push": Cell("quantized", "running_sum", "QuPeL without a server", {"lambda_p": 0.025}),
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
    known([*PROTOCOLS, *PEERS], "protocol", protocol)
    return Cell(objective, protocol, "a cell of the table")


def serverless(name: str) -> bool:
    """Does this algorithm do without a server?"""
    return cell(name).protocol in PEERS


def shares_model(name: str) -> bool:
    """Do the clients of this algorithm learn a model together?"""
    combine = protocol_of(name, {})
    return isinstance(combine, Peer) or combine.shares


def combiners(name: str) -> Registry:
    """The registry that has this protocol: the one with a server, or the one without."""
    return PEERS if name in PEERS else PROTOCOLS


def objective_choice(chosen: Cell, options: Mapping[str, Any]) -> Choice:
    """A cell's objective, its own defaults included."""
    return Choice(chosen.objective, {**chosen.defaults, **options})


def protocol_choice(chosen: Cell, options: Mapping[str, Any]) -> Choice:
    """A cell's protocol, its own defaults included; a table without a name keeps the name that the default has."""
    found = {**chosen.combining, **options}
    for option, default in chosen.combining.items():
        if isinstance(given := found[option], Mapping) and "name" not in given:
            found[option] = {**default, **given}
    return Choice(chosen.protocol, found)


def protocol_of(name: str, options: Mapping[str, Any]) -> Protocol | Peer:
    """The protocol of an algorithm, made with these options."""
    chosen = cell(name)
    made: Protocol | Peer = make(combiners(chosen.protocol), "protocol", protocol_choice(chosen, options))
    return made


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
    sharing: Sharing | None = None,
    optimizer: LocalOptimizer | None = None,
    epochs: int | None = None,
    side_by_side: int | None = None,
) -> Algorithm:
    """An algorithm by name, with its options checked and the combinations that cannot work refused.

    Unless told otherwise a client takes 10 local steps between a download and its upload, and 1 where agents exchange
    messages without a server or the named algorithm says so.
    """
    chosen = cell(name)
    combine = protocol_of(name, protocol or {})
    if local_steps is None:
        local_steps = chosen.local_steps or (1 if isinstance(combine, Peer) else 10)
    made = Algorithm(
        label or name,
        make(OBJECTIVES, "objective", objective_choice(chosen, objective or {})),
        combine,
        local_steps,
        step_size,
        batch_size,
        step_rule,
        screening,
    )
    made = made._replace(
        sharing=chosen.sharing if sharing is None else sharing,
        optimizer=optimizer or LocalOptimizer(),
        epochs=epochs,
        side_by_side=side_by_side,
    )
    return finished(made, problem, attack)


def finished(made: Algorithm, problem: Problem, attack: Attack | None) -> Algorithm:
    """The algorithm as engines run it, with its private part, its steps and its liars; refused if it cannot work."""
    check_algorithm(made, problem)
    made = keep_private(made, problem.init)
    if isinstance(made.protocol, Protocol):
        made = made._replace(protocol=changing_steps(made.protocol, made.step_rule))
    return made if attack is None else attacked(made, attack, problem)


def attacked(made: Algorithm, attack: Attack, problem: Problem) -> Algorithm:
    """The algorithm with some of its clients lying."""
    if not isinstance(made.protocol, Protocol):
        raise UserMistake(f"attack is on what clients send to a server, but {made.name} has none")
    # Where nothing is shared, nothing can be falsified.
    protocol = under_attack(made.protocol, attack, problem.clients.total) if made.protocol.shares else made.protocol
    return made._replace(protocol=protocol, attacked=True)


def options_of(name: str, objective: Mapping[str, Any], protocol: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """The checked options of an algorithm's objective and protocol, every default written out."""
    chosen = cell(name)
    return (
        checked(OBJECTIVES, f"{name}: objective", objective_choice(chosen, objective)),
        checked(combiners(chosen.protocol), f"{name}: protocol", protocol_choice(chosen, protocol)),
    )
