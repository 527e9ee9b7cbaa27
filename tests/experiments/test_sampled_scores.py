"""A random choice of clients in place of all of them: recorded, and said wherever scores are shown."""

import json

import pytest

from idiolect import Choice, Experiment, run
from idiolect.cli import main


@pytest.mark.parametrize("at_most", [None, 2])
def test_who_is_scored_stands_in_recipe_summary_table_and_report(tmp_path, capsys, at_most):
    problem = Choice("quadratics", {"clients": 5, "dimension": 2})
    evaluation = {"points": 2, "at_most": at_most} if at_most else {"points": 2}
    found = run(Experiment(problem, ["fedavg"], horizon=30.0, evaluation=evaluation), out=tmp_path / "mine")
    assert main(["report", str(tmp_path / "mine")]) == 0
    told = "of each group a random choice of at most 2 clients, the same at every point"
    summary = json.loads((tmp_path / "mine" / "summary.json").read_text())
    report = (tmp_path / "mine" / "report.html").read_text()
    assert ("at_most = 2" in (tmp_path / "mine" / "recipe.toml").read_text()) == bool(at_most)
    for place in (found.summary.what.scored_on, json.dumps(summary), report):
        assert (told in place) == bool(at_most)
    scored = {tuple(point.clients) for point in found.cell().points}
    assert len(scored) == 1, "the same at every point"
    assert len(scored.pop()) == (at_most or 5)
