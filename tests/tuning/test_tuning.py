"""Settings are chosen on validation parts, by as many trials for each algorithm, on seeds that are not scored."""

import csv

import pytest

from idiolect import Choice, Experiment, NamedAlgorithm, UserMistake, load_recipe
from idiolect.cli import main
from idiolect.experiments.recipe_files import completed
from idiolect.experiments.recipe_tables import OwnTraining
from idiolect.results.beginning import alone_in
from idiolect.tuning import Search, Study, Trial, judging, read_search, tune
from idiolect.tuning.search_space import searches_of, settings_of, with_settings

PROBLEM = Choice("quadratics", {"clients": 4, "dimension": 2, "samples": 30})


def experiment(*lines: str | NamedAlgorithm, **changes) -> Experiment:
    return Experiment(PROBLEM, lines or ("fedavg", "fedasync"), horizon=40.0, **changes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("training.step_size=log:0.01:1", Search("*", "training", "step_size", "log", 0.01, 1.0)),
        ("algorithms.a.objective.steps=whole:1:5", Search("a", "objective", "steps", "whole", 1, 5)),
        ("algorithms.a*.protocol.beta=linear:0:2", Search("a*", "protocol", "beta", "linear", 0, 2)),
        ("algorithms.a.protocol.size=3|10", Search("a", "protocol", "size", "choice", choices=(3, 10))),
        ("algorithms.a.objective.lambda.growth=log:0.1:1", Search("a", "objective", "lambda.growth", "log", 0.1, 1.0)),
        ("algorithms.a.protocol.option=I|II", Search("a", "protocol", "option", "choice", choices=("I", "II"))),
    ],
)
def test_a_search_is_read(text, expected):
    assert read_search(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "step_size=log:0.1:1",
        "training.step_size",
        "algorithms.a.beta=log:0.1:1",
        "algorithms.a.problem.clients=1|2",
        "training.step_size=log:0:1",
        "training.step_size=log:1:0.1",
        "training.step_size=power:1:2",
        "training.step_size=log:a:b",
    ],
)
def test_what_is_no_search_is_refused_in_a_sentence(text):
    with pytest.raises(UserMistake, match=r"--search is '"):
        read_search(text)


def test_a_pattern_fits_those_that_have_the_option_and_a_name_must():
    made = experiment("fedavg", "fedasync")
    fedavg, fedasync = made.lines
    shared = [read_search("algorithms.fed*.protocol.participation=0.5|1.0")]
    assert searches_of(made, fedavg, shared) == shared
    assert searches_of(made, fedasync, shared) == []
    with pytest.raises(UserMistake, match=r"protocol.participation of fedasync, which has the options .*beta"):
        searches_of(made, fedasync, [read_search("algorithms.fedasync.protocol.participation=0.5|1.0")])


def test_settings_go_where_they_belong():
    line = NamedAlgorithm(name="persa_fl_me", objective={"iterations": 3})
    changed = with_settings(line, {"objective.lambda": 5.0, "protocol.beta": 0.5, "training.step_size": 0.2})
    assert changed.objective == {"iterations": 3, "lambda": 5.0}
    assert changed.protocol == {"beta": 0.5}
    assert changed.training == OwnTraining(step_size=0.2)


def test_a_setting_may_be_a_key_of_a_table():
    line = NamedAlgorithm(name="qupel", objective={"step_size": {"value": 0.5, "decay": 0.9}})
    made = completed(experiment(line))
    search = [read_search("algorithms.*.objective.step_size.value=log:0.1:1")]
    assert searches_of(made, made.lines[0], search) == search
    changed = with_settings(made.lines[0], {"objective.step_size.value": 0.25}).objective["step_size"]
    assert (changed["value"], changed["decay"]) == (0.25, 0.9)
    with pytest.raises(UserMistake, match=r"objective.lambda.growth of qupel, but its lambda is not a table"):
        searches_of(made, made.lines[0], [read_search("algorithms.*.objective.lambda.growth=log:0.1:1")])


def test_the_first_trial_is_the_algorithm_as_it_is_where_that_is_searched(tmp_path):
    line = NamedAlgorithm(name="fedavg", training={"step_size": 0.07})
    for high, first in ((0.1, True), (0.05, False)):
        searches = [read_search(f"training.step_size=log:0.01:{high}")]
        (study,) = tune(experiment(line), searches, trials=1, seeds=[5], out=tmp_path / str(high))[1]
        assert (study.trials[0].settings["training.step_size"] == 0.07) is first


def test_trials_begin_with_trained_models_where_the_experiment_does(tmp_path):
    start = {"pretrain": {"name": "fedavg", "training": {"step_size": 0.1}}, "horizon": 60.0}
    searches = [read_search("training.step_size=0.000001|0.000002")]
    cold, warm = (
        tune(experiment("fedavg", **more), searches, trials=1, seeds=[5], out=tmp_path / name)[1][0].best.score
        for name, more in (("cold", {}), ("warm", {"start": start}))
    )
    assert warm < cold / 2


def test_every_algorithm_has_as_many_trials_and_the_best_becomes_the_recipe(tmp_path):
    searches = [read_search("training.step_size=0.001|0.1"), read_search("algorithms.fedasync.protocol.beta=log:0.5:1")]
    tuned, found = tune(experiment(), searches, trials=3, seeds=[5, 6], out=tmp_path)
    assert [len(study.trials) for study in found] == [3, 3]
    assert [study.label for study in found] == ["fedavg", "fedasync"]
    for line, study in zip(tuned.lines, found, strict=True):
        assert line.training.step_size == study.best.settings["training.step_size"]
        assert study.best.score == min(trial.score for trial in study.trials), "a loss is better lower"
    assert tuned.chosen.trials == 3
    assert tuned.chosen.seeds == [5, 6]
    assert tuned.chosen.search == {
        "*.training.step_size": "0.001|0.1",
        "fedasync.protocol.beta": "log:0.5:1",
    }


def test_trials_see_validation_parts_of_the_tuning_seeds_and_nothing_else(tmp_path, monkeypatch):
    seen = []

    def run_cells(trial, services, **rest):
        seen.append((trial.evaluation.split, tuple(trial.seeds), trial.evaluation.times))
        return original(trial, services, **rest)

    original = judging.run_cells
    monkeypatch.setattr(judging, "run_cells", run_cells)
    evaluation = experiment().evaluation.model_copy(update={"points": 4, "last": 2})
    tune(
        experiment("fedavg", evaluation=evaluation),
        [read_search("training.step_size=0.1|0.2")],
        trials=2,
        seeds=[7],
        out=tmp_path,
    )
    assert seen == [("validation", (7,), [0.0, 30.0, 40.0])] * 2
    with pytest.raises(UserMistake, match="seed 0 is both to choose settings and to be scored"):
        tune(experiment(), [], trials=1, seeds=[0, 7], out=tmp_path)


def test_finished_trials_are_not_run_again(tmp_path, monkeypatch):
    searches = [read_search("training.step_size=log:0.01:0.1")]
    first = tune(experiment("fedavg"), searches, trials=2, seeds=[5], out=tmp_path)[1]
    runs = []
    original = judging.run_cells
    monkeypatch.setattr(judging, "run_cells", lambda *given, **rest: runs.append(1) or original(*given, **rest))
    again = tune(experiment("fedavg"), searches, trials=3, seeds=[5], out=tmp_path)[1]
    assert len(runs) == 1
    assert again[0].trials[:2] == first[0].trials


def test_trials_of_something_else_are_refused_with_the_difference_named(tmp_path):
    tune(experiment("fedavg"), [read_search("training.step_size=0.1|0.2")], trials=1, seeds=[5], out=tmp_path)
    other = [read_search("training.step_size=0.1|0.3")]
    with pytest.raises(UserMistake, match=r"tuning.search.*0.1\|0.2.* there and .*0.1\|0.3.* here"):
        tune(experiment("fedavg"), other, trials=1, seeds=[5], out=tmp_path)
    with pytest.raises(UserMistake, match=r"horizon is 40\.0 there and 50\.0 here"):
        tune(experiment("fedavg").replace(horizon=50.0), other, trials=1, seeds=[5], out=tmp_path)
    (tmp_path / "tuned.toml").unlink()
    with pytest.raises(UserMistake, match=r"has trials, but no tuned.toml"):
        tune(experiment("fedavg"), other, trials=1, seeds=[5], out=tmp_path)


def test_two_processes_do_not_try_in_one_folder_and_the_second_leaves_it_as_it_is(tmp_path):
    searches = [read_search("training.step_size=0.01|0.1")]
    tune(experiment("fedavg"), searches, trials=1, seeds=[5], out=tmp_path)
    before = (tmp_path / "journal.log").read_bytes()
    with alone_in(tmp_path), pytest.raises(UserMistake, match="is in use: another process runs there"):
        tune(experiment("fedavg"), searches, trials=2, seeds=[5], out=tmp_path)
    assert (tmp_path / "journal.log").read_bytes() == before
    _, (study,) = tune(experiment("fedavg"), searches, trials=2, seeds=[5], out=tmp_path)
    assert len(study.trials) == 2


def test_a_trial_that_diverges_is_noted_and_never_chosen(tmp_path):
    searches = [read_search("training.step_size=0.1|1e30")]
    (study,) = tune(experiment("fedavg"), searches, trials=4, seeds=[5], out=tmp_path)[1]
    failed = [trial for trial in study.trials if trial.score is None]
    assert {trial.settings["training.step_size"] for trial in failed} <= {1e30}
    assert study.best.settings["training.step_size"] == 0.1
    with pytest.raises(UserMistake, match="none of the 1 trials of x came to its end"):
        _ = Study("x", [Trial({}, None)], True).best


def test_the_command_writes_a_recipe_that_says_how_it_was_chosen(tmp_path, capsys):
    recipe = tmp_path / "mine.toml"
    recipe.write_text(
        'horizon = 40.0\n[problem]\nname = "quadratics"\nclients = 4\n'
        '[[algorithms]]\nname = "fedavg"\n[[algorithms]]\nname = "local"\n'
    )
    out = tmp_path / "tuned"
    command = ["tune", str(recipe), "--search", "training.step_size=0.01|0.1", "--trials", "2", "--seeds", "8"]
    assert main([*command, "--out", str(out)]) == 0
    tuned = load_recipe(str(out / "recipe.toml"))
    assert tuned.chosen.seeds == [8]
    assert len(list(csv.DictReader((out / "trials.csv").open()))) == 4
    page = (out / "tune.html").read_text()
    assert "fedavg: score over trials" in page
    assert "local: score against training.step_size" in page
    assert main(["run", str(out / "recipe.toml"), "--out", str(tmp_path / "run")]) == 0
    said = "chosen by 2 trials each on validation parts of seeds 8, which are not scored here"
    assert said in " ".join(capsys.readouterr().out.split())
    assert said in (tmp_path / "run" / "report.html").read_text()


def test_a_search_reaches_the_options_of_a_servers_optimizer():
    made = completed(Experiment(Choice("quadratics"), ["fedadam"]))
    search = read_search("algorithms.fedadam.protocol.server.step_size=log:0.001:1")
    assert searches_of(made, made.lines[0], [search]) == [search]
    assert settings_of(made, made.lines[0], [search]) == {"protocol.server.step_size": 0.01}
    changed = with_settings(made.lines[0], {"protocol.server.step_size": 0.25}).protocol["server"]
    assert changed == {"name": "adam", "step_size": 0.25, "beta1": 0.9, "beta2": 0.99, "tau": 0.001}
