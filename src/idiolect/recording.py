"""What is noted of one algorithm on one seed while it runs, and what it came to."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from idiolect.building import Setting
from idiolect.contracts import Algorithm, Clients, Compressed, Metric, Params, Peer, PersonalObjective, Problem, PyTree
from idiolect.engines import Program, Snapshot, Workers, prepare
from idiolect.engines.serverless import PeerProgram, prepare_peers
from idiolect.errors import Diverged
from idiolect.evaluation import (
    OWN,
    Adapter,
    Budget,
    ClientScore,
    Scorer,
    Spread,
    adapter,
    evaluate,
    own_model,
    scorer,
    spread,
)
from idiolect.export.contents import Size, bundle_size
from idiolect.learner import uncompressed
from idiolect.network import Timeline
from idiolect.network.rounds import Rounds
from idiolect.quantization.views import LayerView, view_layers


class Point(NamedTuple):
    """A run at one moment: the scores of both groups of clients under every budget, and what clients reported."""

    time: float
    updates: int
    scores: dict[str, dict[str, Spread]]  # group -> "0", "1", …, "own" -> spread over clients
    reports: dict[str, float]
    layers: dict[str, LayerView]  # of the first client with levels of its own, if there is one


class Outcome(NamedTuple):
    """One algorithm on one seed, from start to end."""

    label: str
    seed: int
    metric: Metric
    points: list[Point]
    clients: list[ClientScore]  # at the end
    table: Timeline | Rounds
    params: Params  # the server's model at the end; the agents' average where there is no server
    personal: dict[int, PyTree]  # what stays on the clients at the end, where a protocol keeps anything
    compressed: Callable[[int], Compressed]  # a client's own model, as its objective prescribes, with its levels
    sizes: dict[int, Size]  # of those models, for every client that was scored
    seconds: float
    ended: str = ""  # why the run came to nothing before its time, if it did
    refusals: Mapping[int, dict[str, int]] = {}  # by client, how many of its updates were not absorbed as sent, and why

    def model(self, client: int) -> Params:
        """A client's own model: what it received or kept, adapted as its objective prescribes."""
        return self.compressed(client).params


class Prepared(NamedTuple):
    """An algorithm compiled for a kind of problem, to be run on any clients and any seed."""

    program: Program | PeerProgram
    score: Scorer
    adapt: Adapter
    metric: Metric


def prepare_cell(problem: Problem, algorithm: Algorithm, budget: Budget) -> Prepared:
    """Compile an algorithm and its evaluation, once for all seeds."""
    serverless = isinstance(algorithm.protocol, Peer)
    program = prepare_peers(problem, algorithm) if serverless else prepare(problem, algorithm)
    objective = algorithm.objective
    return Prepared(program, scorer(problem, objective, budget), adapter(problem, objective, budget), problem.metric)


class Cell(NamedTuple):
    """One seed of an algorithm: its clients, its timeline, and the minimiser it should find, where that is known."""

    clients: Clients
    table: Timeline | Rounds
    seed: int
    optimum: Params | None = None


class Record:
    """What is noted of one cell while it runs."""

    def __init__(self, prepared: Prepared, cell: Cell, setting: Setting, workers: Workers) -> None:
        self.cell, self.seconds = cell, 0.0
        self.latest: float | None = None
        self._prepared, self._setting, self._workers = prepared, setting, workers
        self._points: list[Point] = []
        self._ended = ""

    def add(self, snapshot: Snapshot) -> None:
        """Score a snapshot, unless the run has come to nothing before."""
        self._ended = self._ended or snapshot.ended
        if self._ended:
            return
        label, metric, setting = self._prepared.program.algorithm.name, self._prepared.metric, self._setting
        clients, seed = self.cell.clients, self.cell.seed
        scored = evaluate(self._prepared.score, clients, snapshot, setting.budget, self._workers, seed=seed)
        fault = _fault_in(label, scored)
        if fault and not snapshot.excused:
            raise Diverged(f"{fault}; a smaller evaluation.step_size may help")
        if fault:
            self._ended = f"{fault}; {snapshot.excused}"
            return
        self._last, self._scored = snapshot, scored
        scores = summarize_clients(scored, metric.higher_is_better)
        self.latest = scores["participating"][setting.headline].mean
        reports = {**snapshot.reports, **self._distance(snapshot)}
        self._points.append(Point(snapshot.time, snapshot.updates, scores, reports, self._layers(snapshot)))

    def end(self, why: str) -> None:
        """The run has come to nothing; what was scored before stays."""
        self._ended = why

    def _layers(self, snapshot: Snapshot) -> dict[str, LayerView]:
        """How the weights of the first client that has levels lie around them."""
        objective = self._prepared.program.algorithm.objective
        if not isinstance(objective, PersonalObjective):
            return {}
        for client in self.cell.clients.participating:
            model = objective.compressed(snapshot.own(client))
            if model.levels:
                return view_layers(model)
        return {}

    def _size(self, client: int) -> Size:
        objective = self._prepared.program.algorithm.objective
        if isinstance(objective, PersonalObjective):
            return bundle_size(jax.eval_shape(objective.compressed, self._last.own(client)))
        return bundle_size(uncompressed(self._last.params))

    def _distance(self, snapshot: Snapshot) -> dict[str, float]:
        """The mean over clients of the squared distance to the known minimiser."""
        if self.cell.optimum is None:
            return {}
        models = [snapshot.model(client) for client in self.cell.clients.participating]
        return {"distance_to_optimum": float(np.mean([_squared_distance(z, self.cell.optimum) for z in models]))}

    def outcome(self) -> Outcome:
        """All that was noted."""
        last, cell, prepared = self._last, self.cell, self._prepared
        own = partial(own_model, prepared.adapt, cell.clients, last, cell.seed)
        sizes = {scored.client: self._size(scored.client) for scored in self._scored}
        label, personal = prepared.program.algorithm.name, dict(last.personal)
        return Outcome(
            label,
            cell.seed,
            prepared.metric,
            self._points,
            self._scored,
            cell.table,
            last.params,
            personal,
            own,
            sizes,
            self.seconds,
            self._ended and f"{self._ended}; last scored at time {last.time:g}",
            last.refusals,
        )


def _squared_distance(model: Params, optimum: Params) -> float:
    pairs = zip(jax.tree.leaves(model), jax.tree.leaves(optimum), strict=True)
    return sum(float(((np.asarray(a, np.float64) - b) ** 2).sum()) for a, b in pairs)


def _fault_in(label: str, scored: list[ClientScore]) -> str:
    """The first score that is no number, in words; empty if all are."""
    for client in scored:
        for budget, score in client.scores.items():
            if not np.isfinite(score):
                steps = "its own adaptation" if budget == OWN else f"{budget} adaptation steps"
                return f"{label} diverged in evaluation: client {client.client} scores {score} after {steps}"
    return ""


def summarize_clients(scored: list[ClientScore], higher_is_better: bool) -> dict[str, dict[str, Spread]]:
    """Spreads over the clients of each group, under every budget."""
    groups: dict[str, dict[str, Spread]] = {}
    for group in ("participating", "unseen"):
        members = [client for client in scored if client.group == group]
        if members:
            budgets = members[0].scores
            groups[group] = {k: spread([m.scores[k] for m in members], higher_is_better) for k in budgets}
    return groups
