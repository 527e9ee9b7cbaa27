"""`idiolect reproduce` around its exhibits: the list, mistakes, going on after one, stopping, and the page."""

import json

import pytest

from idiolect.cli import main
from idiolect.errors import Interrupted, UserMistake
from idiolect.papers import exhibits
from idiolect.papers.exhibit import Claim, Exhibit, Findings, Scale
from idiolect.papers.exhibits import EXHIBITS
from tests.pages import ROOT


def pretended(name, perform):
    scales = {scale: Scale(f"a {scale} size", (0, 1)) for scale in ("quick", "desk", "paper")}
    return Exhibit(name, f"Paper, {name}", f"what {name} shows", scales, perform)


def found(verdict, finding=""):
    def perform(request):
        claim = Claim(f"it is {verdict}", "0.7", "0.5 ± 0.1", "a look", verdict, list(request.seeds), finding)
        return Findings([claim], [])

    return perform


@pytest.fixture
def only(monkeypatch):
    """Replace all exhibits by these."""

    def replace(**performs):
        made = {name: pretended(name, perform) for name, perform in performs.items()}
        monkeypatch.setattr(exhibits, "EXHIBITS", made)

    return replace


def test_without_a_name_it_lists_every_exhibit_with_its_scales(capsys):
    assert main(["reproduce"]) == 0
    text = capsys.readouterr().out
    for exhibit in EXHIBITS.values():
        assert exhibit.name in text
        for scale in exhibit.scales.values():
            assert scale.size in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["persa-fl-fig-2d"], "did you mean"),
        (["memrl-fig-1", "--scale", "huge"], "--scale is 'huge'"),
        (["memrl-fig-1", "--seeds", "1,x"], "--seeds is '1,x'"),
        (["memrl-fig-1", "--seeds", "1,1"], "different whole numbers"),
        (["memrl-fig-1", "--all"], "--all is given with the name"),
        (["memrl-fig-1", "--page", "x.md"], "only written with --all"),
        (["memrl-fig-1", "--committed"], "--committed is given with name, but runs nothing"),
    ],
)
def test_a_mistake_costs_one_sentence(arguments, says, tmp_path, capsys):
    assert main(["reproduce", *arguments, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_all_writes_a_page_with_every_exhibit_its_verdicts_and_what_was_found(only, tmp_path, capsys):
    only(one=found("holds", "not to be told"), two=found("fails", "this is why"), three=found("not shown"))
    page = tmp_path / "docs" / "page.md"
    arguments = ["reproduce", "--all", "--scale", "desk", "--out", str(tmp_path / "out"), "--page", str(page)]
    assert main(arguments) == 0
    text = page.read_text()
    for name, verdict in (("one", "holds"), ("two", "fails"), ("three", "not shown")):
        assert f"## Paper, {name}" in text
        assert f"| it is {verdict} | 0.7 | 0.5 ± 0.1 | a look | **{verdict}** |" in text
        assert f"idiolect reproduce {name} --scale desk" in text
        record = json.loads((tmp_path / "out" / f"{name}-desk" / "claims.json").read_text())
        assert record["claims"][0]["verdict"] == verdict
    assert "this is why" in text
    assert "not to be told" not in text
    assert "two CPU cores" in text
    assert "paired" in text
    assert (tmp_path / "out" / "two-desk" / "report.html").read_text().count("this is why") == 1


def test_the_time_is_that_of_the_first_running(only, tmp_path):
    only(one=found("holds"))
    arguments = ["reproduce", "one", "--scale", "quick", "--out", str(tmp_path)]
    main(arguments)
    file = tmp_path / "one-quick" / "claims.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "seconds": 1234.5}))
    main(arguments)
    assert json.loads(file.read_text())["seconds"] == 1234.5


def test_with_all_what_one_exhibit_lacks_does_not_stop_the_others(only, tmp_path, capsys):
    def without_data(request):
        raise UserMistake("the data is missing")

    only(one=without_data, two=found("holds"))
    assert main(["reproduce", "--all", "--scale", "quick", "--out", str(tmp_path)]) == 2
    assert "one: the data is missing" in capsys.readouterr().err
    text = (tmp_path / "reproduction-quick.md").read_text()
    assert "| Paper, one | what one shows | | | not run |" in text
    assert "## Paper, two" in text


def test_other_seeds_have_a_folder_of_their_own(only, tmp_path):
    only(one=found("holds"))
    many = ",".join(map(str, range(400, 500)))  # more than a file's name can hold
    for seeds in ([], ["--seeds", "0,1"], ["--seeds", "5,7"], ["--seeds", many]):
        assert main(["reproduce", "one", "--scale", "quick", "--out", str(tmp_path), *seeds]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "one-quick",
        "one-quick-seeds400-499",
        "one-quick-seeds5,7",
    ]
    record = json.loads((tmp_path / "one-quick-seeds5,7" / "claims.json").read_text())
    assert record["seeds"] == record["claims"][0]["seeds"] == [5, 7]
    assert record["command"].endswith("--seeds 5,7")


def test_who_stops_it_is_told_how_to_go_on(only, tmp_path, capsys):
    def stopped(request):
        raise Interrupted

    only(one=stopped)
    assert main(["reproduce", "--all", "--scale", "quick", "--out", str(tmp_path / "a b")]) == 130
    assert f"go on with: idiolect reproduce --all --scale quick --out '{tmp_path}/a b'" in capsys.readouterr().err
    assert not (tmp_path / "a b" / "one-quick").exists()


def test_the_page_of_the_documentation_is_that_of_the_committed_numbers(tmp_path, capsys):
    assert main(["reproduce", "--committed", "--page", str(tmp_path / "page.md")]) == 0
    made = (tmp_path / "page.md").read_text("utf-8")
    assert (ROOT / "docs" / "reproduction.md").read_text("utf-8") == made, "idiolect reproduce --committed"
    assert "| [PersA-FL, Fig. 1](#persa-fl-fig-1) |" in made
