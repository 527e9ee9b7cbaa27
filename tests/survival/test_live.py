"""The engine with a real clock, its time and its luck scripted: what it writes down is what the simulator replays."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest

from idiolect.contracts import Problem
from idiolect.engines import Program, Snapshot, ThreadBackend, Workers, prepare, run_in_real_time, simulate
from idiolect.engines.backend import Job, Pending, dealt
from idiolect.engines.checkpointing import Checkpoint
from idiolect.engines.simulator.stepwise_server import run_stepwise
from idiolect.experiments.building import build_algorithm, build_problem
from idiolect.experiments.recipe_files import parse_recipe
from idiolect.network.timelines import read_timeline, staleness, write_timeline

TIMES = [0.0, 7.0, 20.0]
OPTIONS: dict[str, dict[str, Any]] = {
    "fedbuff": {"protocol": {"size": 3, "staleness": "polynomial"}},
    "persa_fl_me": {"protocol": {"staleness": "hinge"}, "objective": {"iterations": 2}},
    "qupel_async": {"objective": {"bits": 1, "keep": []}},
    "local": {},
}


@cache
def prepared(name: str) -> tuple[Program, Problem]:
    experiment = parse_recipe(
        {
            "problem": {"name": "quadratics", "clients": 5, "dimension": 3, "noise": 0.1},
            "training": {"local_steps": 2, "batch_size": 4},
            "algorithms": [{"name": name, **OPTIONS[name]}],
        }
    )
    problem = build_problem(experiment, 0)
    return prepare(problem, build_algorithm(experiment, experiment.lines[0], problem)), problem


@pytest.fixture(params=OPTIONS)
def cell(request: pytest.FixtureRequest) -> tuple[Program, Problem]:
    return prepared(request.param)


class Script:
    """A backend whose members take as long as a seeded coin says, on a clock of its own. Some clients never answer."""

    def __init__(self, program: Program, problem: Problem, workers: Workers, count: int, seed: int) -> None:
        self.count, self.ahead, self.now, self.silent = count, 8 * count, 0.0, set[int]()
        self._threads = ThreadBackend(program, problem.clients, workers, 0)
        self._rng, self._client = np.random.default_rng(seed), dict[int, int]()

    def submit(self, job: Job) -> Pending:
        self._client[job.turn] = job.client
        return self._threads.submit(job)

    def ready(self, pending: Mapping[int, Pending], seconds: float) -> list[int]:
        assert len({self._client[turn] for turn in pending}) == len(pending), "a client takes one turn at a time"
        self.now += min(seconds, self._rng.exponential(0.3))
        able = [turn for turn in pending if self._client[turn] not in self.silent]
        return [int(self._rng.choice(able))] if able and self._rng.random() < 0.7 else []


def watched(cell: tuple[Program, Problem], script: Script, **options: Any) -> list[Snapshot]:
    program, problem = cell
    settings = {"seed": 0, "times": TIMES, "read": lambda: script.now, **options}
    return list(run_in_real_time(program, problem.clients, script, **settings))


def content(snapshots: list[Snapshot]) -> list[Any]:
    arrays = [(s.time, s.updates, s.reports, s.params, dict(s.personal)) for s in snapshots]
    return [leaf if isinstance(leaf, float) else np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(arrays)]


def test_the_simulator_replays_what_happened_to_the_last_bit(cell, tmp_path):
    program, problem = cell
    with Workers(1) as workers:
        snapshots = watched(cell, Script(program, problem, workers, 3, seed=1))
        table = snapshots[-1].table
        (tmp_path / "timeline.csv").write_text(write_timeline(table))
        again = read_timeline(tmp_path / "timeline.csv")
        replayed = list(simulate(program, problem.clients, again, workers, seed=0, times=TIMES))
        params, personal = run_stepwise(program, problem.clients, again, seed=0)
    assert snapshots[-1].updates == table.delivered.sum() > 20
    assert not table.delivered.all(), "whoever was at work in the end is written down as well"
    assert content(snapshots) == content(replayed)
    expected = [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves((params, personal))]
    last = snapshots[-1]
    kept = {client: last.personal.get(client, personal[client]) for client in personal}
    assert [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves((last.params, kept))] == expected


def test_who_never_answers_stops_nobody_at_another_place(cell):
    program, problem = cell
    with Workers(1) as workers:
        script = Script(program, problem, workers, 3, seed=2)
        script.silent = {0}
        table = watched(cell, script)[-1].table
    beside = dealt(problem.clients.participating, 3)[0]
    assert (table.client[~table.delivered] == 0).sum() == 1, "it is offered the model once, and lost"
    for client in problem.clients.participating:
        assert (table.delivered & (table.client == client)).sum() > 3 or client in beside


def test_everybody_at_a_place_gets_the_same_number_of_turns(cell):
    program, problem = cell
    with Workers(1) as workers:
        table = watched(cell, Script(program, problem, workers, 2, seed=3))[-1].table
    for members in dealt(problem.clients.participating, 2):
        turns = [(table.client == client).sum() for client in members]
        assert max(turns) - min(turns) <= 1


def test_a_run_goes_on_where_it_was_saved_with_another_pool(cell):
    program, problem = cell
    moments: list[Checkpoint] = []
    with Workers(1) as workers:
        watched(cell, Script(program, problem, workers, 3, seed=4), tick=lambda time, save: moments.append(save()))
        for moment in (moments[0], moments[len(moments) // 2], moments[-1]):
            snapshots = watched(cell, Script(program, problem, workers, 2, seed=5), saved=moment)
            table = snapshots[-1].table
            replayed = list(simulate(program, problem.clients, table, workers, seed=0, times=TIMES))
            assert content(snapshots[-1:]) == content(replayed[-1:])
            begun = len(moment.tensors["recorder.client"])
            assert table.offered[:begun].tolist() == moment.tensors["recorder.offered"].tolist()


def test_the_clock_stands_still_while_the_server_scores_or_saves():
    program, problem = prepared("local")
    with Workers(1) as workers:
        script = Script(program, problem, workers, 3, seed=1)

        def slow(time: float, save: Any) -> None:
            script.now += 1000.0

        snapshots = []
        for snapshot in run_in_real_time(
            program, problem.clients, script, seed=0, times=TIMES, tick=slow, read=lambda: script.now
        ):
            snapshots.append(snapshot)
            script.now += 1000.0
        quick = watched((program, problem), Script(program, problem, workers, 3, seed=1))
    assert snapshots[-1].table.client.tolist() == quick[-1].table.client.tolist()
    np.testing.assert_allclose(snapshots[-1].table.offered, quick[-1].table.offered, atol=1e-6)


@pytest.mark.parametrize("per_step", [1, 3])
def test_the_age_of_an_update_is_that_of_the_finished_timeline(per_step, monkeypatch):
    from idiolect.network.recorder import TimelineRecorder

    ages: dict[int, int] = {}
    original = TimelineRecorder.arrival

    def noting(self: TimelineRecorder, turn: int, time: float, updates_per_step: int) -> int:
        ages[turn] = original(self, turn, time, updates_per_step)
        return ages[turn]

    monkeypatch.setattr(TimelineRecorder, "arrival", noting)
    name = "local" if per_step == 1 else "fedbuff"
    program, problem = prepared(name)
    with Workers(1) as workers:
        table = watched((program, problem), Script(program, problem, workers, 4, seed=6))[-1].table
    expected = staleness(table, per_step)
    assert ages == {turn: expected[turn] for turn in np.flatnonzero(table.delivered)}
    assert max(ages.values()) > 1
