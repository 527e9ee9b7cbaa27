"""What README and docs show works: their Python runs, and their recipes are recipes."""

import re
import tomllib
from pathlib import Path

import pytest

from idiolect.catalog import ALGORITHMS
from idiolect.experiments.recipe_files import parse_recipe

ROOT = Path(__file__).parent.parent
# Pages of algorithms and of the API are made when the site is built, and are tested as what they are made from.
WRITTEN = [path for path in (ROOT / "docs").rglob("*.md") if not {"_build", "algorithms", "api"} & {*path.parts}]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *WRITTEN])


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_python_on_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if any("import torch" in block for block in blocks(page, "python")):
        pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'idiolect[torch]'")
    names = {"__name__": "page", "tmp": tmp_path}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), names)


RECIPES = [(page, block) for page in PAGES for block in blocks(page, "toml")]


@pytest.mark.parametrize(("page", "block"), RECIPES, ids=[f"{page.name}-{k}" for k, (page, _) in enumerate(RECIPES)])
def test_toml_on_a_page_is_a_recipe_or_a_part_of_one(page, block, monkeypatch):
    monkeypatch.chdir(ROOT)
    tables = tomllib.loads(block)
    assert parse_recipe({"algorithms": [{"name": "fedavg"}], **tables}).labels


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
            path = (page.parent / target).resolve()
            made = path.parent.name == "api" or (path.parent.name == "algorithms" and path.stem in ALGORITHMS)
            assert path.exists() or made, f"{page.name} links to {target}"
