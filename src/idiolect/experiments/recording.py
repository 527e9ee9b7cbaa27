"""Scoring and recording of one algorithm on one seed while it runs."""

import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from idiolect.contracts import (
    Clients,
    Compressed,
    Params,
    Peer,
    Protocol,
)
from idiolect.engines import Snapshot, Workers
from idiolect.errors import Diverged
from idiolect.evaluation.scores import OWN, ClientScore, spread_over_clients
from idiolect.evaluation.scoring import own_model, scored_split
from idiolect.evaluation.scoring_clients import Known, evaluate
from idiolect.experiments.cell_results import ModelsAt, Result, known_client
from idiolect.experiments.evaluation_plan import EvaluationPlan
from idiolect.experiments.preparing import Prepared
from idiolect.experiments.records import DISTANCE, CellRecord, ClientRecord, Moment, Notes, Point
from idiolect.network import Timeline
from idiolect.network.round_tables import Rounds
from idiolect.network.timelines import closing_turns
from idiolect.quantization.sizes import bundle_size
from idiolect.quantization.views import LayerView, view_layers

DRAWN = 6  # clients whose scenes are kept, for a picture
LOOKED_AT = 1_000  # clients, among whom one with levels of its own is looked for


class Cell(NamedTuple):
    """One seed of an algorithm: its clients, its timeline, and the minimiser it should find, where that is known.

    `start` is a trained model to begin with, in place of a drawn one.
    """

    clients: Clients
    table: Timeline | Rounds
    seed: int
    optimum: Params | None = None
    start: Params | None = None


class Recorder:
    """What is noted of one cell while it runs."""

    def __init__(
        self,
        prepared: Prepared,
        cell: Cell,
        plan: EvaluationPlan,
        workers: Workers,
        *,
        keep_models: bool = False,
        outlive: bool = False,
    ) -> None:
        self.cell, self._outlive, self.diverged = cell, outlive, False
        self._keep_models, self._trajectory = keep_models, list[ModelsAt]()
        self._prepared, self._plan, self._workers = prepared, plan, workers
        self._points: list[Point] = []
        self._scored: list[ClientScore] = []
        self._known: dict[int, Known] = {}
        self._scenes: list[Moment] = []
        self._stopwatch: list[float] = []
        self._last: Snapshot | None = None
        self._kinds: dict[str, Compressed] = {}
        self._ended, self._seconds, self._began = "", 0.0, time.perf_counter()

    @property
    def latest(self) -> float | None:
        """The last headline score."""
        return self._points[-1].scores["participating"][self._plan.headline].mean if self._points else None

    @property
    def points(self) -> Sequence[Point]:
        """What was scored so far."""
        return self._points

    @property
    def shown(self) -> bool:
        """Has a snapshot been seen, since the start or since a restart?"""
        return self._last is not None

    @property
    def lost(self) -> bool:
        """Has it ended after a restart, without the models of its last score?"""
        return bool(self._ended and self._points and self._last and self._last.time != self._points[-1].time)

    def notes(self) -> Notes:
        """What was noted so far."""
        noted = self._points, self._scored, self._scenes, self._ended, self._worked(), self._stopwatch
        return Notes(*noted, self.diverged)

    def restore(self, notes: Notes) -> None:
        """Go on with notes taken before."""
        self._points, self._scored, self._scenes, self._ended, self._seconds, self._stopwatch, self.diverged = notes

    def _worked(self) -> float:
        return self._seconds + time.perf_counter() - self._began

    def add(self, snapshot: Snapshot) -> Point | None:
        """Score a snapshot, unless the run has come to nothing before or the snapshot was scored already."""
        if self._points and snapshot.time <= self._points[-1].time:  # shown again, after a restart
            self._last = snapshot
            return None
        if self._ended or snapshot.ended:
            self._withdraw(snapshot, snapshot.ended)
            return None
        prepared, cell, plan = self._prepared, self.cell, self._plan
        label, metrics = prepared.program.algorithm.name, prepared.metrics
        scored = evaluate(
            prepared.score,
            metrics,
            cell.clients,
            snapshot,
            plan.budget,
            self._workers,
            seed=cell.seed,
            known=self._known,
        )
        if found := _fault_in(label, scored, snapshot.time):
            fault, hint = found
            self._withdraw(snapshot, f"{fault}; {snapshot.excused or hint}")
            return None
        self._last, self._scored = snapshot, scored
        if not self._points:
            self._scenes = self._moment(snapshot)
        scores = spread_over_clients(scored, metrics[0].higher_is_better)
        reports = {**snapshot.reports, **self._distance(snapshot)}
        each, layers = {one.client: one.scores for one in scored}, self._layers(snapshot)
        self._stopwatch.append(self._worked())
        self._points.append(Point(snapshot.time, snapshot.updates, scores, each, reports, layers))
        if self._keep_models:
            models = {client: snapshot.model(client) for client in cell.clients.participating}
            self._trajectory.append(ModelsAt(snapshot.time, snapshot.params, models))
        return self._points[-1]

    def _moment(self, snapshot: Snapshot) -> list[Moment]:
        """What the first few clients do on the rows they are scored on, if the problem can show it and is asked to."""
        scene = self._prepared.scene
        if scene is None or not self._plan.scenes:
            return []
        clients, seed = self.cell.clients, self.cell.seed
        shown, scored = clients.participating[:DRAWN], scored_split(clients, self._plan.budget)
        own = {client: own_model(self._prepared.adapt, clients, snapshot, seed, client).params for client in shown}
        whole = self._prepared.program.algorithm.objective.whole
        models = {client: whole(snapshot.own(client), snapshot.model(client)) for client in shown}
        received = {client: scene(models[client], scored.shard(client)) for client in shown}
        adapted = {client: scene(own[client], scored.shard(client)) for client in shown}
        return [Moment(snapshot.time, received, adapted)]

    def end(self, why: str, *, diverged: bool) -> None:
        """The run has come to nothing; what was scored before stays."""
        self._ended, self.diverged = why, diverged

    def _withdraw(self, snapshot: Snapshot, why: str) -> None:
        """A snapshot cannot be scored: the models of the last score are the run's, also after a restart."""
        if not self._ended:
            diverged = not snapshot.excused
            if diverged and not self._outlive:
                raise Diverged(why)
            self.end(why, diverged=diverged)
        if self._last is None:  # there is no earlier one
            self._last = snapshot
        snapshot.withdraw()

    def _layers(self, snapshot: Snapshot) -> dict[str, LayerView]:
        """How the weights of the first client that has levels lie around them."""
        clients, seed = self.cell.clients, self.cell.seed
        for client in clients.participating[:LOOKED_AT]:
            if self._shapes(snapshot, client).levels:
                return view_layers(own_model(self._prepared.adapt, clients, snapshot, seed, client))
            if not jax.tree.leaves(snapshot.own(client)):
                break  # where nothing is kept, all clients are alike
        return {}

    def _shapes(self, snapshot: Snapshot, client: int) -> Compressed:
        """A client's model as mere shapes, found once for all clients that keep the same."""
        own = jax.eval_shape(lambda: snapshot.own(client))
        kind = str(own)
        if kind not in self._kinds:
            shard, key = self.cell.clients.adapt.shard(client), jax.random.key(0)
            self._kinds[kind] = jax.eval_shape(self._prepared.adapt, snapshot.params, own, shard, key)
        return self._kinds[kind]

    def _distance(self, snapshot: Snapshot) -> dict[str, float]:
        """The mean over clients of the squared distance to the known minimiser."""
        if self.cell.optimum is None:
            return {}
        models = [snapshot.model(client) for client in self.cell.clients.participating]
        return {DISTANCE: float(np.mean([_squared_distance(z, self.cell.optimum) for z in models]))}

    def result(self, shared_by: int = 1) -> Result:
        """All that was noted. Cells that ran side by side share the time."""
        last, cell, prepared = self._last, self.cell, self._prepared
        assert last is not None, "a run is shown at its end, if not before"
        first, *further = prepared.metrics
        protocol = prepared.program.algorithm.protocol
        record = CellRecord(
            prepared.program.algorithm.name,
            cell.seed,
            first.name,
            first.higher_is_better,
            {metric.name: metric.higher_is_better for metric in further},
            self._worked() / shared_by,
            [seconds / shared_by for seconds in self._stopwatch],
            self._ended
            and f"{self._ended}; {f'last scored at time {last.time:g}' if self._points else 'never scored'}",
            isinstance(protocol, Peer) or protocol.shares,
            self._points,
            [self._client(scored, last) for scored in self._scored],
            [*self._scenes, *(self._moment(last) if self._points else [])],
            last.refusals,
            last.refused_messages,
            server_steps(protocol, last.table or cell.table),
            self.diverged,
        )
        own = partial(own_model, prepared.adapt, cell.clients, last, cell.seed)
        table, whole = last.table or cell.table, prepared.program.algorithm.objective.whole

        def received(client: int) -> Params:
            return whole(last.own(client), last.model(client))

        total = cell.clients.total
        of_clients = (known_client(own, total), known_client(received, total))
        made = (*of_clients, self._trajectory, prepared.origin, last.groups)
        return Result(record, table, last.params, last.personal, *made)

    def _client(self, scored: ClientScore, last: Snapshot) -> ClientRecord:
        size = bundle_size(self._shapes(last, scored.client))
        return ClientRecord(*scored, size.bits, size.total)


def server_steps(protocol: Protocol | Peer, table: Timeline | Rounds) -> int:
    """Versions of the shared model by the end: closed rounds, or full buffers; without a server, rounds."""
    if isinstance(table, Rounds) or isinstance(protocol, Peer):
        return table.length if isinstance(table, Rounds) else 0
    if not protocol.shares:
        return 0
    rounds = protocol.schedule.rounds
    return len(closing_turns(table)) if rounds else int(table.delivered.sum()) // protocol.schedule.updates_per_step


def _squared_distance(model: Params, optimum: Params) -> float:
    pairs = zip(jax.tree.leaves(model), jax.tree.leaves(optimum), strict=True)
    return sum(float(((np.asarray(a, np.float64) - b) ** 2).sum()) for a, b in pairs)


def _fault_in(label: str, scored: list[ClientScore], time: float) -> tuple[str, str] | None:
    """The first score that is no number, in words, and what may help; None if all are."""
    for client in scored:
        for budget, score in client.scores.items():
            if not np.isfinite(score):
                own = budget == OWN
                steps = f"{budget} adaptation steps" if budget.isdecimal() else f"its adaptation '{budget}'"
                steps = "its own adaptation" if own else steps
                fault = f"{label} diverged in evaluation: client {client.client} scores {score} after {steps}"
                if budget == "0" and time == 0:
                    return fault, "nothing was trained yet, so look at the loss, the score and the first parameters"
                step = "inner step of its objective" if own else "step size of the evaluation"
                return fault, f"a smaller {step} may help"
    return None
