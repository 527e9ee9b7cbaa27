"""From a recipe to its parts: the problem, the algorithms, the timelines, and how the run is watched."""

import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from idiolect import catalog
from idiolect.contracts import Algorithm, Objective, Params, Peer, Problem, Protocol
from idiolect.errors import UserMistake
from idiolect.evaluation.scoring import OWN, Budget
from idiolect.experiments.schema import AlgorithmTable, Recipe, image_problem
from idiolect.network import Timeline, draw_timeline, read_timeline
from idiolect.network.round_files import read_rounds
from idiolect.network.round_tables import Rounds, check_weights
from idiolect.network.timelines import NO_ROUND
from idiolect.network.topologies import Topology
from idiolect.network.unreliable_links import draw_rounds
from idiolect.options import choose, make
from idiolect.problems.data.datasets import load_images
from idiolect.problems.images import classification
from idiolect.theory import admissible_step_size


class Setting(NamedTuple):
    """How a run is watched: when, with which budgets, which of them is the headline, and whether for pictures."""

    times: list[float]
    budget: Budget
    headline: str
    scenes: bool = False  # whether to keep what models do at the start and at the end, for pictures


def check(recipe: Recipe, data_dir: Path | None = None, *, timelines: bool = True) -> list[str]:
    """Build everything of the first seed, so that mistakes show before anything is written; and give advice.

    Without `timelines`, where time will tell.
    """
    seed = recipe.seeds[0]
    problem = build_problem(recipe, seed, data_dir)
    some = problem.clients.train.shard(problem.clients.participating[0])
    for table in recipe.algorithms:
        algorithm = build_algorithm(recipe, table, problem)
        problem.oracle(some, algorithm.batch_size)  # a problem may refuse a batch size
        if timelines:
            build_timeline(recipe, algorithm, problem, seed)
    problem.oracle(some, recipe.evaluation.batch_size)
    split = recipe.evaluation.split
    if not getattr(problem.clients, split).sizes[problem.clients.participating].any():
        raise UserMistake(f"evaluation.split is '{split}', but no participating client has any {split} samples")
    for name in recipe.evaluation.references:
        if name not in problem.references:
            known = ", ".join(problem.references) or "none"
            raise UserMistake(f"evaluation.references has '{name}', but the problem {problem.name} knows {known}")
    for name, members in recipe.evaluation.groups.items():
        if max(members) >= problem.clients.total:
            raise UserMistake(
                f"evaluation.groups.{name} has client {max(members)}, but clients are 0 to {problem.clients.total - 1}"
            )
    return [line for table in recipe.algorithms for line in advice(table, problem)]


def advice(table: AlgorithmTable, problem: Problem) -> list[str]:
    """What theory would warn of, where the problem's constants are known."""
    cell, known = catalog.cell(table.name), problem.constants
    options = catalog.objective_options(cell, table.objective)
    if cell.objective != "maml" or not options["steps"] or known is None:
        return []
    bound = admissible_step_size(known, options["steps"])
    if options["step_size"] <= bound:
        return []
    return [
        f"{table.label or table.name}: objective.step_size is {options['step_size']:g}, above {bound:.3g}, up to which "
        f"PARS-Push, Lemma 1, keeps the cost after {options['steps']} steps strongly convex on every single sample"
    ]


def build_problem(recipe: Recipe, seed: int, data_dir: Path | None = None) -> Problem:
    """The recipe's problem; the seed decides who holds what."""
    images = image_problem(recipe)
    if images is None:
        options = dict(recipe.problem.model_extra or {})
        synthetic: Problem = make(catalog.SYNTHETIC, "problem", recipe.problem.name, options, seed=seed)
        return synthetic
    data = load_images(images.name, data_dir)
    shape, classes = data.pixels.shape[1:], int(data.labels.max()) + 1
    return classification(
        images.name,
        data,
        choose(catalog.MODELS, "problem.model", images.model, shape, classes),
        choose(catalog.PARTITIONS, "problem.partition", images.partition),
        clients=images.clients,
        samples=images.samples,
        unseen=images.unseen,
        shares=images.shares,
        seed=seed,
    )


def build_algorithm(recipe: Recipe, table: AlgorithmTable, problem: Problem) -> Algorithm:
    """One of the recipe's algorithms, with its own training settings over the common ones."""
    training = {**dict(recipe.training), **{key: own for key, own in dict(table.training).items() if own is not None}}
    return catalog.algorithm(
        table.name,
        problem,
        objective=table.objective,
        protocol=table.protocol,
        label=table.label,
        screening=recipe.screening,
        attack=table.attack or recipe.attack,
        **training,
    )


def kind(table: AlgorithmTable, algorithm: Algorithm) -> Hashable:
    """What algorithms without a server have in common that can run as one batch: all but numbers."""
    family = algorithm.objective.family if isinstance(algorithm.objective, Objective) else None
    if family is None:
        return algorithm.name
    protocol = (catalog.cell(table.name).protocol, json.dumps(table.protocol, sort_keys=True))
    return protocol, family.name, algorithm.local_steps, algorithm.batch_size


def build_optimum(recipe: Recipe, table: AlgorithmTable, problem: Problem) -> Params | None:
    """The minimiser of what an algorithm minimises, where the problem knows it."""
    cell = catalog.cell(table.name)
    batch_size = table.training.batch_size or recipe.training.batch_size
    return problem.optimum(cell.objective, catalog.objective_options(cell, table.objective), batch_size)


def build_timeline(recipe: Recipe, algorithm: Algorithm, problem: Problem, seed: int) -> Timeline | Rounds:
    """The recipe's own timeline, or one drawn from its network; alike for all algorithms with the same schedule."""
    participating = problem.clients.participating
    if isinstance(algorithm.protocol, Peer):
        return _build_rounds(recipe, algorithm, len(participating), seed)
    schedule = algorithm.protocol.schedule
    if recipe.timeline is None:
        return draw_timeline(recipe.network, participating, schedule, horizon=recipe.horizon, seed=seed)
    table = check_timeline(read_timeline(Path(recipe.timeline)), algorithm, participating)
    if table.arrived.max() > recipe.horizon:
        raise UserMistake(f"horizon is {recipe.horizon:g}, but the timeline goes on until {table.arrived.max():g}")
    return table


def _build_rounds(recipe: Recipe, algorithm: Algorithm, agents: int, seed: int) -> Rounds:
    if recipe.horizon != int(recipe.horizon):
        raise UserMistake(
            f"horizon is {recipe.horizon:g}, but {algorithm.name} works in rounds, and needs a whole number"
        )
    graph = choose(catalog.TOPOLOGIES, "topology", recipe.topology)(agents, np.random.default_rng([seed, 1]))
    check_graph(graph, algorithm)
    if recipe.timeline is not None:
        table = read_rounds(Path(recipe.timeline), graph, int(recipe.horizon))
    else:
        table = draw_rounds(recipe.links, graph, int(recipe.horizon), seed)
    assert isinstance(algorithm.protocol, Peer)
    lawless = recipe.timeline is not None or "unbounded" in recipe.links  # bounds keep weights away from zero
    if lawless and algorithm.protocol.carries == "sums":
        check_weights(table)
    return table


def check_graph(graph: Topology, algorithm: Algorithm) -> None:
    """Refuse a directed graph where the protocol averages over undirected ones."""
    if isinstance(algorithm.protocol, Peer) and algorithm.protocol.carries == "copies" and not graph.undirected:
        raise UserMistake(
            f"{algorithm.name} averages along links that go both ways, but the topology has links that go one way "
            "only; choose star, grid, complete, random_regular or a ring that is not directed"
        )


def check_timeline(table: Timeline, algorithm: Algorithm, participating: list[int]) -> Timeline:
    """Refuse a timeline that names other clients, or that has no rounds where the protocol needs them."""
    assert isinstance(algorithm.protocol, Protocol)
    strangers = sorted(set(table.client.tolist()) - set(participating))
    if strangers:
        raise UserMistake(
            f"the timeline names client {strangers[0]}, who does not take part in this problem's training"
        )
    if algorithm.protocol.schedule.rounds and (table.round == NO_ROUND).any():
        raise UserMistake(f"{algorithm.name} works in rounds, but the timeline has turns without a round number")
    if not algorithm.protocol.schedule.rounds and (table.round != NO_ROUND).any():
        raise UserMistake(f"{algorithm.name} knows no rounds, but the timeline has a round column; leave it out")
    schedule, held = algorithm.protocol.schedule, np.unique(table.round[table.delivered], return_counts=True)
    room = schedule.cohort(len(participating))
    if schedule.cohort_only and (held[1] > room).any():
        raise UserMistake(
            f"{algorithm.name} holds {room} updates a round (protocol.participation of {len(participating)} clients), "
            f"but round {held[0][np.argmax(held[1])]} of the timeline delivers {held[1].max()}"
        )
    return table


def watch(recipe: Recipe) -> Setting:
    """How the recipe wants its runs watched."""
    table = recipe.evaluation
    budget = Budget(tuple(table.steps), table.step_size, table.batch_size, table.split, table.at_most)
    if table.times is None:
        times = np.linspace(0, recipe.horizon, table.points + 1).tolist()
    else:
        times = sorted({*table.times, recipe.horizon})
    return Setting(times, budget, headline_column(recipe), scenes=True)


def headline_column(recipe: Recipe) -> str:
    """Which scores are "the personalized model": after the most steps of the common budget, or after each one's own."""
    return OWN if recipe.evaluation.headline == "own" else str(recipe.evaluation.steps[-1])


def steps_in_words(count: int, size: float) -> str:
    """How a model was adapted."""
    return f"{count} gradient step{'' if count == 1 else 's'} of size {size:g}"


def describe(recipe: Recipe) -> dict[str, Any]:
    """What the headline numbers are, in words, for whoever reads a summary later."""
    evaluation = recipe.evaluation
    personal = (
        "after the adaptation that each objective prescribes"
        if evaluation.headline == "own"
        else f"after {steps_in_words(evaluation.steps[-1], evaluation.step_size)} on the client's adaptation part"
    )
    return {
        "global": "the model as received, 0 adaptation steps"
        if evaluation.steps[0] == 0
        else f"after {steps_in_words(evaluation.steps[0], evaluation.step_size)}",
        "personalized": personal,
        "scored_on": f"each client's {evaluation.split} part, at the end of the run (no round is picked)",
        "spread": "std over seeds of the mean over clients; worst decile: mean over the worst tenth of clients",
    }
