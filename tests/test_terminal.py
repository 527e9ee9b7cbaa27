"""What the terminal says beside the table."""

from io import StringIO

import pytest
from rich.console import Console

from idiolect.commands.progress_bar import time_left
from idiolect.evaluation.scores import Spread
from idiolect.experiments.recipe_tables import Evaluation
from idiolect.experiments.records import CellRecord, ClientRecord, Point
from idiolect.experiments.value import Experiment
from idiolect.report.remarks import group_lines, refusals_in_words
from idiolect.report.terminal import print_summary
from idiolect.results.summary import Summary, summarize


@pytest.mark.parametrize(
    ("clients", "words"),
    [
        ({7: {"not finite": 12}}, "client 7: 12 updates refused (not finite)"),
        (
            {7: {"not finite": 1, "too large": 2}, 9: {"wrong shape": 1}},
            "client 7: 3 updates refused (not finite, too large); client 9: 1 update refused (wrong shape)",
        ),
        ({1: {"not finite": 2, "cut down": 4}}, "client 1: 2 updates refused (not finite), 4 updates cut down"),
        ({1: {"cut down": 1}}, "client 1: 1 update cut down"),
    ],
)
def test_refusals_are_told_by_client_and_reason(clients, words):
    assert refusals_in_words(clients) == words


def test_many_refused_clients_are_counted():
    words = refusals_in_words({client: {"too large": 2} for client in range(8)})
    assert words.count("client ") == 5
    assert words.endswith("; and 3 more clients")


def summary(label: str = "fedavg", **groups: list[int]) -> Summary:
    """Of one client and one seed."""
    experiment = Experiment(algorithms=[{"name": "fedavg", "label": label}], evaluation=Evaluation(groups=groups))
    scores = {"0": 0.25, "1": 0.5, "own": 0.75}
    spreads = {column: Spread(score, 0.0, score, 1) for column, score in scores.items()}
    point = Point(200.0, 3, {"participating": spreads}, {0: scores}, {}, {})
    client = ClientRecord(0, "participating", 10, scores, {}, 32.0, 4)
    cell = CellRecord(label, 0, "accuracy", True, {}, 1.0, [1.0], "", True, [point], [client])
    return summarize(experiment, [cell], [], versions={})


def test_a_group_of_which_nobody_was_scored_is_left_out():
    lines = group_lines(summary(first=[0], **{"not scored": [7]}))
    assert lines == ["first (1 clients), personalized: fedavg 0.500 ± -"]


@pytest.mark.parametrize("terminal", [True, False])
def test_the_table_of_a_run_fits_the_terminal_and_nothing_is_cut_off(terminal):
    console = Console(file=StringIO(), force_terminal=terminal, width=80, color_system=None)
    label = "an_algorithm_with_quite_a_long_name"
    print_summary(summary(label), console)
    said = console.file.getvalue()
    columns = ("global", "personalized", "worst decile", "own", "updates", "steps", "seconds")
    for words in (*columns, "0.250 ± -", "0.750 ± -"):
        assert words in said
    assert "…" not in said
    heads = [line for line in said.splitlines() if line.startswith("┃ algorithm ")]
    assert len(heads) == (3 if terminal else 1)
    assert all(len(line) <= 80 for line in said.splitlines()) == terminal


@pytest.mark.parametrize(
    ("passed", "share", "words"),
    [(5.0, 0.0, ""), (5.0, 0.01, ""), (30.0, 0.5, "about 30 s left"), (600.0, 0.25, "about 30 min left")],
)
def test_a_time_left_is_told_once_it_is_known_and_no_more_exactly(passed, share, words):
    assert time_left(passed, share) == words
