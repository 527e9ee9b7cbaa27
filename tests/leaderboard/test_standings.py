"""Who is best, who loses and who cannot be told apart; and that a page takes what it is told for plain text."""

import math

import numpy as np
import pytest
from scipy import stats

from idiolect.leaderboard.board_cells import Outcome
from idiolect.leaderboard.board_markdown import as_markdown
from idiolect.leaderboard.board_page import as_page
from idiolect.leaderboard.board_problems import SCALES
from idiolect.leaderboard.board_tuning import Tuned, _best
from idiolect.leaderboard.board_words import Leaderboard, duel_in_words, size_in_words
from idiolect.leaderboard.budgets import Spent
from idiolect.leaderboard.contest import Entry
from idiolect.leaderboard.published import PFLLIB
from idiolect.leaderboard.standings import standing
from idiolect.leaderboard.turn_costs import TurnCost
from idiolect.tuning.trial_journal import Tried

SPENT = Spent(turns=10, evaluations=100.0, bytes=2500, steps=5, time=12.0)


def outcome(*scores: float) -> Outcome:
    """Clients 0, 1, … with these scores, of whom the last took no part."""
    each = {str(client): score for client, score in enumerate(scores)}
    return Outcome({"own": each, "received": each, "common": each}, [len(scores) - 1], SPENT)


def entry(name: str, *levels: float, **changes) -> Entry:
    """One level for each seed; its clients are around it."""
    outcomes = {seed: outcome(level - 0.1, level + 0.1, 0.25) for seed, level in enumerate(levels)}
    tuned = {budget: Tuned({"training.step_size": 0.1}, 0.5, 4, 1) for budget in ("gradients", "time")}
    made = Entry(name, "somebody", TurnCost({}, 0, 0), tuned, {"gradients": outcomes, "time": outcomes})
    return made._replace(**changes)


def test_the_best_is_first_and_others_lose_or_are_not_told_apart():
    entries = [
        entry("worse", 0.50, 0.52, 0.51, 0.50, 0.49),
        entry("best", 0.80, 0.82, 0.81, 0.80, 0.79),
        entry("near", 0.83, 0.76, 0.85, 0.74, 0.80),
    ]
    found = standing("digits-classes", "time", entries)
    assert [row.name for row in found.rows] == ["best", "near", "worse"]
    assert [row.verdict for row in found.rows] == ["best", "0.8 behind, not told apart", "loses by 30.0"]
    top = found.rows[0]
    assert top.own.mean == pytest.approx(0.804)
    assert top.own.std == pytest.approx(math.sqrt(sum((x - 80.4) ** 2 for x in (80, 82, 81, 80, 79)) / 4) / 100)
    assert top.over_clients == pytest.approx(0.1)
    assert top.worst.mean == pytest.approx(0.704)
    assert top.unseen.mean == pytest.approx(0.25)  # and it is not in the mean
    assert (top.evaluations, top.bytes, top.steps, top.time) == (100, 2500, 5, 12)


def test_one_seed_is_no_test():
    found = standing("digits-classes", "time", [entry("fedrep", 0.8), entry("local", 0.7)])
    assert found.rows[1].verdict == "10.0 behind; one seed is no test"
    assert duel_in_words(found.duels[0])[1:] == ["+10.0", "one seed is no test", "", "not told apart"]


def test_duels_are_decided_by_themselves_and_both_ways():
    entries = [
        entry("local", 0.60, 0.62, 0.58, 0.60, 0.61),
        entry("fedavg", 0.80, 0.82, 0.81, 0.80, 0.79),
        entry("ditto", 0.70, 0.73, 0.70, 0.71, 0.69),
        entry("fedrep", 0.83, 0.76, 0.85, 0.74, 0.80),
    ]
    found = standing("digits-classes", "time", entries)
    told = {(duel.first, duel.second): duel.verdict for duel in found.duels}
    assert told == {
        ("fedrep", "fedavg"): "not told apart",
        ("fedrep", "local"): "above",
        ("ditto", "fedavg"): "below",
        ("ditto", "local"): "above",
    }
    gaps = [-0.10, -0.09, -0.11, -0.09, -0.10]
    ditto = next(duel for duel in found.duels if (duel.first, duel.second) == ("ditto", "fedavg"))
    assert ditto.difference.mean == pytest.approx(np.mean(gaps))
    alone = 2 * stats.t.cdf(np.mean(gaps) / (np.std(gaps, ddof=1) / math.sqrt(5)), 4)
    assert ditto.p == pytest.approx(4 * alone, rel=1e-6), "the smallest of four"
    assert "| ditto over fedavg | -9.8 | " in as_markdown(board(standings=[found]), "b.html")
    assert "ditto over fedavg" in as_page(board(standings=[found]))


def test_who_diverges_or_is_refused_is_named_with_the_reason():
    lost = entry("wild", 0.9, 0.9)
    lost = lost._replace(outcomes={budget: {0: outcome(0.9, 0.9), 1: None} for budget in lost.outcomes})
    found = standing("digits-classes", "time", [entry("a", 0.8, 0.7), lost, entry("dear", refused="too dear")])
    assert [row.name for row in found.rows] == ["a"]
    assert found.out == {
        "wild": "diverged on seed 1 with the settings that were best in its trials",
        "dear": "too dear",
    }


def test_each_budget_has_the_best_of_the_trials_by_it():
    tried = [Tried({"s": 1}, (0.5, 0.9), True), Tried({"s": 2}, (0.7, 0.1), True), Tried({"s": 3}, None, True)]
    found = _best(tried)
    assert found["gradients"] == Tuned({"s": 2}, 0.7, 3, 1)
    assert found["time"] == Tuned({"s": 1}, 0.9, 3, 1)
    assert _best(tried[2:]) == {}


def board(problem: str = "digits-classes", **changes) -> Leaderboard:
    rows = standing(problem, "time", [entry("fedavg", 0.8, 0.7), entry("no", refused="<b>|dear</b>")])
    made = Leaderboard("quick", SCALES["quick"], [rows], {"x": "<i>same</i>"}, [], "idiolect leaderboard", ["abc"])
    return made._replace(**changes)


def test_pages_take_everything_for_plain_text():
    html = as_page(board(missing=["<script>alert(1)</script>"]))
    assert "<script>alert" not in html
    assert "&lt;b&gt;|dear&lt;/b&gt;" in html
    assert "<i>" not in html
    text = as_markdown(board(missing=["<script>alert(1)</script>"]), "board.html")
    assert "<script" not in text
    assert "&lt;b>\\|dear&lt;/b>" in text


def test_numbers_are_sorted_as_numbers():
    html = as_page(board())
    assert "<td data-value=0.75>75.0 ± 7.1</td>" in html
    assert "<td data-value=2500>2.5 kB</td>" in html
    assert html.count("<button>") == 12


def test_published_numbers_stand_beside_ours_where_there_are_any():
    assert "| 85.85 ± 0.19 | 100 |" in as_markdown(board("fashion-dirichlet-0.1"), "board.html")
    assert "PFLlib" not in as_markdown(board(), "b.html").split("## Settings")[0]
    assert {name for numbers in PFLLIB.values() for name in numbers} <= set(PFLLIB["fashion-classes"])


def test_sizes_in_words():
    assert [size_in_words(x) for x in (0, 999, 1500, 2.5e6, 3.2e9, 4e12)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "2.5 MB",
        "3.2 GB",
        "4e+03 GB",
    ]
