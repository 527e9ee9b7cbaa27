"""A small leaderboard from the command line: interrupted, gone on with, and written as pages."""

import json

import pytest

from idiolect.cli import main
from idiolect.errors import Interrupted
from idiolect.leaderboard import board_problems, contest
from idiolect.leaderboard.board_cells import Contender, Outcome, not_seen, taking_part
from idiolect.leaderboard.board_words import duel_in_words, settings_in_words, shown
from idiolect.leaderboard.budgets import BUDGETS
from idiolect.leaderboard.committed_entries import all_committed, commit, committed
from idiolect.leaderboard.contest import Request, compete
from idiolect.leaderboard.standings import standing
from tests.pages import ROOT

NAME, ALGORITHMS = "digits-dirichlet-0.5", ["local", "fedasync"]
SMALL = board_problems.SCALES["quick"]._replace(problems=[NAME], trials=1, evaluations=30, time=30.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("board")


@pytest.fixture(scope="module")
def board(folder):
    """Stopped after the first algorithm, and gone on with."""
    done = []
    request = Request(SMALL, [NAME], ALGORITHMS, folder / "quick", finished=lambda problem, entry: done.append(entry))
    with pytest.raises(Interrupted):
        compete(request._replace(stop=lambda: len(done) > 0))
    assert [entry.name for entry in done] == ["local"]
    before = {path: path.read_bytes() for path in folder.rglob("local/*.json")}
    assert len(before) == 4  # two budgets, two seeds
    found = compete(request)
    assert {path: path.read_bytes() for path in folder.rglob("local/*.json")} == before
    return found[NAME]


def test_both_budgets_are_spent_and_everyone_is_scored(board):
    assert [entry.name for entry in board] == ALGORITHMS
    for entry in board:
        assert entry.cost.evaluations == 10
        assert entry.tuned["time"].trials == 1
        for budget in ("gradients", "time"):
            assert set(entry.outcomes[budget]) == set(SMALL.seeds)
            for outcome in entry.outcomes[budget].values():
                assert len(taking_part(outcome)) == 8
                assert len(not_seen(outcome)) == 2
        for outcome in entry.outcomes["gradients"].values():
            assert outcome.spent.evaluations == 30 * 8
        for outcome in entry.outcomes["time"].values():
            assert outcome.spent.time == 30.0
    local, fedasync = (entry.outcomes["gradients"][0].spent for entry in board)
    assert local.bytes == 0
    assert fedasync.bytes == fedasync.turns * 2 * board[1].cost.sent > 0


def test_alone_a_client_has_what_nobody_else_made(board):
    """The unseen clients of `local` have the common start, which nobody has trained."""
    outcome = board[0].outcomes["gradients"][0]
    assert sum(not_seen(outcome).values()) < sum(taking_part(outcome).values())


def test_what_is_finished_is_read_and_what_was_asked_otherwise_is_run_again(board, folder, monkeypatch):
    ran = []

    def run(self, seed, budgets, workers):
        ran.append((seed, *budgets))
        return {budget: Outcome({"own": {"0": 1.0}}, [], board[0].outcomes["time"][0].spent) for budget in budgets}

    monkeypatch.setattr(Contender, "run", run)
    compete(Request(SMALL, [NAME], ALGORITHMS, folder / "quick"))
    assert ran == []
    (folder / "quick" / "cells" / NAME / "local" / "time-1.json").rename(folder / "moved.json")
    compete(Request(SMALL, [NAME], ["local"], folder / "quick"))
    (folder / "moved.json").rename(folder / "quick" / "cells" / NAME / "local" / "time-1.json")
    assert ran == [(1, "gradients", "time")]


def test_the_command_writes_a_page_and_a_table_to_sort(board, folder, monkeypatch, capsys):
    monkeypatch.setitem(board_problems.SCALES, "quick", SMALL)
    words = ["leaderboard", "--scale", "quick", "--algorithms", ",".join(ALGORITHMS), "--out", str(folder)]
    assert main(words) == 0
    said = capsys.readouterr()
    assert f"{NAME}, gradients:" in said.out
    assert "local is done" in said.err
    text = (folder / "leaderboard-quick.md").read_text("utf-8")
    assert "`idiolect leaderboard --scale quick --algorithms local,fedasync`" in text
    assert str(folder) not in text  # a page is for others
    assert text.count("| fedasync |") == 4  # two tables, and twice among the settings
    html = (folder / "leaderboard-quick.html").read_text("utf-8")
    assert "<table class=sortable>" in html
    assert "https://" not in html.replace("https://www.w3.org", "")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--scale", "large"], "--scale is 'large'; known are quick, desk, paper"),
        (["--seeds", "9001"], "--seeds has 9001, on which settings are chosen"),
        (["--algorithms", "fedavgg"], "--algorithms is 'fedavgg' (did you mean 'fedavg'?)"),
        (["--algorithms", ","], "--algorithms is ',', but must be names separated by commas"),
        (["--page", "board.html"], "--page is board.html, but must end in .md"),
        (["--problems", "digit"], "--problems is 'digit'"),
        (["--commit"], "--commit is given with other sizes than are committed"),
        (["--committed"], "--committed is given with other sizes than are committed"),
    ],
)
def test_mistakes_get_one_sentence(words, sentence, tmp_path, capsys):
    assert main(["leaderboard", "--scale", "quick", "--out", str(tmp_path), *words]) == 2
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_cell_that_was_cut_off_while_it_was_written_is_run_again(board, folder):
    path = folder / "quick" / "cells" / NAME / "local" / "time-0.json"
    whole = json.loads(path.read_text("utf-8"))
    assert whole["outcome"]["spent"]["time"] == 30.0
    assert contest.kept(path, {"experiment": whole["experiment"]}, dict) == whole
    path.write_text('{"experiment"', "utf-8")
    assert contest.kept(path, {"experiment": whole["experiment"]}, lambda: {"outcome": None})["outcome"] is None
    path.write_text(json.dumps(whole, indent=1), "utf-8")


def texts(standing, row):
    return [one.text for one in shown(standing, row)]


def test_what_is_committed_makes_the_same_tables_again(board, tmp_path):
    standings = [standing(NAME, budget, board) for budget in BUDGETS]
    commit(NAME, SMALL, board, tmp_path)
    found, missing, code = all_committed(SMALL, [*ALGORITHMS, "fedavg"], tmp_path)
    assert (missing, code) == ([], sorted({each for entry in board for each in entry.code}))
    for told, made in zip(found, standings, strict=True):
        assert [texts(told, row) for row in told.rows] == [texts(made, row) for row in made.rows]
        assert list(map(duel_in_words, told.duels)) == list(map(duel_in_words, made.duels))
        assert list(map(settings_in_words, told.rows)) == list(map(settings_in_words, made.rows))
        assert told.out == {**made.out, "fedavg": "it has not been run here at this size"}


def test_a_table_is_completed_part_by_part(board, tmp_path):
    for entry in board:
        commit(NAME, SMALL, [entry], tmp_path)
    parts = (tmp_path / f"{NAME}.json").read_bytes()
    assert {entry.name for entry in committed(NAME, SMALL, tmp_path)} == {entry.name for entry in board}
    commit(NAME, SMALL, board, tmp_path)
    assert (tmp_path / f"{NAME}.json").read_bytes() == parts, "who is run again takes the place it had"


def test_tables_of_another_size_are_not_taken_for_these(board, tmp_path):
    commit(NAME, SMALL, board, tmp_path)
    for other in (SMALL._replace(trials=2), SMALL._replace(seeds=(5,)), SMALL._replace(evaluations=31)):
        found, missing, _ = all_committed(other, ALGORITHMS, tmp_path)
        assert found == []
        assert missing == [f"{NAME} has not been run at this size: idiolect leaderboard --problems {NAME} --commit"]


def test_the_page_of_the_documentation_is_that_of_the_committed_tables(tmp_path, capsys):
    assert main(["leaderboard", "--committed", "--page", str(tmp_path / "leaderboard.md")]) == 0
    for name in ("leaderboard.md", "leaderboard.html"):
        told, made = ((folder / name).read_text("utf-8") for folder in (ROOT / "docs", tmp_path))
        assert told == made, "idiolect leaderboard --committed"
