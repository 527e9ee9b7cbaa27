"""What a release says of itself agrees with itself: versions, supported Pythons, citations, workflows, issue forms."""

import re
import tomllib
from pathlib import Path

import pytest

import idiolect

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")


def test_there_is_one_version():
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    assert cited is not None
    assert cited.group(1) == PROJECT["version"] == idiolect.__version__
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_pythons_that_are_promised_are_those_that_are_tested():
    promised = [one.rsplit(" ", 1)[1] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)]
    tested = re.search(r"python: \[(.*)\]", WORKFLOW)
    assert tested is not None
    assert [text.strip(' "') for text in tested.group(1).split(",")] == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"
    for system in ("macos-latest", "windows-latest"):
        assert system in WORKFLOW


def test_the_papers_are_cited_as_the_list_of_errata_has_them():
    cited = (ROOT / "CITATION.cff").read_text("utf-8")
    errata = (ROOT / "docs" / "errata.md").read_text("utf-8").lower()
    titles = re.findall(r'^    title: "(.*)"$', cited, re.MULTILINE)
    assert len(titles) == 5
    for title in titles:
        assert title.lower().removeprefix("persa-fl: ").removeprefix("pars-push: ") in errata


def test_what_workflows_run_is_there():
    for path in re.findall(r"tests/[\w./]+", WORKFLOW):
        assert (ROOT / path).exists(), path
    targets = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"run: make (\w+)", WORKFLOW):
        assert f"\n{target}:" in targets


def test_workflows_and_forms_are_yaml():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    forms = sorted((ROOT / ".github").rglob("*.yml"))
    assert len(forms) >= 5
    for form in [*forms, ROOT / "CITATION.cff", ROOT / ".pre-commit-config.yaml"]:
        content = yaml.safe_load(form.read_text("utf-8"))
        assert isinstance(content, dict), form.name
        for part in content.get("body", []):
            assert {"type", "id", "attributes"} <= part.keys()
