"""The site: a page for every algorithm, whose recipe works; a picture of the imports; tutorials that run."""

import json
import os
import sys
import tomllib
from pathlib import Path

import pytest

from idiolect import catalog
from idiolect.experiments.recipe_files import parse_recipe
from tests import test_layers
from tests.pages import ROOT, TUTORIALS, run_in, script

sys.path.insert(0, str(ROOT / "docs"))
from generators import algorithm_pages, architecture, import_graph, joined_outputs, page_runs

WORDS = {name: (words, family) for family in algorithm_pages.families() for name, words in family["algorithms"].items()}


def recipe(name: str) -> str:
    return algorithm_pages.recipe(name, *WORDS[name])


def test_every_algorithm_of_the_catalog_has_words_and_a_page():
    assert WORDS.keys() == catalog.ALGORITHMS.keys()
    pages = algorithm_pages.pages()
    assert pages.keys() == {"table.txt", *(f"{name}.md" for name in catalog.ALGORITHMS)}
    for name, cell in catalog.ALGORITHMS.items():
        for said in (
            f"`{name}`",
            cell.source,
            "What it minimises",
            "When to take it",
            f"### objective = {cell.objective}",
        ):
            assert said in pages[f"{name}.md"], (name, said)


def test_a_page_has_options_with_bounds_and_the_defaults_of_its_algorithm():
    pages = algorithm_pages.pages()
    assert "| `lambda` | number above 0 | 20.0 | How strongly theta is held near w. |" in pages["persa_fl_me.md"]
    assert '| { name = "adam" } here, else not set |' in pages["fedadam.md"]
    assert r"\|\|theta - w\|\|^2 | `solve` |" in pages["pfedme.md"], "a norm is not the border of a cell"
    assert "FedPer, Alg. 1, l. 6" in pages["fedper.md"]


@pytest.mark.parametrize("name", WORDS)
def test_the_recipe_of_a_page_is_one_and_names_its_algorithm(name):
    assert name in parse_recipe(tomllib.loads(recipe(name))).labels


RUNS = json.loads(page_runs.KEPT.read_text("utf-8"))
PAGES = algorithm_pages.pages()


@pytest.mark.parametrize("name", WORDS)
def test_what_a_page_tells_of_a_run_is_of_the_recipe_it_shows(name):
    assert RUNS[name]["recipe"] == page_runs.digest(recipe(name)), f"python docs/generators/page_runs.py {name}"
    page = PAGES[f"{name}.md"]
    assert f"| `{name}` | {RUNS[name]['rows'][name]['received']:.3f} |" in page


@pytest.mark.slow
@pytest.mark.parametrize("name", WORDS)
def test_the_recipe_of_a_page_comes_to_what_the_page_tells(name, tmp_path):
    found, told = page_runs.run(recipe(name), tmp_path)["rows"], RUNS[name]["rows"]
    assert found.keys() == told.keys()
    for label, row in told.items():  # machines round differently, and a sample more or less is 0.003
        assert found[label] == pytest.approx(row, abs=0.03), label


def test_the_picture_has_every_room_and_its_layers_agree_with_the_order_that_is_held():
    graph = import_graph.imports()
    assert graph.keys() == {test_layers.package(name) for name in test_layers.MODULES} - {"__main__"}
    layers = import_graph.layers(graph)
    level = {room: number for number, rooms in enumerate(layers) for room in rooms}
    for room, others in graph.items():
        assert all(level[other] < level[room] for other in others)
        assert all(test_layers.LEVEL[other] <= test_layers.LEVEL[room] for other in others)
    drawn = architecture.picture()
    for room in graph:
        assert f">{room}</text>" in drawn


def test_lines_that_follow_from_others_are_left_out_and_circles_are_named():
    assert import_graph.direct({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": {"b"}, "b": {"c"}, "c": set()}
    with pytest.raises(ValueError, match="in a circle"):
        import_graph.layers({"a": {"b"}, "b": {"a"}})


PIECES = [("stdout", "1"), ("stderr", "x"), ("stdout", "2\n")]


def test_pieces_of_what_a_command_printed_are_put_together():
    pieces = [{"output_type": "stream", "name": name, "text": text} for name, text in PIECES]
    assert [piece["text"] for piece in joined_outputs.joined(pieces)] == ["12\n", "x"]


def test_a_page_becomes_a_script(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```{code-cell} ipython3\n%%writefile a.txt\nhello\n```\n\n```{code-cell} ipython3\n%%bash\ncat a.txt\n```\n\n"
        "```toml\nno = 1\n```\n\n```python\nprint(1 + 1)\n```\n"
    )
    done = run_in(tmp_path, script(page))
    assert (done.returncode, done.stdout.split()) == (0, ["hello", "2"])
    page.write_text("```{code-cell} ipython3\n%%bash\nfalse\ntrue\n```\n")
    assert run_in(tmp_path, script(page)).returncode != 0, "a command that fails is a page that fails"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="tutorials have cells of bash")
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_runs_in_an_empty_folder(page: Path, tmp_path):
    done = run_in(tmp_path, script(page))
    assert done.returncode == 0, done.stdout + done.stderr
