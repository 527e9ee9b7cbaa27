"""Search ranking with the seminar's sizes, decided by the numbers of the recipe (`make slow`).

Everyone is taken as they are: the shared model of FedAvg and FedAsync, every user's own model for `local`, a forest on
everyone's rows and a forest for each user; and PersA-FL after what it prescribes. What the others would gain by the
same ten steps is told in docs/results.md, and no claim of anyone's.
"""

import pytest

from idiolect.recipes import load_recipe
from idiolect.runs import run_recipe

pytestmark = pytest.mark.slow

OURS = ("persa_fl_me", "persa_fl_maml")
METRICS = ("normalized reciprocal rank", "top-1 accuracy")


@pytest.fixture(scope="module")
def summary(tmp_path_factory):
    recipe = load_recipe("ranking")
    assert len(recipe.seeds) == 5
    return run_recipe(recipe, tmp_path_factory.mktemp("ranking") / "run")


@pytest.mark.parametrize("metric", METRICS)
def test_personalized_asynchronous_learning_ranks_better_than_what_its_rivals_offer(summary, metric):
    scores = {}
    for label, entry in summary["algorithms"].items():
        table = entry["participating"] if metric == summary["metric"] else entry["also"][metric]
        scores[label] = table["own"]["mean"]
    rivals = {label: score for label, score in scores.items() if label not in OURS}
    rivals |= {name: entry[metric]["mean"] for name, entry in summary["references"].items()}
    assert set(rivals) == {"local", "fedavg", "fedasync", "forest", "own_forest"}
    assert min(scores[label] for label in OURS) > max(rivals.values())
