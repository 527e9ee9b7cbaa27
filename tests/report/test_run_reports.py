"""The report of a run, as the command line writes it: what it tells, and what it refuses."""

import json
import re
import shutil
from pathlib import Path

import pytest

import idiolect
from idiolect.cli import main
from idiolect.problems.synthetic import quadratics
from idiolect.report.writing import write_report
from idiolect.results.folder import RunFolder
from idiolect.results.run import open_run
from tests.report.drawn import drawings
from tests.tiny_run import LABELS, SEEDS, run_tiny


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run, which the tests only read."""
    return run_tiny(tmp_path_factory.mktemp("finished"))


def test_the_report_has_its_sections_names_every_algorithm_and_needs_no_network(finished):
    page = (finished / "report.html").read_text()
    figures = json.dumps(drawings(page))
    for title in ("What ran", "In short", "Over time", "Who gains and who loses", "Without waiting", "What is behind"):
        assert f"<h2>{title}</h2>" in page
    for label in LABELS:
        assert f'"{label}"' in figures
        assert f"<td>{label}</td>" in page
    assert re.search(r"""(src|href)=["']?(https?:)?//""", page.partition("<script>")[0]) is None
    assert page.count("<script>") == 1, "ours; figures are data, and plotly is packed"
    assert len(page) < 2_000_000
    assert "<title>tiny</title>" in page
    assert "seeds = [" in page.partition("<details>")[2]


def test_who_loses_is_told_as_the_cells_have_it(finished):
    cells = [json.loads((finished / "cells" / f"fedavg-seed{seed}.json").read_text()) for seed in SEEDS]
    losses = [
        client["scores"]["1"] - client["scores"]["0"]
        for cell in cells
        for client in cell["clients"]
        if client["group"] == "participating"
    ]
    hurt = [loss for loss in losses if loss > 0]
    row = re.search(r"<tr><td>fedavg</td><td>8</td><td>(\d+) \(", (finished / "report.html").read_text())
    assert row is not None
    assert int(row[1]) == len(hurt)


def test_runs_share_a_page_under_their_own_names(finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished, tmp_path / "again")
    assert main(["report", str(finished), str(tmp_path / "again")]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "<td>out: fedavg</td>" in page
    assert "<td>again: mine</td>" in page


def test_what_cannot_be_reported_is_refused_in_a_sentence(finished, tmp_path, capsys):
    shutil.copytree(finished, tmp_path / "empty")
    for cell in (tmp_path / "empty" / "cells").iterdir():
        cell.unlink()
    shutil.copytree(finished, tmp_path / "damaged")
    (tmp_path / "damaged" / "cells" / "mine-seed0.json").write_text("{")
    shutil.copytree(finished, tmp_path / "other")
    other = RunFolder(tmp_path / "other")
    for cell in open_run(tmp_path / "other").cells:
        files = json.loads((other.path / "cells" / f"{cell.label}-seed{cell.seed}.json").read_text())["files"]
        other.add_cell(cell._replace(metric="accuracy"), files)
    for runs, said in (
        ([tmp_path], "is no run folder"),
        ([tmp_path / "empty"], "has no finished cell to report"),
        ([tmp_path / "damaged"], "mine-seed0.json is damaged: it is no JSON"),
        ([finished, finished], "the same run folder twice"),
        ([finished, tmp_path / "other"], "different metrics, loss (out: mine) and accuracy (other: mine)"),
    ):
        assert main(["report", *map(str, runs), "--out", str(tmp_path / "page.html")]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
    assert not (tmp_path / "page.html").exists()


def test_the_page_of_a_run_that_was_made_in_python_can_be_written_again(tmp_path):
    """Its problem cannot be built from the folder, but nothing on the page needs that."""
    mine = idiolect.Experiment(
        lambda seed: quadratics(clients=3), ["fedavg"], horizon=40.0, evaluation=idiolect.Evaluation(points=1)
    )
    run = idiolect.run(mine, out=tmp_path / "mine")
    again = write_report([run.path], tmp_path / "again.html")
    assert again.read_text() == (run.path / "report.html").read_text()
    assert "<dd>own, 3 clients scored</dd>" in again.read_text()
