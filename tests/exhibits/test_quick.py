"""Every figure and table at the quick scale, through the command: what it writes, and that nothing is run twice."""

import json

import pytest

from idiolect.cli import main
from idiolect.interface import run
from idiolect.papers import trials
from idiolect.papers.exhibits import EXHIBITS

SHARED = (("pars-push-fig-1", "pars-push-fig-2"), ("qupel-table-2", "qupel-fig-1", "qupel-table-3"))
ALONE = tuple((name,) for name in EXHIBITS if not any(name in names for names in SHARED))
# One of each kind is tried by every change, the others by `make slow`.
FAST = ("persa-fl-fig-1", "pars-push-prop-1", "persa-fl-table-1", "qupel-table-1")
CASES = [
    pytest.param(names, id=names[0], marks=() if names[0] in FAST else pytest.mark.slow) for names in SHARED + ALONE
]


def quick(name, out):
    return main(["reproduce", name, "--scale", "quick", "--out", str(out)])


@pytest.mark.parametrize("names", CASES)
def test_an_exhibit_writes_its_claims_and_its_report_and_is_not_run_twice(names, tmp_path, monkeypatch):
    ran = []

    def noted(experiment, *, out, **others):
        ran.append(out)
        return run(experiment, out=out, **others)

    monkeypatch.setattr(trials, "run", noted)
    for name in names:
        assert quick(name, tmp_path) == 0
        check_written(EXHIBITS[name], tmp_path / f"{name}-quick")
    once = sorted(ran)
    assert once == sorted((tmp_path / "runs").glob("*")), "those that share a run find it done"
    before = {file: file.read_bytes() for file in tmp_path.glob("*/claims.json")}
    assert len(before) == len(names)
    for name in names:
        assert quick(name, tmp_path) == 0
    assert sorted(ran) == once, "and a second time everything is"
    assert {file: file.read_bytes() for file in before} == before, "the time it took included"


def check_written(exhibit, folder):
    record = json.loads((folder / "claims.json").read_text())
    scale = exhibit.scales["quick"]
    assert (record["exhibit"], record["scale"], tuple(record["seeds"])) == (exhibit.name, "quick", scale.seeds)
    assert record["seconds"] > 0
    assert record["command"] == f"idiolect reproduce {exhibit.name} --scale quick"
    report = (folder / "report.html").read_text()
    assert "plotly" in report.lower()
    assert record["claims"]
    for claim in record["claims"]:
        assert claim["verdict"] in ("holds", "not shown", "excluded", "fails")
        assert claim["statement"]
        assert claim["ours"]
        assert claim["test"]
        assert claim["seeds"] == list(scale.seeds)
        assert claim["verdict"] in report
    for one in (folder.parent / "runs").glob("*"):
        assert (one / "recipe.toml").is_file(), "an ordinary run folder"
        assert one.name.endswith("-quick")
        assert all(claim["values"] for claim in record["claims"]), "the numbers behind the verdicts"
        assert not any(claim["finding"] for claim in record["claims"]), "what was found at the desk says nothing here"
