"""Changes of an experiment leave everything else as it is, refuse what is not there, and are checked."""

import pytest
from pydantic import ValidationError

from idiolect import Choice, Experiment, NamedAlgorithm
from idiolect.contracts import Problem
from idiolect.errors import UserMistake
from idiolect.papers.experiment_changes import changed, chosen, keeping, unchanged, with_options

LINES = [
    NamedAlgorithm(name="fedavg"),
    NamedAlgorithm(name="persa_fl_me", label="mine", objective={"lambda": 20.0, "iterations": 10}),
    NamedAlgorithm(name="local"),
]
GIVEN = Experiment(Choice("quadratics", {"clients": 4, "dimension": 3}), LINES)


def test_options_of_one_algorithm_are_laid_over_its_own():
    made = with_options(GIVEN, "mine", objective={"lambda": 5.0}, protocol={"beta": 0.1}, training={"batch_size": 2})
    first, mine, last = made.lines
    assert (first, last) == (LINES[0], LINES[2])
    assert mine.objective == {"lambda": 5.0, "iterations": 10}
    assert mine.protocol == {"beta": 0.1}
    assert (mine.training.batch_size, mine.training.step_size) == (2, None)
    assert GIVEN.lines == LINES, "what was given stays as it was"
    assert unchanged(GIVEN) is GIVEN


def test_algorithms_are_kept_in_the_experiments_order():
    assert keeping(GIVEN, ("local", "fedavg")).labels == ["fedavg", "local"]


@pytest.mark.parametrize("change", [lambda given: keeping(given, ["nine"]), lambda given: with_options(given, "nine")])
def test_an_algorithm_that_is_not_there_is_refused(change):
    with pytest.raises(UserMistake, match="algorithm is 'nine'"):
        change(GIVEN)


def test_tables_are_changed_and_checked():
    assert changed(GIVEN.evaluation, points=2).points == 2
    assert changed(GIVEN.training, step_size=1).step_rule == GIVEN.training.step_rule
    for wrong in ({"points": 0}, {"ponts": 2}, {"steps": [1, 0]}):
        with pytest.raises(ValidationError):
            changed(GIVEN.evaluation, **wrong)


def test_choices_are_changed_option_by_option():
    assert chosen(GIVEN.problem, clients=9) == Choice("quadratics", {"clients": 9, "dimension": 3})
    with pytest.raises(TypeError):
        chosen(Problem, clients=9)
