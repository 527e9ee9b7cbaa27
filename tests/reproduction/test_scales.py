"""Every run of every exhibit at every scale: its recipe is read and, where that needs no data, built."""

import pytest

from idiolect import catalog
from idiolect.building import check
from idiolect.errors import UserMistake
from idiolect.network import Network
from idiolect.recipes import load_recipe
from idiolect.reproduction import memrl, pars_push, per_fedavg, persa_fl, qupel_sizes, ranking
from idiolect.reproduction.exhibit import SCALES
from idiolect.reproduction.exhibits import EXHIBITS
from idiolect.reproduction.trials import recipe_of

TRIALS = (
    pars_push.LOSSY,
    pars_push.LOSSLESS,
    persa_fl.MNIST,
    persa_fl.CIFAR,
    per_fedavg.RUN,
    qupel_sizes.ALONE,
    qupel_sizes.TOGETHER,
    qupel_sizes.RESOURCES,
    ranking.RUN,
    memrl.RUN,
)
BY_NAME = [pytest.param(trial, id=trial.name) for trial in TRIALS]
LOSSLESS = ["links.loss=0", 'algorithms=[{name="rasgp"},{name="sgp"}]']


@pytest.mark.parametrize("trial", BY_NAME)
def test_at_the_desk_a_run_is_the_recipe_as_it_ships(trial):
    shipped = trial.name.removesuffix("-lossless")
    assert recipe_of(trial, "desk") == load_recipe(shipped, LOSSLESS if trial is pars_push.LOSSLESS else [])


@pytest.mark.parametrize("scale", ["quick", "paper"])
@pytest.mark.parametrize("trial", BY_NAME)
def test_every_recipe_is_read_and_built_where_no_data_is_needed(trial, scale):
    recipe = recipe_of(trial, scale)
    assert recipe.seeds == list(trial.sizes[scale].seeds)
    if scale == "quick":
        assert recipe.problem.name not in ("mnist", "fashion_mnist", "cifar10"), "nothing is fetched"
    elif recipe.problem.name in catalog.SYNTHETIC:
        check(recipe)


def test_the_papers_sizes_are_those_of_the_papers():
    mnist, cifar = (recipe_of(trial, "paper") for trial in (persa_fl.MNIST, persa_fl.CIFAR))
    for recipe, classes in ((mnist, 5), (cifar, 3)):
        assert recipe.problem.clients == 30
        assert "samples" not in recipe.problem.model_extra, "all images"
        assert recipe.problem.partition["classes"] == classes
    together = recipe_of(qupel_sizes.TOGETHER, "paper")
    tables = {table.label: table for table in together.algorithms if table.label}
    for label in ("local-2_25", "qupel-2_25"):
        assert tables[label].objective["fine_tune_after"] == 15_000
        assert tables[label].objective["lambda"]["growth"] == 1e-6
        assert tables[label].objective["lambda_p"] == (0.025 if label.startswith("qupel") else 0.0)
    assert tables["local-32"].objective["weight_decay"] == 1e-4


def test_fig_2a_is_drawn_on_the_network_of_the_runs_beside_it():
    assert recipe_of(persa_fl.MNIST, "desk").network == recipe_of(persa_fl.CIFAR, "desk").network == Network()


def test_every_exhibit_has_every_scale():
    for exhibit in EXHIBITS.values():
        assert set(exhibit.scales) == set(SCALES)


def test_a_run_can_be_named_by_its_seeds():
    assert recipe_of(memrl.RUN, "quick", (4, 5)).seeds == [4, 5]
    with pytest.raises(UserMistake, match="seeds"):
        recipe_of(memrl.RUN, "quick", (4, 4))
