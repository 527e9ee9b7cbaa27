"""Headline scores over the last evaluations, and how many versions of the shared model there were."""

import json

import numpy as np
import pytest

from idiolect import Choice, Evaluation, Experiment, NamedAlgorithm, compare_runs, run
from idiolect.experiments.evaluation_plan import meaning
from idiolect.experiments.recipe_files import completed
from idiolect.network.timelines import closing_turns

LINES = ["fedavg", NamedAlgorithm(name="fedbuff", protocol={"size": 3}), "fedasync", "local", "rasgp"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    evaluation = Evaluation(points=4, last=2, steps=[0, 1], batch_size=4)
    problem = Choice("quadratics", {"clients": 5, "dimension": 2, "samples": 12, "unseen": 0.2})
    mine = Experiment(problem, LINES, seeds=[0, 1], horizon=40.0, evaluation=evaluation)
    return run(mine, out=tmp_path_factory.mktemp("last") / "run")


def test_headline_scores_are_means_over_the_last_evaluations(ran):
    for label in ran.experiment.labels:
        cells = [cell for cell in ran.cells if cell.label == label]
        for group in ("participating", "unseen"):
            found = ran.summary.algorithms[label].scores[group]["personalized"]
            each = [np.mean([point.scores[group]["1"].mean for point in cell.points[-2:]]) for cell in cells]
            assert found.mean == pytest.approx(np.mean(each))
            assert found.std == pytest.approx(np.std(each, ddof=1))
            worst = [np.mean([point.scores[group]["1"].worst_decile for point in cell.points[-2:]]) for cell in cells]
            assert found.worst_decile.mean == pytest.approx(np.mean(worst))
        end = ran.summary.algorithms[label].at_end["personalized"]
        assert end.mean == pytest.approx(np.mean([cell.end.scores["participating"]["1"].mean for cell in cells]))
    assert ran.summary.algorithms["fedasync"].at_end["personalized"].mean != pytest.approx(
        ran.summary.algorithms["fedasync"].participating["personalized"].mean
    )


def test_clients_are_compared_by_the_same_means(ran):
    (row, *_) = compare_runs([ran.path]).rows
    means = {}
    for label in ("fedavg", "fedbuff"):
        means[label] = [
            np.mean([[point.clients[one.client]["1"] for one in cell.participating] for point in cell.points[-2:]])
            for cell in ran.cells
            if cell.label == label
        ]
    assert row.contrast.over_seeds.mean == pytest.approx(np.mean(means["fedbuff"]) - np.mean(means["fedavg"]))


def test_versions_of_the_shared_model_are_counted(ran):
    steps = {(cell.label, cell.seed): cell.server_steps for cell in ran.cells}
    delivered = int(ran.timeline("fedasync", 0).delivered.sum())
    assert steps["fedavg", 0] == len(closing_turns(ran.timeline("fedavg", 0))) > 0
    assert steps["fedasync", 0] == delivered
    assert steps["fedbuff", 0] == delivered // 3
    assert steps["local", 0] == 0
    assert steps["rasgp", 0] == 40


def test_files_and_pages_say_so(ran):
    summary = json.loads((ran.path / "summary.json").read_text())
    assert summary["what"]["scored_on"].endswith("mean over the last 2 evaluations of the run (no round is picked)")
    assert set(summary["algorithms"]["fedavg"]["at_end"]) == {"global", "personalized", "own"}
    assert "<th scope=col>steps</th>" in (ran.path / "report.html").read_text()


def test_what_clients_have_that_took_no_part_is_said_where_others_keep_or_choose_something():
    names = ["ifca", "fedrep", "fedavg"]
    said = meaning(completed(Experiment(Choice("quadratics", {}), names))).unseen.split("; ")
    assert [line.split(" ")[0] for line in said] == ["with", "fedrep"]
    assert "lowest on its own adaptation part" in said[0]
    assert "tuned by 10 steps on the adaptation part" in said[1]
