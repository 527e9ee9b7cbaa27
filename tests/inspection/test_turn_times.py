"""What a turn takes is watched on whole turns, or on a few steps of those that take long."""

import pytest

from idiolect import Choice, Experiment
from idiolect.engines import Workers
from idiolect.experiments.building import build_seed
from idiolect.experiments.evaluation_plan import plan_evaluation
from idiolect.experiments.preparing import prepare_cell
from idiolect.inspection import turn_times


def watched(monkeypatch, steps: int, seconds: float) -> tuple[list[int], float]:
    """The numbers of local steps of the turns that were watched, and what a whole turn is said to take.

    Each step takes as long as the clock of this test says, whatever the machine does.
    """
    experiment = Experiment(
        Choice("quadratics", {"clients": 3}), ["fedasync"], horizon=30.0, training={"local_steps": steps}
    )
    built, plan = build_seed(experiment, 0), plan_evaluation(experiment)
    (cell,) = built.cells.values()
    really, seen = turn_times._watch_whole_turns, list[int]()

    def watching(prepared, *rest):
        snapshot, compiling, _ = really(prepared, *rest)
        seen.append(prepared.program.algorithm.local_steps)
        return snapshot, compiling, seconds * seen[-1]

    monkeypatch.setattr(turn_times, "_watch_whole_turns", watching)
    prepared = prepare_cell(built.problem, cell.algorithm, plan.budget)
    with Workers(1) as workers:
        snapshot, _, each = turn_times.watch_turns(prepared, built.problem, cell.table, plan, workers, 0)
    assert snapshot.updates > 0
    return seen, each


@pytest.mark.parametrize(
    ("steps", "seconds", "taken"),
    [(100, 1.0, [2]), (100, 0.001, [2, 100]), (10, 1.0, [10])],
    ids=["long", "many but quick", "few"],
)
def test_a_few_steps_stand_for_a_turn_that_takes_long(monkeypatch, steps, seconds, taken):
    seen, each = watched(monkeypatch, steps, seconds)
    assert seen == taken
    assert each == pytest.approx(steps * seconds)
