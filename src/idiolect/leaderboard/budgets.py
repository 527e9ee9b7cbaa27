"""When a run has spent its budget: as many gradients as everyone has, or as much virtual time.

Who works when is known before anything is learned, so the moment at which the gradients are spent can be read off the
timeline. Work takes time: a turn's local steps last as long as the gradients they take, whatever they are for.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from idiolect.contracts import Algorithm, Peer, Problem, Protocol
from idiolect.experiments.building import build_graph, build_timeline
from idiolect.experiments.recording import server_steps
from idiolect.experiments.value import Experiment
from idiolect.leaderboard.board_problems import LINKS, SHARES_OF_BUDGET, TOPOLOGY
from idiolect.leaderboard.turn_costs import TurnCost
from idiolect.network.delays import Delay, Network
from idiolect.network.drawn_timelines import draw_timeline
from idiolect.network.round_tables import Rounds, sends
from idiolect.network.timelines import Timeline, closing_turns
from idiolect.network.unreliable_links import draw_rounds

BudgetName = Literal["gradients", "time"]
BUDGETS: tuple[BudgetName, ...] = ("gradients", "time")
GRADIENT_TIME = 0.01  # virtual, of one gradient on one batch; a mean download is 1


class Unaffordable(Exception):
    """Not even one round can be paid from a budget."""


class Limits(NamedTuple):
    """What every algorithm may spend: gradients of all clients together, and virtual time."""

    evaluations: float
    time: float


class Spent(NamedTuple):
    """What a run had spent by some time, by its own timeline."""

    turns: int  # that arrived; without a server, wakings
    evaluations: float
    bytes: int  # that clients received and sent
    steps: int  # versions of the shared model; without a server, rounds
    time: float


def in_its_network(experiment: Experiment, algorithm: Algorithm, cost: TurnCost) -> Experiment:
    """The experiment with the leaderboard's network, in which this algorithm's turns take the time of their work."""
    network = Network(compute=Delay("fixed", GRADIENT_TIME * cost.evaluations))
    return experiment.replace(network=network, topology=TOPOLOGY, links=LINKS)


def scoring_times(
    budget: BudgetName, limits: Limits, experiment: Experiment, algorithm: Algorithm, problem: Problem, cost: TurnCost
) -> list[float]:
    """When a run on the experiment's only seed is scored, the last of which is when its budget is spent."""
    return [_until(budget, limits, share, experiment, algorithm, problem, cost) for share in SHARES_OF_BUDGET]


def _until(
    budget: BudgetName,
    limits: Limits,
    share: float,
    experiment: Experiment,
    algorithm: Algorithm,
    problem: Problem,
    cost: TurnCost,
) -> float:
    """When so large a share of a budget is spent."""
    serverless = isinstance(algorithm.protocol, Peer)
    if budget == "time":
        round_time = 1 + GRADIENT_TIME * cost.evaluations  # of a download, and of the work
        return float(int(share * limits.time / round_time)) if serverless else share * limits.time
    turns = int(share * limits.evaluations / cost.evaluations + 1e-9)
    members, seed = problem.clients.participating, experiment.seeds[0]
    if serverless:
        return float(_rounds_of(experiment, turns, len(members), seed))
    assert isinstance(algorithm.protocol, Protocol)
    return _time_of(experiment, algorithm, turns, members, seed)


def _time_of(experiment: Experiment, algorithm: Algorithm, turns: int, members: list[int], seed: int) -> float:
    """When so many turns have arrived: whole rounds of them, where there are rounds."""
    assert isinstance(algorithm.protocol, Protocol)
    schedule, horizon = algorithm.protocol.schedule, 100.0
    each = schedule.cohort(len(members)) if schedule.rounds else 1
    if turns < each:
        raise Unaffordable(f"one round is {each} turns, and the budget of gradients is {turns}")
    while True:
        table = draw_timeline(experiment.network, members, schedule, horizon=horizon, seed=seed)
        stamps = np.sort(table.arrived[closing_turns(table)] if schedule.rounds else table.arrived)
        if len(stamps) >= turns // each:
            return float(stamps[turns // each - 1])
        horizon *= 2


def _rounds_of(experiment: Experiment, wakings: int, agents: int, seed: int) -> int:
    """In how many rounds agents have woken that often, at most."""
    graph, count = build_graph(experiment, agents, seed), 64
    while True:
        # Who wakes is drawn round after round, whatever their number.
        woken = draw_rounds(experiment.links, graph, count, seed).awake.sum(1).cumsum()
        if woken[0] > wakings:
            raise Unaffordable(f"one round is {woken[0]} wakings, and the budget of gradients is {wakings}")
        if woken[-1] > wakings:
            return int(np.searchsorted(woken, wakings, side="right"))
        count *= 2


def timeline_until(experiment: Experiment, algorithm: Algorithm, problem: Problem, end: float) -> Timeline | Rounds:
    """The timeline of the experiment's only seed."""
    return build_timeline(experiment.replace(horizon=end), algorithm, problem, experiment.seeds[0])


def spent_on(table: Timeline | Rounds, algorithm: Algorithm, cost: TurnCost, end: float) -> Spent:
    """What a run over this timeline spends."""
    if isinstance(table, Rounds):
        turns, messages = int(table.awake.sum()), int(sends(table.graph, table.awake).sum())
        carried = messages * cost.sent
    else:
        turns = table.turns
        carried = turns * (cost.received + cost.sent)
    return Spent(turns, turns * cost.evaluations, carried, server_steps(algorithm.protocol, table), end)


def pauses(times: Sequence[float]) -> list[float]:
    """Times at which to pause, each once, in order, and the start with them: of every run there must be something."""
    return sorted({0.0, *times})
