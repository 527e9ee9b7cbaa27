"""`idiolect advise`, as a user meets it."""

import json
import re

import pytest

from idiolect.cli import main
from idiolect.inspection.width_advice import Candidate, Limits, choose_width
from tests.small_bits import RECIPE, complaint


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipes") / "small.toml"
    path.write_text(RECIPE)
    return path


@pytest.mark.slow
def test_advice_runs_every_width_and_chooses_by_validation_data(recipe, tmp_path, capsys):
    out = tmp_path / "widths"
    arguments = ["advise", str(recipe), "--algorithm", "qupel", "--widths", "1,2", "--out", str(out)]
    assert main([*arguments, "--bytes", "1200,1500,100000,100000"]) == 0
    text = capsys.readouterr().out
    assert json.loads((out / "summary.json").read_text())["what"]["scored_on"].startswith("each client's validation")
    rows = [line.split("│") for line in text.splitlines() if line.startswith("│")]
    assert [row[1].strip() for row in rows] == ["1", "2"]
    assert "bits = [" in text
    assert main([*arguments, "--bytes", "10"]) == 0  # nothing is run again
    assert "No width fits 10 bytes" in capsys.readouterr().out
    assert main([*arguments, "--ms", "0.0000001", "--memory", "1000000"]) == 0
    text = capsys.readouterr().out
    assert "ms a sample" in text
    assert re.search(r"No width fits the limits; the smallest model takes [\d,]+ bytes, [\d,]+ in memory", text)
    assert main([*arguments, "--ms", "1000000"]) == 0
    assert re.search(r"any size.*\n", capsys.readouterr().out)


def test_mistakes_of_advice(recipe, tmp_path, capsys):
    base = ["advise", recipe, "--out", tmp_path / "w", "--algorithm"]
    assert "3 budgets, but must have 1 for all or 4" in complaint([*base, "qupel", "--bytes", "1,2,3"], capsys)
    assert "needs a budget: say --bytes, --memory or --ms" in complaint([*base, "qupel"], capsys)
    assert "--bytes is 'many'" in complaint([*base, "qupel", "--bytes", "many"], capsys)
    assert "objective.bits is 9" in complaint([*base, "qupel", "--bytes", "1", "--widths", "9"], capsys)
    assert "with bit widths the recipe has qupel" in complaint([*base, "fedavg", "--bytes", "1"], capsys)
    assert list(tmp_path.iterdir()) == []


def test_the_narrowest_width_within_a_standard_error_of_the_best_that_fits():
    tried = [Candidate(1, 100, 0.80, 0.02), Candidate(2, 200, 0.89, 0.02), Candidate(3, 300, 0.90, 0.02)]
    assert [choose_width(tried, budget) for budget in (50, 100, 250, 1000)] == [None, 1, 2, 2]
    sharp = [candidate._replace(error=0.001) for candidate in tried]
    assert choose_width(sharp, 1000) == 3


def test_memory_and_time_where_a_model_runs_are_limits_too():
    tried = [Candidate(1, 10, 0.8, 0.0, 500, 2.0), Candidate(2, 20, 0.9, 0.0, 900, 3.0), Candidate(3, 30, 1.0, 0.0)]
    assert choose_width(tried, None, Limits(memory=600)) == 1
    assert choose_width(tried, None, Limits(memory=1000, milliseconds=3.0)) == 2
    assert choose_width(tried, None, Limits(milliseconds=1.0)) is None
    assert choose_width(tried, 10, Limits(milliseconds=5.0)) == 1
    assert choose_width(tried, None) == 3, "what nobody measured is within no limit, and within none at all"
