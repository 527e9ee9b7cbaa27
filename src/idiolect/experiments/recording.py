"""What is noted of one algorithm on one seed while it runs, and what it came to."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from idiolect.contracts import (
    Algorithm,
    Clients,
    Compressed,
    Metric,
    Params,
    Peer,
    PersonalObjective,
    Problem,
    PyTree,
    Scene,
    Shard,
)
from idiolect.engines import Program, Snapshot, Workers, prepare
from idiolect.engines.learner import uncompressed
from idiolect.engines.serverless import PeerProgram, prepare_peers
from idiolect.engines.workers import compile_for_clients
from idiolect.errors import Diverged
from idiolect.evaluation.scoring import (
    OWN,
    Adapter,
    Budget,
    ClientScore,
    Scorer,
    Spread,
    adapter,
    evaluate,
    own_model,
    scored_split,
    scorer,
    spread,
)
from idiolect.experiments.building import Setting
from idiolect.network import Timeline
from idiolect.network.round_tables import Rounds
from idiolect.quantization.sizes import Size, bundle_size
from idiolect.quantization.views import LayerView, view_layers

DRAWN = 6  # clients whose scenes are kept, for a picture


class Point(NamedTuple):
    """A run at one moment: the scores of both groups of clients under every budget, and what clients reported."""

    time: float
    updates: int
    scores: dict[str, dict[str, Spread]]  # group -> "0", "1", …, "own" -> spread over clients
    clients: dict[int, dict[str, float]]  # client -> "0", "1", …, "own" -> score
    reports: dict[str, float]
    layers: dict[str, LayerView]  # of the first client with levels of its own, if there is one


class Moment(NamedTuple):
    """What the models of some clients do at one time: as received, and as their objective adapts them."""

    time: float
    received: dict[int, Scene]
    adapted: dict[int, Scene]


class Result(NamedTuple):
    """One algorithm on one seed, from start to end."""

    label: str
    seed: int
    metrics: tuple[Metric, ...]  # the first is the one that `points` have
    points: list[Point]
    clients: list[ClientScore]  # at the end
    table: Timeline | Rounds
    params: Params  # the server's model at the end; the agents' average where there is no server
    personal: Mapping[int, PyTree]  # what stays on the clients at the end, where a protocol keeps anything
    compressed: Callable[[int], Compressed]  # a client's own model, as its objective prescribes, with its levels
    sizes: dict[int, Size]  # of those models, for every client that was scored
    seconds: float
    ended: str = ""  # why the run came to nothing before its time, if it did
    scenes: Sequence[Moment] = ()  # at the start and at the end, where the problem has any
    stopwatch: Sequence[float] = ()  # seconds of work by each of the points
    refusals: Mapping[int, dict[str, int]] = {}  # by client, how many of its updates were not absorbed as sent, and why

    @property
    def metric(self) -> Metric:
        """The headline metric."""
        return self.metrics[0]

    def model(self, client: int) -> Params:
        """A client's own model: what it received or kept, adapted as its objective prescribes."""
        return self.compressed(client).params


class Prepared(NamedTuple):
    """An algorithm compiled for a kind of problem, to be run on any clients and any seed."""

    program: Program | PeerProgram
    score: Scorer
    adapt: Adapter
    metrics: tuple[Metric, ...]
    scene: Callable[[Params, Shard], Scene] | None


def prepare_cell(problem: Problem, algorithm: Algorithm, budget: Budget) -> Prepared:
    """Compile an algorithm and its evaluation, once for all seeds."""
    serverless = isinstance(algorithm.protocol, Peer)
    program = prepare_peers(problem, algorithm) if serverless else prepare(problem, algorithm)
    score, adapt = scorer(problem, algorithm.objective, budget), adapter(problem, algorithm.objective, budget)
    scene = None if problem.scene is None else compile_for_clients(problem.scene)
    return Prepared(program, score, adapt, problem.metrics, scene)


class Cell(NamedTuple):
    """One seed of an algorithm: its clients, its timeline, and the minimiser it should find, where that is known."""

    clients: Clients
    table: Timeline | Rounds
    seed: int
    optimum: Params | None = None


class Notes(NamedTuple):
    """What a record holds so far."""

    points: list[Point]
    scored: list[ClientScore]  # at the last point
    scenes: list[Moment]
    ended: str
    seconds: float
    stopwatch: list[float]  # seconds by each of the points


class Record:
    """What is noted of one cell while it runs."""

    def __init__(self, prepared: Prepared, cell: Cell, setting: Setting, workers: Workers) -> None:
        self.cell = cell
        self._prepared, self._setting, self._workers = prepared, setting, workers
        self._points: list[Point] = []
        self._scored: list[ClientScore] = []
        self._scenes: list[Moment] = []
        self._stopwatch: list[float] = []
        self._last: Snapshot | None = None
        self._ended, self._seconds, self._began = "", 0.0, time.perf_counter()

    @property
    def latest(self) -> float | None:
        """The last headline score."""
        return self._points[-1].scores["participating"][self._setting.headline].mean if self._points else None

    @property
    def shown(self) -> bool:
        """Has a snapshot been seen, since the start or since a restart?"""
        return self._last is not None

    def notes(self) -> Notes:
        """What was noted so far."""
        return Notes(self._points, self._scored, self._scenes, self._ended, self._worked(), self._stopwatch)

    def restore(self, notes: Notes) -> None:
        """Go on with notes taken before."""
        self._points, self._scored, self._scenes, self._ended, self._seconds, self._stopwatch = notes

    def _worked(self) -> float:
        return self._seconds + time.perf_counter() - self._began

    def add(self, snapshot: Snapshot) -> None:
        """Score a snapshot, unless the run has come to nothing before."""
        if self._points and snapshot.time <= self._points[-1].time:  # shown again, after a restart
            self._last = snapshot
            return
        self._ended = self._ended or snapshot.ended
        if self._ended:
            return
        prepared, cell, setting = self._prepared, self.cell, self._setting
        label, metrics = prepared.program.algorithm.name, prepared.metrics
        scored = evaluate(
            prepared.score, metrics, cell.clients, snapshot, setting.budget, self._workers, seed=cell.seed
        )
        fault = _fault_in(label, scored)
        if fault and not snapshot.excused:
            raise Diverged(f"{fault}; a smaller evaluation.step_size may help")
        if fault:
            self._ended = f"{fault}; {snapshot.excused}"
            return
        self._last, self._scored = snapshot, scored
        if not self._points:
            self._scenes = self._moment(snapshot)
        scores = summarize_clients(scored, metrics[0].higher_is_better)
        reports = {**snapshot.reports, **self._distance(snapshot)}
        each, layers = {one.client: one.scores for one in scored}, self._layers(snapshot)
        self._stopwatch.append(self._worked())
        self._points.append(Point(snapshot.time, snapshot.updates, scores, each, reports, layers))

    def _moment(self, snapshot: Snapshot) -> list[Moment]:
        """What the first few clients do on the rows they are scored on, if the problem can show it and is asked to."""
        scene = self._prepared.scene
        if scene is None or not self._setting.scenes:
            return []
        clients, seed = self.cell.clients, self.cell.seed
        shown, scored = clients.participating[:DRAWN], scored_split(clients, self._setting.budget)
        own = {client: own_model(self._prepared.adapt, clients, snapshot, seed, client).params for client in shown}
        received = {client: scene(snapshot.model(client), scored.shard(client)) for client in shown}
        adapted = {client: scene(own[client], scored.shard(client)) for client in shown}
        return [Moment(snapshot.time, received, adapted)]

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

    def _size(self, last: Snapshot, client: int) -> Size:
        objective = self._prepared.program.algorithm.objective
        if isinstance(objective, PersonalObjective):
            return bundle_size(jax.eval_shape(objective.compressed, last.own(client)))
        return bundle_size(uncompressed(last.params))

    def _distance(self, snapshot: Snapshot) -> dict[str, float]:
        """The mean over clients of the squared distance to the known minimiser."""
        if self.cell.optimum is None:
            return {}
        models = [snapshot.model(client) for client in self.cell.clients.participating]
        return {"distance_to_optimum": float(np.mean([_squared_distance(z, self.cell.optimum) for z in models]))}

    def outcome(self, shared_by: int = 1) -> Result:
        """All that was noted. Cells that ran side by side share the time."""
        last, cell, prepared = self._last, self.cell, self._prepared
        assert last is not None, "a run is shown at its end, if not before"
        own = partial(own_model, prepared.adapt, cell.clients, last, cell.seed)
        sizes = {scored.client: self._size(last, scored.client) for scored in self._scored}
        label = prepared.program.algorithm.name
        scenes = [*self._scenes, *self._moment(last)]
        return Result(
            label,
            cell.seed,
            prepared.metrics,
            self._points,
            self._scored,
            last.table or cell.table,
            last.params,
            last.personal,
            own,
            sizes,
            self._worked() / shared_by,
            self._ended and f"{self._ended}; last scored at time {last.time:g}",
            scenes,
            [seconds / shared_by for seconds in self._stopwatch],
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
