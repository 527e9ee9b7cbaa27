"""Who enters the leaderboard, what is searched for them, and which problems there are."""

import pytest

from idiolect import UserMistake, catalog
from idiolect.catalog import Cell
from idiolect.contracts import Protocol
from idiolect.engines.learner import learner
from idiolect.experiments.building import build_algorithm
from idiolect.experiments.recipe_files import completed
from idiolect.experiments.value import Experiment
from idiolect.leaderboard.board_cells import arena
from idiolect.leaderboard.board_problems import (
    DATA,
    PROBLEMS,
    SCALES,
    TUNING_SEEDS,
    chosen_problems,
    find_scale,
    problem_choice,
)
from idiolect.leaderboard.entrants import entrants
from idiolect.leaderboard.search_ranges import line_of, searches
from idiolect.tuning.search_space import searches_of, settings_of, with_settings

ENTRANTS = entrants().names
QUICK = arena("digits-classes", SCALES["quick"], None)


def test_every_line_of_the_catalog_enters_or_is_left_out_with_a_reason():
    found = entrants()
    assert sorted([*found.names, *found.left_out]) == sorted(catalog.ALGORITHMS)
    assert found.left_out.keys() == {"maml_rl", "multi_task"}
    assert "the same as fedavg" in found.left_out["multi_task"]


def test_a_new_line_enters_by_itself_unless_it_is_another_one_again(monkeypatch):
    monkeypatch.setitem(catalog.ALGORITHMS, "new", Cell("maml", "buffered", "somebody"))
    monkeypatch.setitem(catalog.ALGORITHMS, "again", Cell("plain", "synchronous", "somebody else", local_steps=3))
    found = entrants()
    assert "new" in found.names
    assert "the same as fedavg" in found.left_out["again"]


def test_algorithms_are_chosen_by_patterns_and_cells():
    assert entrants(["ditto*", "maml+buffered"]).names == ["ditto", "ditto_async", "ditto_push", "maml+buffered"]
    assert entrants(["multi_task"]).names == ["multi_task"]  # taken at one's word
    with pytest.raises(UserMistake, match=r"--algorithms is 'fedavgg' \(did you mean 'fedavg'\?\)"):
        entrants(["fedavgg"])
    with pytest.raises(UserMistake, match=r"protocol is 'nowhere'"):
        entrants(["maml+nowhere"])


@pytest.mark.parametrize("name", ENTRANTS)
def test_what_is_searched_fits_the_algorithm_at_both_ends(name):
    """Each search names a setting that there is, and its ends pass the bounds of the option."""
    line, wanted = line_of(name), searches(name)
    experiment = completed(Experiment(problem_choice("digits-classes", SCALES["quick"]), [line]))
    assert searches_of(experiment, line, wanted) == wanted
    assert "training.step_size" in [search.name for search in wanted]
    assert settings_of(experiment.replace(training={"step_size": 0.1}), line, wanted) is not None  # defaults are tried
    for end in (0, -1):
        chosen = {s.name: s.choices[end] if s.choices else (s.low, s.high)[end] for s in wanted}
        completed(experiment.replace(algorithms=[with_settings(line, chosen)]))


@pytest.mark.parametrize("name", ENTRANTS)
def test_settings_in_the_middle_of_what_is_searched_go_together(name):
    """As a trial has them that is not the default: one setting may forbid another."""
    middle = {s.name: s.choices[0] if s.choices else (s.low * s.high) ** 0.5 for s in searches(name)}
    experiment = QUICK.experiment(with_settings(line_of(name), middle), seed=1)
    algorithm = build_algorithm(experiment, experiment.lines[0], QUICK.problem(1))
    if isinstance(algorithm.protocol, Protocol):
        assert algorithm.protocol.work(learner(QUICK.problem(1), algorithm)).turn


def test_who_steps_by_an_optimizer_at_the_server_is_searched_by_its_step_size():
    names = {name: [search.name for search in searches(name)] for name in ("fedavg", "fedadam", "fedavgm")}
    assert "protocol.beta" in names["fedavg"]
    for name in ("fedadam", "fedavgm"):
        assert "protocol.server.step_size" in names[name]
        assert "protocol.beta" not in names[name]


def test_an_option_that_is_zero_or_a_table_stays_as_it_is():
    assert "objective.lambda_p" in [search.name for search in searches("qupel")]
    assert "objective.lambda_p" not in [search.name for search in searches("local_quantized")]
    assert "objective.centers_step_size" not in [search.name for search in searches("proxquant")]
    assert "objective.lambda" not in [search.name for search in searches("binary_relax")]


def test_scales_name_problems_that_there_are_and_score_no_seed_that_settings_are_chosen_on():
    assert len(PROBLEMS) == 12
    for scale in SCALES.values():
        assert set(scale.problems) <= set(PROBLEMS)
        assert set(scale.options) == set(DATA)
        assert not set(scale.seeds) & set(TUNING_SEEDS)
        for name in scale.problems:
            completed(Experiment(problem_choice(name, scale), ["fedavg"]))  # every option is one that there is


def test_problems_without_files_are_left_out_and_said_and_refused_if_they_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr("idiolect.leaderboard.board_problems.is_here", lambda name, folder: name == "digits")
    found, missing = chosen_problems(SCALES["desk"], None, tmp_path)
    assert found == ["digits-classes", "digits-dirichlet-0.1", "digits-dirichlet-0.5"]
    assert missing[0] == "mnist-dirichlet-0.1 is left out: the files of mnist are not here"
    with pytest.raises(UserMistake, match=r"--problems has mnist-classes, but the files of mnist are not here"):
        chosen_problems(SCALES["desk"], ["mnist-classes"], tmp_path)
    with pytest.raises(UserMistake, match=r"--problems is 'digits'"):
        chosen_problems(SCALES["desk"], ["digits"], tmp_path)
    with pytest.raises(UserMistake, match=r"--scale is 'large'"):
        find_scale("large")
