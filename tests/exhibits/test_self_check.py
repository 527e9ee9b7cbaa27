"""A run that gives other numbers than are committed is noticed: which claim, which number, by how much, and why."""

import json

import pytest

from idiolect.errors import UserMistake
from idiolect.papers import provenance, self_check
from idiolect.papers.claim_files import reproduce
from idiolect.papers.exhibit import Exhibit, Findings, Request, Scale
from idiolect.papers.exhibits import EXHIBITS
from idiolect.papers.verdicts import above

FIRST, SECOND = [0.45, 0.43, 0.44], [0.383, 0.372, 0.3842]


def performed(folder, first=FIRST, scale="desk", seeds=(3, 4, 5), runs=()):
    scales = {name: Scale("a size", (3, 4, 5)) for name in ("quick", "desk")}
    claim = above("A is above B", list(first), SECOND, seeds)
    exhibit = Exhibit("one", "Paper, Fig. 1", "what it shows", scales, lambda request: Findings([claim], [], runs=runs))
    return reproduce(exhibit, Request(scale, seeds, folder))


@pytest.fixture
def committed(tmp_path):
    """A folder in which a first run is committed."""
    folder = tmp_path / "committed"
    self_check.commit(performed(tmp_path), (3, 4, 5), folder)
    return folder


def test_the_same_numbers_are_as_committed(committed, tmp_path):
    check = self_check.check(performed(tmp_path), committed)
    assert check == (["as committed: 1 claims, in every number"], True)


def test_a_spread_that_does_not_come_out_again_is_noticed(committed, tmp_path):
    """The means are alike, the verdict is the same, and the seeds are not."""
    other = [0.43, 0.45, 0.44]
    lines, agrees = self_check.check(performed(tmp_path, other), committed)
    assert agrees is False
    assert "differs: A is above B" in lines[0]
    assert "6 of 12 numbers" in lines[0]
    assert "which is 0.100, committed 0.075: off by 0.025" in lines[0]
    assert "committed 0.440 ± 0.010 against 0.380 ± 0.0067; ahead by 0.060 ± 0.0059 [0.046, 0.075]" in lines[0]
    assert "not repeatable" in lines[-1], "the same code on the same machine"


def test_a_change_of_the_verdict_is_told(committed, tmp_path):
    lines, agrees = self_check.check(performed(tmp_path, [0.1, 0.2, 0.1]), committed)
    assert agrees is False
    assert "fails, committed holds" in lines[0]


def test_roundings_are_no_difference(committed, tmp_path):
    assert self_check.check(performed(tmp_path, [score + 1e-9 for score in FIRST]), committed).agrees


@pytest.mark.parametrize(("scale", "seeds"), [("quick", (3, 4, 5)), ("desk", (6, 7, 8))])
def test_other_sizes_and_seeds_are_not_held_against_it(scale, seeds, committed, tmp_path):
    lines, agrees = self_check.check(performed(tmp_path, scale=scale, seeds=seeds), committed)
    assert agrees is None
    assert lines == ["committed are the numbers of --scale desk, seeds 3, 4, 5: these are others"]
    assert self_check.check(performed(tmp_path), tmp_path / "nowhere").agrees is None


def test_another_machine_or_other_code_explains_a_difference(committed, tmp_path):
    file, record = committed / "one.json", performed(tmp_path, [0.43, 0.45, 0.44])
    tables = json.loads(file.read_text())
    for change, says in (({"jax": "0.1"}, f"jax {record.made_by['jax']} instead of 0.1"), ({"code": ["x"]}, "changed")):
        file.write_text(json.dumps({**tables, "made_by": {**tables["made_by"], **change}}))
        assert says in self_check.check(record, committed).lines[-1]


def test_finished_runs_of_other_code_are_not_taken_for_this_codes(committed, tmp_path, monkeypatch):
    run = tmp_path / "runs" / "one-desk"
    monkeypatch.setattr(provenance, "code", lambda: "yesterday")
    provenance.note_start(run)
    run.mkdir(parents=True)
    monkeypatch.undo()
    record = performed(tmp_path, runs=[run])
    lines, agrees = self_check.check(record, committed)
    assert agrees is True, "the numbers are the same"
    assert "finished runs were read that other code made (yesterday; " in lines[0]
    provenance.note_start(run)  # gone on with by this code
    assert performed(tmp_path, runs=[run]).made_by["code"] == sorted(["yesterday", provenance.code()])


def test_only_the_desks_own_numbers_are_committed(tmp_path):
    with pytest.raises(UserMistake, match="--commit is given with --scale quick"):
        self_check.commit(performed(tmp_path, scale="quick"), (3, 4, 5), tmp_path)


@pytest.mark.parametrize("name", ["persa-fl-fig-1", "persa-fl-fig-2a"])
def test_what_takes_no_training_comes_out_as_committed(name, tmp_path):
    exhibit = EXHIBITS[name]
    record = reproduce(exhibit, Request("desk", exhibit.scales["desk"].seeds, tmp_path))
    assert self_check.check(record).agrees is True


def test_what_is_committed_belongs_to_an_exhibit_and_its_seeds():
    for exhibit in EXHIBITS.values():
        record = self_check.committed(exhibit.name)
        if record is not None:
            assert (record.scale, tuple(record.seeds)) == ("desk", exhibit.scales["desk"].seeds)
