"""Search ranking with the seminar's sizes, decided by the numbers of the recipe (`make slow`).

Rivals are taken as they are: the shared model of FedAvg and FedAsync, every user's own model for `local`. What they
would gain by the same ten steps is told in docs/results.md, and no claim of anyone's.
"""

import pytest

from idiolect.recipes import load_recipe
from idiolect.runs import run_recipe

pytestmark = pytest.mark.slow

OURS = ("persa_fl_me", "persa_fl_maml")
RIVALS = ("fedavg", "fedasync", "local")


@pytest.fixture(scope="module", params=["mrr", "top1"])
def scores(request, tmp_path_factory):
    """Each method's mean over users and seeds, by column, in one of the two metrics."""
    recipe = load_recipe("ranking", [f"problem.metric={request.param}"])
    assert len(recipe.seeds) == 5
    summary = run_recipe(recipe, tmp_path_factory.mktemp("ranking") / "run")
    return {label: entry["participating"] for label, entry in summary["algorithms"].items()}


@pytest.mark.parametrize("column", ["own", "personalized"])
def test_personalized_asynchronous_learning_ranks_better_than_what_its_rivals_offer(scores, column):
    """By what PersA-FL itself prescribes, and after ten plain steps; the forest joins RIVALS here once a run has it."""
    best_rival = max(scores[label]["own"]["mean"] for label in RIVALS)
    assert min(scores[label][column]["mean"] for label in OURS) > best_rival
