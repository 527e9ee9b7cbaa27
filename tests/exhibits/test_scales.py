"""Every run of every exhibit at every scale: its experiment is made and, where that needs no data, built."""

import pytest

from idiolect.errors import UserMistake
from idiolect.experiments.building import build_seed
from idiolect.experiments.recipe_files import load_recipe
from idiolect.network import Network
from idiolect.papers import (
    memrl_exhibits,
    pars_push_exhibits,
    per_fedavg_exhibits,
    persa_fl_exhibits,
    qupel_sizes,
    ranking_exhibits,
    stability_exhibit,
)
from idiolect.papers.exhibit import SCALES
from idiolect.papers.exhibits import EXHIBITS
from idiolect.papers.trials import experiment_of

TRIALS = (
    pars_push_exhibits.LOSSY,
    pars_push_exhibits.LOSSLESS,
    persa_fl_exhibits.MNIST,
    persa_fl_exhibits.CIFAR,
    per_fedavg_exhibits.RUN,
    per_fedavg_exhibits.TUNED,
    qupel_sizes.ALONE,
    qupel_sizes.TOGETHER,
    ranking_exhibits.RUN,
    memrl_exhibits.RUN,
    memrl_exhibits.REGIME,
)
FETCHED = ("mnist", "fashion_mnist", "cifar10")
BY_NAME = [pytest.param(trial, id=trial.name) for trial in TRIALS]
LOSSLESS = ["links.loss=0", 'algorithms=[{name="rasgp"},{name="sgp"}]']


@pytest.mark.parametrize("trial", BY_NAME)
def test_at_the_desk_a_run_is_the_recipe_as_it_ships(trial):
    shipped = trial.name.removesuffix("-lossless")
    assert experiment_of(trial, "desk") == load_recipe(
        shipped, LOSSLESS if trial is pars_push_exhibits.LOSSLESS else []
    )


@pytest.mark.parametrize("scale", ["quick", "paper"])
@pytest.mark.parametrize("trial", [*BY_NAME, *stability_exhibit.TRIALS.values(), qupel_sizes.LEVELS])
def test_every_experiment_is_made_and_built_where_no_data_is_needed(trial, scale):
    experiment = experiment_of(trial, scale)
    assert experiment.seeds == list(trial.sizes[scale].seeds)
    if scale == "quick":
        assert experiment.problem.name not in FETCHED, "nothing is fetched"
    elif experiment.problem.name not in FETCHED:
        build_seed(experiment, experiment.seeds[0])


@pytest.mark.parametrize("scale", SCALES)
def test_the_seminar_s_other_model_and_loss_run_on_the_same_crowd(scale):
    run, (cnn, mse) = (
        experiment_of(ranking_exhibits.RUN, scale),
        (experiment_of(trial, scale) for trial in ranking_exhibits.OTHERS.values()),
    )
    assert (cnn.problem.options["model"], mse.problem.options["loss"]) == ("mlp_cnn", "mse")
    for other in (cnn, mse):
        assert set(other.labels) <= set(run.labels)
        assert set(other.seeds) <= set(run.seeds)
        assert other.problem.options["dimension"] == run.problem.options["dimension"]
        assert other.evaluation.references == []


def test_the_papers_sizes_are_those_of_the_papers():
    mnist, cifar = (experiment_of(trial, "paper") for trial in (persa_fl_exhibits.MNIST, persa_fl_exhibits.CIFAR))
    for experiment, classes in ((mnist, 5), (cifar, 3)):
        options = experiment.problem.options
        assert options["clients"] == 30
        assert "samples" not in options, "all images"
        assert options["partition"].options["classes"] == classes
    together = experiment_of(qupel_sizes.TOGETHER, "paper")
    tables = dict(zip(together.labels, together.lines, strict=True))
    for label in ("local-2_25", "qupel-2_25"):
        assert tables[label].objective["fine_tune_after"] == 15_000
        assert tables[label].objective["lambda"].growth == 1e-6
        assert tables[label].objective["lambda_p"] == (0.025 if label.startswith("qupel") else 0.0)
    assert tables["local-32"].objective["weight_decay"] == 1e-4


def test_fig_2a_is_drawn_on_the_network_of_the_runs_beside_it():
    assert (
        experiment_of(persa_fl_exhibits.MNIST, "desk").network
        == experiment_of(persa_fl_exhibits.CIFAR, "desk").network
        == Network()
    )


def test_every_exhibit_has_every_scale():
    for exhibit in EXHIBITS.values():
        assert set(exhibit.scales) == set(SCALES)


def test_a_run_can_be_named_by_its_seeds():
    assert experiment_of(memrl_exhibits.RUN, "quick", (4, 5)).seeds == [4, 5]
    with pytest.raises(UserMistake, match="seeds"):
        experiment_of(memrl_exhibits.RUN, "quick", (4, 4))
