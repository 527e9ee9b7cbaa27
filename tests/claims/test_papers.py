"""What the papers claim, run again at the desk (`make slow`): the verdicts are those that docs/reproduction.md tells.

And what no figure or table shows: the demo, and that lost messages cost a net nothing.
"""

import json
import re
from pathlib import Path

import pytest

from idiolect.cli import main
from idiolect.errors import UserMistake
from idiolect.experiments.recipe_files import load_recipe
from idiolect.papers import memrl_exhibits
from idiolect.papers.exhibits import EXHIBITS
from idiolect.papers.trials import recipe_of
from idiolect.problems.data.datasets import load_images
from idiolect.results.execute import run_recipe

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parents[2] / "docs" / "reproduction.md"
DATA = {
    "persa-fl-fig-2b": "mnist",
    "per-fedavg-fig-1": "mnist",
    **dict.fromkeys(("persa-fl-fig-2c", "qupel-table-1", "qupel-table-2", "qupel-fig-1", "qupel-table-3"), "cifar10"),
}


def told(exhibit):
    """Statement -> verdict, as the page has them."""
    part = PAGE.read_text("utf-8").split(f"\n## {exhibit.source}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \|.*\| \*\*(holds|not shown|fails)\*\* \|$", part, flags=re.MULTILINE)
    return dict(rows)


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Where all exhibits of a session lie, so that those with the same runs share them."""
    return tmp_path_factory.mktemp("reproductions")


@pytest.mark.parametrize("name", EXHIBITS)
def test_an_exhibit_comes_to_the_verdicts_on_the_page(name, out):
    try:
        load_images(DATA.get(name, "digits"))
    except UserMistake as reason:
        pytest.skip(str(reason))
    assert main(["reproduce", name, "--scale", "desk", "--out", str(out)]) == 0
    claims = json.loads((out / f"{name}-desk" / "claims.json").read_text())["claims"]
    assert {claim["statement"]: claim["verdict"] for claim in claims} == told(EXHIBITS[name])


def test_memrl_needs_neither_rounds_nor_on_average_a_server(tmp_path):
    recipe = recipe_of(memrl_exhibits.RUN, "desk")
    kept = [table for table in recipe.algorithms if table.name in ("persa_fl_me", "pars_push_me")]
    run_recipe(recipe.model_copy(update={"algorithms": kept}), tmp_path / "run")
    share = {table.name: shares_of(tmp_path / "run", recipe.seeds, table.name) for table in kept}
    assert min(map(min, share["persa_fl_me"])) >= 0.95
    assert all(sum(task) / len(task) >= 0.95 for task in zip(*share["pars_push_me"], strict=True))


def shares_of(folder, seeds, label):
    """The share of the best possible reward, for each seed and task."""
    rows = []
    for seed in seeds:
        best = json.loads((folder / "references" / f"best-seed{seed}.json").read_text())["scores"]["reward"]
        clients = json.loads((folder / "cells" / f"{label}-seed{seed}.json").read_text())["clients"]
        rows.append([client["scores"]["own"] / best[str(client["client"])] for client in clients])
    return rows


def personalized(summary, label):
    return summary["algorithms"][label]["participating"]["personalized"]["mean"]


def test_demo_the_personalized_asynchronous_methods_lead(tmp_path):
    summary = run_recipe(load_recipe("demo"), tmp_path / "run")
    leaders = [personalized(summary, label) for label in ("persa_fl_maml", "persa_fl_me")]
    assert min(leaders) > max(personalized(summary, label) for label in ("fedavg", "fedasync", "per_fedavg"))


def test_pars_push_loses_no_accuracy_to_lost_messages_on_a_net(tmp_path):
    """Appendix B's setting, Gamma_w = 1: with 30 % loss as good as without, within the spread over seeds."""
    lossy, whole = (
        run_recipe(load_recipe("parspush-digits", settings), tmp_path / str(number))
        for number, settings in enumerate(([], ["links.loss=0"]))
    )
    for label in lossy["algorithms"]:
        noise = max(spread_over_seeds(lossy, label), spread_over_seeds(whole, label))
        assert abs(personalized(lossy, label) - personalized(whole, label)) < 2 * noise
        assert personalized(lossy, label) > 0.85


def spread_over_seeds(summary, label):
    return summary["algorithms"][label]["participating"]["personalized"]["std"]
