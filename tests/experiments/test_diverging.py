"""One algorithm that diverges does not end an experiment: its end is its result, and the others run."""

import json
from pathlib import Path

import jax
import pytest

import idiolect
from idiolect import (
    Algorithm,
    Choice,
    Evaluation,
    Experiment,
    NamedAlgorithm,
    OwnTraining,
    Start,
    objectives,
    protocols,
)
from idiolect.cli import main
from idiolect.comparison.rendering import as_json
from idiolect.engines import Snapshot
from idiolect.errors import Diverged, UserMistake
from idiolect.experiments import recording, running
from idiolect.experiments.evaluation_plan import plan_evaluation
from idiolect.experiments.preparing import prepare_cell
from idiolect.experiments.recording import Cell, Recorder
from idiolect.experiments.serialization import read_notes, write_notes
from idiolect.network.timelines import UNWRITTEN
from idiolect.problems.synthetic import quadratics
from idiolect.results.run import Run

WILD = OwnTraining(step_size=1e30, local_steps=3)
LINES = [
    NamedAlgorithm(name="fedasync", label="slow"),
    NamedAlgorithm(name="fedasync", label="wild", training=WILD),
    NamedAlgorithm(name="moreau+asynchronous", label="never", objective={"lambda": 3.0, "inner_step_size": 1e30}),
    NamedAlgorithm(name="rasgp", label="agents"),
    NamedAlgorithm(name="rasgp", label="wild_agents", training=OwnTraining(step_size=1e30)),
]
PROBLEM = Choice("quadratics", {"clients": 3, "dimension": 2, "samples": 8})


def experiment(*labels: str, **changes: object) -> Experiment:
    lines = [line for line in LINES if line.label in labels]
    given = {"seeds": [0], "horizon": 12.0, "evaluation": Evaluation(points=2), "name": "some", **changes}
    return Experiment(PROBLEM, lines, **given)


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All of them, in one run."""
    labels = [str(line.label) for line in LINES]
    return idiolect.run(experiment(*labels), out=tmp_path_factory.mktemp("diverging") / "out")


def test_the_others_run_to_their_end(some):
    ends = {cell.label: (cell.end.time, cell.ended) for cell in some.cells}
    assert ends["slow"] == ends["agents"] == (12.0, "")
    assert some.missing == 0


def test_who_diverged_is_told_with_where_and_when_it_was_last_scored(some):
    told = {cell.label: cell.ended for cell in some.diverged}
    assert list(told) == ["wild", "never", "wild_agents"]
    assert told["wild"].startswith("wild diverged: client ")
    assert "a smaller step size may help; last scored at time" in told["wild"]
    assert "the loss of client" in told["wild_agents"]
    assert told["never"].endswith("a smaller inner step of its objective may help; never scored")


def test_who_was_never_scored_is_no_cell_but_stands_in_the_summary(some):
    assert [cell.label for cell in some.cells] == ["slow", "wild", "agents", "wild_agents"]
    assert list(some.summary.algorithms) == ["slow", "wild", "agents", "wild_agents"]
    summary = json.loads((some.path / "summary.json").read_text())
    assert list(summary["unscored"]) == ["never"]
    assert list(summary["algorithms"]["wild"]["ended"]) == ["0"]


def test_table_page_and_comparison_say_it(some, capsys):
    assert main(["resume", str(some.path)]) == 3
    output, error = capsys.readouterr()
    assert error == ("idiolect: 3 of 5 cells diverged: wild with seed 0, never with seed 0, wild_agents with seed 0\n")
    page = (some.path / "report.html").read_text()
    for text in (output, page):
        for said in ("wild (ended early)", "never (diverged)", "never, seed 0, has no score", "wild, seed 0, ended"):
            assert said in text
    found = as_json(idiolect.compare_runs([some.path]))
    assert [row["second"]["label"] for row in found["comparisons"]] == ["agents"]
    assert len([note for note in found["notes"] if "left out" in note]) == 3


def test_resume_does_not_run_it_again(some, monkeypatch):
    def nothing_to_do(*args: object, **options: object) -> None:
        pytest.fail("this cell has its result")

    monkeypatch.setattr(running, "run_together", nothing_to_do)
    before = (some.path / "summary.json").read_bytes()
    assert main(["resume", str(some.path)]) == 3
    assert (some.path / "summary.json").read_bytes() == before


def test_who_diverges_before_the_first_score_shows_the_start(tmp_path):
    late = experiment("wild", "wild_agents", evaluation=Evaluation(times=[12.0]))
    for cell in idiolect.run(late, out=tmp_path / "late").cells:
        assert [point.time for point in cell.points] == [0.0]
        assert cell.diverged


def test_a_run_of_which_nothing_was_scored_is_one_sentence(tmp_path, capsys):
    with pytest.raises(UserMistake, match="has nothing to show: never diverged in evaluation"):
        idiolect.run(experiment("never"), out=tmp_path / "nothing")
    assert main(["resume", str(tmp_path / "nothing")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_whoever_needs_an_end_is_told(tmp_path):
    """One algorithm in Python, and models to begin with."""
    for name in ("fedasync", "rasgp"):
        with pytest.raises(Diverged, match=f"{name} diverged"):
            idiolect.learn(quadratics(clients=3, dimension=2), name, step_size=1e30, local_steps=3, horizon=12.0)
    wild = NamedAlgorithm(name="fedavg", training=WILD)
    with pytest.raises(Diverged, match="fedavg diverged"):
        idiolect.run(experiment("slow", start=Start(pretrain=wild, horizon=40.0)), out=tmp_path / "begun")


def test_the_end_of_a_cell_is_read_back_as_it_was_written(some, tmp_path: Path):
    again = idiolect.open_run(some.path)
    assert [cell.ended for cell in again.diverged] == [cell.ended for cell in some.diverged]
    assert again.cell("never").points == []


def test_an_end_after_a_restart_is_not_taken_for_the_models_of_the_last_score(monkeypatch, workers):
    """A checkpoint of a server holds no models of the last pause, so that such a cell begins anew."""
    problem = quadratics(clients=2, dimension=2)
    algorithm = Algorithm("mine", objectives.plain(), protocols.asynchronous(), local_steps=1)
    plan = plan_evaluation(experiment("slow"))
    prepared = prepare_cell(problem, algorithm, plan.budget)
    model = problem.init(jax.random.key(0))
    snapshots = [Snapshot(time, 0, model, lambda client: model, {}, lambda client: (), {}) for time in (0.0, 6.0)]

    def recorder() -> Recorder:
        return Recorder(prepared, Cell(problem.clients, UNWRITTEN, 0), plan, workers, outlive=True)

    whole, restarted = recorder(), recorder()
    whole.add(snapshots[0])
    restarted.restore(read_notes(write_notes(whole.notes())))
    monkeypatch.setattr(recording, "_fault_in", lambda label, scored, time: ("it came to nothing", "no"))
    for one in (whole, restarted):
        one.add(snapshots[1])
        assert one.diverged
    assert (whole.lost, restarted.lost) == (False, True)
