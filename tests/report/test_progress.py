"""The progress bar: what it says while it compiles, which score it shows, and that its time left does not jump."""

import pytest

from idiolect.experiments.running import Progress
from idiolect.experiments.value import Experiment
from idiolect.report.progress import Course, in_short, in_words

EXPERIMENT = Experiment(algorithms=["local", "fedavg"], seeds=[0, 1], horizon=10.0)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def heard(course: Course, clock: Clock, label: str, seed: int, compiling: float, work: float, **more: int) -> None:
    """A cell that compiles and works for so long."""
    course.note(Progress(label, seed, 0.0, None, compiling=True, **more))
    clock.now += compiling
    for time in (0.0, 5.0, 10.0):
        course.note(Progress(label, seed, time, 0.5, **more))
        clock.now += work / 3


def test_while_it_compiles_it_says_so_and_a_score_has_a_name():
    assert in_short(Progress("fedavg", 0, 0.0, None, "accuracy", compiling=True), EXPERIMENT) == "compiling"
    assert in_short(Progress("fedavg", 0, 5.0, 0.91, "accuracy"), EXPERIMENT) == "time    5.0 of 10  accuracy 0.910"
    assert in_short(Progress("fedavg", 0, 5.0, None, "accuracy"), EXPERIMENT) == "time    5.0 of 10"


def test_compiling_is_no_work_and_comes_once_for_each_algorithm():
    clock = Clock()
    course = Course(EXPERIMENT, read=clock)
    assert course.seconds_left is None
    heard(course, clock, "local", 0, compiling=30.0, work=6.0)
    course.note(Progress("local", 1, 0.0, None, compiling=True))
    assert course.share == pytest.approx(1 / 4)
    assert course.seconds_left == pytest.approx(3 * 6.0 + 30.0)  # three cells, and one more algorithm to compile


def test_a_quick_algorithm_promises_no_quick_end():
    clock = Clock()
    course = Course(EXPERIMENT, read=clock)
    heard(course, clock, "local", 0, compiling=1.0, work=60.0)
    heard(course, clock, "fedavg", 0, compiling=1.0, work=2.0)
    course.note(Progress("local", 1, 0.0, None, compiling=True))
    assert course.seconds_left == pytest.approx(62.0)  # two of four are done


def test_what_was_finished_before_or_ended_early_is_counted_and_the_bar_never_goes_back():
    clock = Clock()
    course = Course(EXPERIMENT, finished=1, read=clock)
    course.note(Progress("fedavg", 0, 2.0, 0.5))  # and diverges
    shares = [course.share]
    for cell, together in ((("local", 1), 1), (("fedavg", 1), 1)):
        for time in (0.0, 10.0):
            course.note(Progress(*cell, time, 0.5, together=together))
            shares.append(course.share)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)


def test_cells_that_go_side_by_side_count_together():
    course = Course(EXPERIMENT, read=Clock())
    course.note(Progress("fedavg", 1, 5.0, 0.5, together=2))
    assert course.share == pytest.approx(1 / 4)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, ""),
        (0.0, ""),
        (3.0, "about 10 s left"),
        (44.0, "about 40 s left"),
        (125.0, "about 2 min left"),
        (7000, "about 2 h left"),
    ],
)
def test_a_time_left_is_no_more_exact_than_it_is_known(seconds, words):
    assert in_words(seconds) == words
