"""What a server and its devices work on: one algorithm on one seed of an experiment that both of them have.

A device is given the recipe as well, and the two compare a digest of it. So no code, no option and no name of a file
ever comes from the network: a server cannot have a device run anything that its owner has not seen.
"""

from pathlib import Path
from typing import NamedTuple

import jax

from idiolect import __version__
from idiolect.contracts import Algorithm, Key, Peer, Problem, Upload
from idiolect.deploy.own_rows import own_problem
from idiolect.engines import Program, prepare
from idiolect.errors import UserMistake
from idiolect.experiments.building import build_algorithm, build_problem
from idiolect.experiments.describing import describe
from idiolect.experiments.evaluation_plan import plan_evaluation
from idiolect.experiments.value import Experiment
from idiolect.results.seals import experiment_digest

RECIPE = "recipe:"  # begins the name of a client of the recipe's own problem, for trials
FORMAT = 1  # of the messages between a server and its devices
_ELSEWHERE = (
    "name",
    "description",
    "factory",
    "horizon",
    "rounds",
    "timeline",
    "network",
    "topology",
    "links",
    "seeds",
    "chosen",
)


class Assignment(NamedTuple):
    """One algorithm on one seed, ready to be served or joined."""

    experiment: Experiment
    label: str
    seed: int
    problem: Problem
    algorithm: Algorithm
    program: Program
    identity: str  # a digest: who has the same works on the same

    @property
    def run(self) -> str:
        """The part of keys that is this run's."""
        return self.identity[:16]

    def about(self) -> dict[str, str | int]:
        """What a server says of itself to whoever may ask."""
        names: dict[str, str | int] = {"experiment": self.experiment.name, "algorithm": self.label, "seed": self.seed}
        return {"format": FORMAT, "version": __version__, "identity": self.identity, **names}


def assignment(
    experiment: Experiment, label: str | None, data_dir: Path | None = None, own: str | None = None
) -> Assignment:
    """The one algorithm of an experiment, or the one that is named, on the first of its seeds.

    `own` is what a device was given by `--data`; its rows are then the problem's one client.
    """
    if label is None and len(experiment.labels) > 1:
        raise UserMistake(f"the recipe has {', '.join(experiment.labels)}; name one by --algorithm")
    label = experiment.labels[0] if label is None else label
    if label not in experiment.labels:
        raise UserMistake(f"--algorithm is '{label}', but the recipe has {', '.join(experiment.labels)}")
    if experiment.start is not None or experiment.attack is not None:
        raise UserMistake("the recipe has start or attack, which are for simulations; leave them out to serve it")
    if experiment.screening.policy == "stop":
        raise UserMistake("screening.policy is 'stop', by which any device could end the run; take reject or clip")
    line, seed = experiment.lines[experiment.labels.index(label)], experiment.seeds[0]
    if own is None or own.startswith(RECIPE):
        problem = build_problem(experiment, seed, data_dir)
    else:
        problem = own_problem(own, experiment, seed, data_dir)
    algorithm = build_algorithm(experiment, line, problem)
    if isinstance(algorithm.protocol, Peer):
        raise UserMistake(f"{label} has no server; its agents are started by: idiolect peer")
    program = prepare(problem, algorithm)
    if not algorithm.protocol.shares:
        raise UserMistake(f"{label} shares nothing, so there is nothing to serve; run it by: idiolect run")
    if algorithm.protocol.schedule.rounds and _says_more(program, problem):
        raise UserMistake(
            f"{label} sends more than a descent, which devices cannot do yet; take another protocol, such as that of "
            "fedavg, scaffold, fedbuff or persa_fl_me"
        )
    return Assignment(experiment, label, seed, problem, algorithm, program, _identity(experiment, label, seed))


def _says_more(program: Program, problem: Problem) -> bool:
    """Do updates have anything beside a descent like the offer?"""
    clients, server = problem.clients, program.protocol.server

    def upload(key: Key) -> Upload:
        offer = server.offer(server.init(program.init(key), len(clients.participating)))
        shard = clients.train.shard(clients.participating[0])
        return program.work.turn(program.work.init(offer, 0, key), offer, shard, key)[1]

    return bool(jax.tree.leaves(jax.eval_shape(upload, jax.random.key(0)).about))


def budget_of(work: Assignment) -> tuple[int, ...]:
    """After how many adaptation steps models are scored."""
    return tuple(plan_evaluation(work.experiment).budget.steps)


def _identity(experiment: Experiment, label: str, seed: int) -> str:
    """A digest of all that decides what is computed. When clients work, and until when, is not part of it."""
    tables = {name: table for name, table in describe(experiment).items() if name not in _ELSEWHERE}
    (line,) = (line for line in tables.pop("algorithms") if line.get("label", line["name"]) == label)
    return experiment_digest({**tables, "algorithm": line, "seed": seed, "messages": FORMAT})
