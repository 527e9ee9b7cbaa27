"""Recipes: what is written is what is read."""

import tomllib

import pytest

from idiolect.errors import UserMistake
from idiolect.experiments.describing import write_experiment
from idiolect.experiments.recipe_files import builtin_recipes, load_recipe
from idiolect.network import Delay
from idiolect.registry import Choice
from tests.recipes.asking import written


@pytest.mark.parametrize("name", builtin_recipes())
def test_every_built_in_recipe_parses_and_says_what_it_is(name):
    recipe = load_recipe(name)
    assert recipe.name == name
    assert builtin_recipes()[name] == recipe.description != ""


@pytest.mark.parametrize("name", [*builtin_recipes(), "full"])
def test_a_recipe_written_and_loaded_is_the_same_recipe_and_the_same_text(tmp_path, full, name):
    recipe = load_recipe(full if name == "full" else name)
    again = load_recipe(written(tmp_path, write_experiment(recipe)))
    assert again == recipe
    assert write_experiment(again) == write_experiment(recipe)


def test_a_written_recipe_names_every_option_of_its_algorithms_defaults_included(full):
    tables = tomllib.loads(write_experiment(load_recipe(full)))
    mine, cell = tables["algorithms"]
    moreau = {"lambda": 12.0, "accuracy": 0.0, "iterations": 10, "inner_step_size": 0.01, "batches": "shared"}
    assert mine["objective"] == moreau
    assert mine["protocol"] == {"beta": 1.0, "staleness": "hinge", "staleness_a": 0.5, "staleness_b": 4.0}
    assert cell["protocol"]["size"] == 3
    rule = {"name": "constant", "offset": 1.0, "decay": 1.0, "every": 1, "at": [], "drop": 0.1}
    assert tables["training"] == {"local_steps": 3, "step_size": 0.01, "batch_size": 32, "step_rule": rule}


def test_a_written_recipe_names_every_option_of_its_problem_defaults_included(base, tmp_path):
    """So that a run can be repeated when a default has changed."""
    problem = tomllib.loads(write_experiment(load_recipe(base)))["problem"]
    assert problem["clients"] == 30
    assert problem["shares"] == {"train": 0.6, "adapt": 0.15, "validation": 0.05}
    assert problem["partition"] == {"name": "by_classes", "classes": 5, "unequal": 0.0}
    assert problem["model"] == {"name": "mlp", "hidden": [80, 60], "activation": "elu"}
    synthetic = written(tmp_path, '[problem]\nname = "quadratics"\n[[algorithms]]\nname = "local"\n')
    assert tomllib.loads(write_experiment(load_recipe(synthetic)))["problem"]["smoothness"] == 2.0


def test_a_recipe_is_called_after_its_file_unless_it_says_otherwise(tmp_path, full):
    assert load_recipe(written(tmp_path, '[[algorithms]]\nname = "local"\n', "short.toml")).name == "short"
    assert load_recipe(full).name == "everything"


def test_values_get_their_types(full):
    recipe = load_recipe(full)
    assert recipe.network.download == Delay("gamma", 2.0, 0.3)
    assert recipe.network.upload == Delay("fixed", 3.0)
    assert recipe.network.upload_ratio == (2.0, 3.0)
    assert recipe.labels == ["mine", "maml+buffered"]
    assert (recipe.horizon, type(recipe.horizon)) == (50.0, float)


@pytest.mark.parametrize(
    ("setting", "read", "value"),
    [
        ("horizon=12", lambda r: r.horizon, 12.0),
        ("seeds=[7, 9]", lambda r: r.seeds, [7, 9]),
        ("description=some plain words", lambda r: r.description, "some plain words"),
        ('description="quoted = 3"', lambda r: r.description, "quoted = 3"),
        ("evaluation.split=validation", lambda r: r.evaluation.split, "validation"),
        ("evaluation.steps=[1,2]", lambda r: r.evaluation.steps, [1, 2]),
        ("problem.partition={name='iid'}", lambda r: r.problem.options["partition"], Choice("iid")),
        ("problem.partition.classes=2", lambda r: r.problem.options["partition"].options["classes"], 2),
        ("network.dropout=0.5", lambda r: r.network.dropout, 0.5),
        ("network.idle={mean=3}", lambda r: r.network.idle, Delay("exponential", 3.0)),
        ("algorithms.1.label=second", lambda r: r.labels[1], "second"),
        ("algorithms.fedavg.training.step_size=0.5", lambda r: r.algorithms[0].training.step_size, 0.5),
        ("algorithms.persa_fl_me.objective.lambda=30", lambda r: r.algorithms[1].objective["lambda"], 30.0),
        ("algorithms=[{name='local'}]", lambda r: r.labels, ["local"]),
        (" horizon = 12 ", lambda r: r.horizon, 12.0),
    ],
)
def test_a_setting_reaches_its_key_and_has_the_type_that_toml_gives_it(base, setting, read, value):
    found = read(load_recipe(base, [setting]))
    assert found == value
    assert type(found) is type(value)


def test_settings_reach_an_algorithm_by_its_label(full):
    recipe = load_recipe(full, ["algorithms.mine.training.local_steps=9", "algorithms.mine.label=yours"])
    assert (recipe.algorithms[0].training.local_steps, recipe.labels[0]) == (9, "yours")


def test_a_label_with_a_dot_is_refused_because_settings_could_not_reach_it(full):
    with pytest.raises(UserMistake, match=r"algorithms\.0\.label is 'r0\.5'"):
        load_recipe(full, ["algorithms.0.label=r0.5"])


def test_later_settings_win_and_the_rest_stays_as_it_was(base):
    recipe, plain = load_recipe(base, ["horizon=1", "horizon=2"]), load_recipe(base)
    assert recipe.horizon == 2.0
    assert recipe.replace(horizon=plain.horizon) == plain
