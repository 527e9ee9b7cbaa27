"""`claims.json`: what is written is read back as the same record, and what cannot be read is told in a sentence."""

import json
import math

import pytest

from idiolect.errors import UserMistake
from idiolect.papers.claim_files import read_record, reproduce
from idiolect.papers.claims_page import overview
from idiolect.papers.exhibit import Claim, Exhibit, Findings, Request, Scale

CLAIM = Claim("A is above B", "0.7", "0.5 ± 0.1", "a look", "fails", [3, 4], "this is why", {"ours": [0.5, 0.6]})
LAYOUT = ["exhibit", "source", "shows", "scale", "size", "seeds", "seconds", "command", "claims", "made_by"]


def reproduced(folder, claim=CLAIM):
    scales = {"quick": Scale("a quick size", (3, 4))}
    exhibit = Exhibit("one", "Paper, Fig. 1", "what it shows", scales, lambda request: Findings([claim], []))
    return reproduce(exhibit, Request("quick", (3, 4), folder)), folder / "one-quick"


def test_a_record_is_read_back_as_it_was_written(tmp_path):
    record, folder = reproduced(tmp_path)
    assert read_record(folder) == record
    assert record.claims == [CLAIM]
    assert list(json.loads((folder / "claims.json").read_text())) == LAYOUT


def test_what_is_not_finite_is_null_in_the_file(tmp_path):
    _, folder = reproduced(tmp_path, CLAIM._replace(values={"p": math.nan}))
    assert read_record(folder).claims[0].values == {"p": None}


@pytest.mark.parametrize(("seeds", "told"), [([3, 4], "0.5 ± 0.1"), ([5, 6, 7], "0.5 ± 0.1; seeds 5 to 7")])
def test_pages_tell_the_seeds_of_a_claim_that_has_others_than_its_exhibit(seeds, told, tmp_path):
    record, folder = reproduced(tmp_path, CLAIM._replace(seeds=seeds))
    assert f">{told}</td>" in (folder / "report.html").read_text("utf-8")
    exhibit = Exhibit("one", "Paper, Fig. 1", "what it shows", {"quick": Scale("a quick size", (3, 4))}, None)
    assert f"| {told} |" in overview([exhibit], {"one": record}, "quick", "idiolect reproduce")


def test_where_nothing_was_found_there_is_no_record(tmp_path):
    assert read_record(tmp_path) is None


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"claims": [{"statement": "A"}]}'])
def test_a_file_that_cannot_be_read_costs_one_sentence(text, tmp_path):
    (tmp_path / "claims.json").write_text(text)
    with pytest.raises(UserMistake, match=r"claims\.json cannot be read"):
        read_record(tmp_path)
