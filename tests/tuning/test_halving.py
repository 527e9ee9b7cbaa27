"""Trials are cut at rungs of the horizon by one rule for all, in any number of processes to the same end."""

import csv

import pytest

from idiolect import Choice, Evaluation, Experiment, Interrupted, UserMistake, load_recipe
from idiolect.cli import main
from idiolect.contracts import Problem
from idiolect.engines import Workers
from idiolect.experiments.recipe_files import completed
from idiolect.experiments.running import Services
from idiolect.tuning import Study, Trial, judging, read_search, tune
from idiolect.tuning.halving import Halving, read_halving
from idiolect.tuning.judging import Judge
from idiolect.tuning.trial_journal import Judgement, TrialStudy, judge_in_order

SEARCH = [read_search("training.step_size=log:0.001:0.1")]
MINE = Experiment(
    Choice("quadratics", {"clients": 4, "dimension": 2, "samples": 30}),
    ["fedasync"],
    horizon=40.0,
    training={"local_steps": 1, "batch_size": 4},
    evaluation=Evaluation(points=2),
)


def test_of_nine_three_go_on_and_of_those_one_and_ties_go_to_the_first():
    halving = Halving(3)
    assert (halving.cohort, halving.shares) == (9, (1 / 9, 1 / 3, 1.0))
    scores = {place: float(place % 5) for place in range(9)}
    assert halving.kept(scores, 0, 9, higher_is_better=True) == [3, 4, 8]
    assert halving.kept(scores, 0, 9, higher_is_better=False) == [0, 1, 5]
    assert halving.kept({3: 1.0, 4: 2.0, 8: 2.0}, 1, 9, higher_is_better=True) == [4]
    assert halving.kept({0: None, 1: None, 2: 5.0}, 0, 9, higher_is_better=True) == [2], "who failed leaves its place"
    assert Halving().kept({0: 1.0}, 0, 1, higher_is_better=True) == [0]
    assert (Halving().cohort, Halving().shares) == (1, (1.0,))


@pytest.mark.parametrize("eta", [1, -1, 11])
def test_what_is_no_halving_is_one_sentence(eta):
    with pytest.raises(UserMistake, match=rf"--halving is {eta}, but must be 0"):
        read_halving(eta)


class Judged:
    """A judge that knows all scores beforehand, and notes what it is asked."""

    def __init__(self) -> None:
        self.asked = list[tuple[float, float]]()

    def __call__(self, one):
        step = one.settings["training.step_size"]
        self.asked.append((round(one.share, 3), step))
        return None if step > 0.08 else Judgement((step * one.share,), True)


def study(folder, trials, eta=3):
    return TrialStudy(
        folder / "journal.log",
        "mine",
        SEARCH,
        trials=trials,
        as_it_is={"training.step_size": 0.01},
        halving=Halving(eta),
    )


def test_a_cohort_is_cut_rung_by_rung_and_what_it_spent_is_counted(tmp_path):
    judge, mine = Judged(), study(tmp_path, 9)
    judge_in_order(mine, judge, lambda: False)
    tried = mine.tried()
    shares = [share for share, _ in judge.asked]
    assert shares == [0.111] * 9 + [0.333] * 3 + [1.0]
    ended = [one for one in tried if one.share == 1.0]
    assert [one.scores[0] for one in ended] == [max(step for _, step in judge.asked if step <= 0.08)]
    assert sum(one.spent for one in tried) == pytest.approx(9 / 9 + 3 / 3 + 1)
    assert tried[0].settings == {"training.step_size": 0.01}, "the algorithm as it is comes first"


@pytest.mark.parametrize("after", [4, 11, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 9, 13, 20))])
def test_a_search_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path, after):
    whole, first, second = Judged(), Judged(), Judged()
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    one = study(tmp_path / "whole", 18)
    judge_in_order(one, whole, lambda: False)
    with pytest.raises(Interrupted):
        judge_in_order(study(tmp_path / "parts", 18), first, lambda: len(first.asked) == after)
    again = study(tmp_path / "parts", 18)
    judge_in_order(again, second, lambda: False)
    assert first.asked + second.asked == whole.asked
    assert again.tried() == one.tried()


def test_a_rung_is_the_beginning_of_the_whole_run_on_validation_parts(tmp_path, monkeypatch):
    seen = []
    original = judging.run_cells

    def run_cells(trial, services, **rest):
        seen.append((trial.evaluation.split, tuple(trial.seeds), trial.horizon))
        return original(trial, services, **rest)

    monkeypatch.setattr(judging, "run_cells", run_cells)
    judge = Judge(MINE.replace(seeds=[5, 6]), lambda built: None, None)
    half = judge.judge("fedasync", {"training.step_size": 0.01}, 0.5)
    assert seen == [("validation", (5,), 40.0), ("validation", (6,), 40.0)]
    scores, evaluation = [], MINE.evaluation.model_copy(update={"split": "validation"})
    for seed in (5, 6):
        line = {"name": "fedasync", "training": {"step_size": 0.01}}
        whole = MINE.replace(seeds=[seed], algorithms=[line], evaluation=evaluation)
        with Workers() as workers:
            (result,) = original(completed(whole), Services(workers))
        scores.append(result.record.points[1].scores["participating"]["1"].mean)
    assert half.scores[0] == pytest.approx(sum(scores) / 2, rel=1e-12)
    assert half.higher_is_better is False
    assert judge.judge("fedasync", {"training.step_size": 1e30}, 0.5) is None, "it diverges before its rung"


def test_only_who_comes_to_the_end_is_chosen():
    found = Study("x", [Trial({}, 9.0, 1 / 3, 4 / 9), Trial({"a": 1}, 1.0), Trial({}, None, 1 / 9, 1 / 9)], True)
    assert found.best.settings == {"a": 1}
    assert (found.cut, found.failed, found.spent) == (1, 1, pytest.approx(1 + 5 / 9))


def test_other_rungs_or_fewer_trials_in_the_same_folder_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Judge, "judge", lambda self, label, settings, share: Judgement((1.0,), True))
    tune(MINE, SEARCH, trials=2, seeds=[5], out=tmp_path, halving=2)
    with pytest.raises(UserMistake, match=r"tuning.halving"):
        tune(MINE, SEARCH, trials=2, seeds=[5], out=tmp_path, halving=3)


RECIPE = """horizon = 40.0
[problem]
name = "quadratics"
clients = 3
[training]
local_steps = 1
batch_size = 4
[[algorithms]]
name = "fedasync"
[[algorithms]]
name = "fedavg"
"""


@pytest.mark.slow
def test_several_processes_come_to_the_same_and_the_page_shows_what_was_tried(tmp_path, capsys):
    (tmp_path / "mine.toml").write_text(RECIPE)
    command = ["tune", str(tmp_path / "mine.toml"), "--search", "training.step_size=log:0.001:1000", "--trials", "4"]
    command += ["--seeds", "8", "--halving", "2"]
    for jobs in (1, 2):
        assert main([*command, "--out", str(tmp_path / f"by{jobs}"), "--jobs", str(jobs)]) == 0
    said = capsys.readouterr().out
    assert said.count("Of 4 trials at a time, one in 2 went on after 1/4 of the horizon") == 2
    for name in ("recipe.toml", "trials.csv", "tune.html"):
        assert (tmp_path / "by1" / name).read_bytes() == (tmp_path / "by2" / name).read_bytes()
    rows = list(csv.DictReader((tmp_path / "by1" / "trials.csv").open()))
    assert [row["algorithm"] for row in rows] == ["fedasync"] * 4 + ["fedavg"] * 4
    assert {row["share"] for row in rows} <= {"0.25", "0.5", "1"}
    page = (tmp_path / "by1" / "tune.html").read_text()
    for row in rows:
        assert f"<td>{float(row['training.step_size']):g}</td>" in page
    assert "fedasync: score against training.step_size" in page
    assert "fedavg: score over trials" in page
    tuned = load_recipe(str(tmp_path / "by1" / "recipe.toml"))
    assert "Spent, in runs of the whole horizon: fedasync: " in tuned.chosen.note


def test_an_experiment_that_no_other_process_can_make_is_one_sentence(tmp_path):
    def problem(seed: int) -> Problem:
        raise AssertionError("it is never made")

    with pytest.raises(UserMistake, match=r"--jobs is 2, whose processes must make the experiment for themselves"):
        tune(MINE.replace(problem=problem), SEARCH, trials=2, seeds=[5], out=tmp_path, jobs=2)
