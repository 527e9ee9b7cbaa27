"""A run that is saved at any moment and goes on from there ends with the same bytes."""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from idiolect.contracts import Peer
from idiolect.engines import Workers
from idiolect.engines.checkpointing import NO_CHECKPOINTS, Checkpoint, Checkpointer
from idiolect.engines.serverless import peer_simulator as peers
from idiolect.engines.tree_store import MemoryBudget
from idiolect.experiments.building import build_seed
from idiolect.experiments.cell_results import Result
from idiolect.experiments.evaluation_plan import EvaluationPlan, plan_evaluation
from idiolect.experiments.preparing import prepare_cell
from idiolect.experiments.recipe_files import parse_recipe
from idiolect.experiments.recording import Cell
from idiolect.experiments.running import CellRun, Services, run_together
from idiolect.experiments.serialization import write_cell

QUADRATICS = {"name": "quadratics", "clients": 4, "dimension": 3, "noise": 0.1}
NAVIGATION = {"name": "navigation", "clients": 2, "size": 3, "horizon": 4, "episodes": 4}

# One of each kind of state: a buffer, control variates, own models and levels, policies, and agents of two algorithms.
KINDS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "fedbuff": (QUADRATICS, [{"protocol": {"size": 3}}]),
    "scaffold": (QUADRATICS, [{}]),
    "local": (QUADRATICS, [{}]),
    "qupel_async": (QUADRATICS, [{"objective": {"bits": 1, "keep": []}}]),
    "pfedme": (NAVIGATION, [{"objective": {"lambda": 1.0, "iterations": 2}}]),
    "pars_push": (QUADRATICS, [{"label": f"u{u}", "objective": {"steps": u, "step_size": 0.02}} for u in (1, 2)]),
    "sgp": (QUADRATICS, [{}]),
}


LOSSY = {"loss": 0.9, "gamma_f": "unbounded"}  # so lossy that push-sum loses its mass, and ends before its time


class Rig(NamedTuple):
    """Algorithms on two seeds, compiled; and how to run them."""

    runs: list[CellRun]
    plan: EvaluationPlan

    def run(self, workers: int = 1, checkpointer: Checkpointer = NO_CHECKPOINTS) -> list[Result]:
        together = self.runs if isinstance(self.runs[0].algorithm.protocol, Peer) else self.runs[:1]
        with Workers(workers) as backend:
            return run_together(together, self.plan, Services(backend), checkpointer)


@pytest.fixture(scope="module", params=KINDS)
def rig(request: pytest.FixtureRequest) -> Rig:
    return rig_of(request.param)


def rig_of(name: str, **more: Any) -> Rig:
    """An algorithm of `KINDS`, in an experiment with more tables than those that all of them have."""
    problem, options = KINDS[name]
    tables = {
        "seeds": [0, 1],
        "horizon": 60.0,
        "problem": problem,
        "training": {"local_steps": 2 if name not in ("pars_push", "sgp") else 1, "batch_size": 4},
        "evaluation": {"points": 3},
        "algorithms": [{"name": name, **one} for one in options],
    }
    experiment = parse_recipe({**tables, **more})
    plan, seeds = plan_evaluation(experiment), [build_seed(experiment, seed) for seed in experiment.seeds]
    runs = []
    for label in experiment.labels:
        prepared = prepare_cell(seeds[0].problem, seeds[0].cells[label].algorithm, plan.budget)
        for built in seeds:
            cell = Cell(built.problem.clients, built.cells[label].table, built.seed)
            runs.append(CellRun(prepared, cell))
    return Rig(runs, plan)


@pytest.fixture(autouse=True)
def a_tick_every_round(monkeypatch) -> None:
    monkeypatch.setattr(peers, "SECONDS", 0.0)


def through_a_file(saved: Checkpoint) -> Checkpoint:
    """What is left of it on disk: JSON, and copies of the tensors."""
    return Checkpoint(json.loads(json.dumps(saved.facts)), {name: leaf.copy() for name, leaf in saved.tensors.items()})


def collecting(into: list[Checkpoint]) -> Checkpointer:
    return NO_CHECKPOINTS._replace(tick=lambda save: into.append(through_a_file(save())))


def ends(outcomes: list[Result]) -> list[Any]:
    """All that a run comes to, but for the time it took."""
    numbers = [{**write_cell(outcome.record), "seconds": 0, "stopwatch": []} for outcome in outcomes]
    arrays = [np.asarray(leaf).tobytes() for o in outcomes for leaf in jax.tree.leaves((o.params, dict(o.personal)))]
    return [json.dumps(numbers), arrays]


def test_whenever_a_run_is_saved_it_goes_on_to_the_same_end(rig):
    moments: list[Checkpoint] = []
    whole = ends(rig.run(checkpointer=collecting(moments)))
    assert len(moments) > 10
    assert whole == ends(rig.run()), "being saved does not disturb"
    for moment in [*moments[:: max(1, len(moments) // 6)], moments[-1]]:
        assert ends(rig.run(checkpointer=NO_CHECKPOINTS._replace(load=lambda moment=moment: moment))) == whole


def test_what_has_ended_before_its_time_goes_on_to_the_models_it_was_last_scored_with(monkeypatch):
    monkeypatch.setattr(peers, "_TINY", 1e-6)  # a weight this small is there within a few rounds
    ending, moments = rig_of("sgp", links=LOSSY, evaluation={"points": 12}), list[Checkpoint]()
    outcomes = ending.run(checkpointer=collecting(moments))
    assert all("of the mass has leaked; last scored at time" in one.record.ended for one in outcomes)
    for moment in moments[::5]:
        assert ends(ending.run(checkpointer=NO_CHECKPOINTS._replace(load=lambda moment=moment: moment))) == ends(
            outcomes
        )


@pytest.mark.slow
def test_a_run_that_went_on_can_be_saved_again_and_moved_to_other_cores(rig):
    moments, later = [], []
    whole = ends(rig.run(workers=2, checkpointer=collecting(moments)))
    middle = moments[len(moments) // 2]
    rig.run(checkpointer=collecting(later)._replace(load=lambda: middle))
    again = later[len(later) // 2]
    assert ends(rig.run(workers=1, checkpointer=NO_CHECKPOINTS._replace(load=lambda: again))) == whole


def test_what_does_not_fit_into_memory_goes_to_disk_and_changes_nothing(rig, tmp_path):
    assert ends(rig.run(checkpointer=NO_CHECKPOINTS._replace(memory=MemoryBudget(0, tmp_path)))) == ends(rig.run())


class Broken(Exception):
    """Stands for whatever ends a process."""


def breaking_after(ticks: int) -> Callable[[Callable[[], Checkpoint]], None]:
    count: Iterator[int] = iter(range(ticks))

    def tick(save: Callable[[], Checkpoint]) -> None:
        if next(count, None) is None:
            raise Broken

    return tick


def test_a_run_that_breaks_off_leaves_nothing_running(rig):
    with pytest.raises(Broken):
        rig.run(checkpointer=NO_CHECKPOINTS._replace(tick=breaking_after(5)))
