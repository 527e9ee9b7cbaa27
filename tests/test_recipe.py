"""Recipes: what is written is what is read, and every mistake in one is named in one sentence."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from idiolect import catalog
from idiolect.building import build_algorithm, build_problem
from idiolect.errors import UserMistake
from idiolect.network import Delay
from idiolect.recipes import Recipe, builtin_recipes, load_recipe, parse_recipe, write_recipe

FULL = """
name = "everything"
description = "every table there is"
seeds = [3, 4]
horizon = 50
timeline = "some.csv"

[problem]
name = "digits"
clients = 6
samples = 500
unseen = 0.5
shares = { train = 0.5, adapt = 0.2, validation = 0.1 }
partition = { name = "dirichlet", a = 0.3 }
model = { name = "cnn", channels = [4], kernel = 3, dropout = 0.1 }

[network]
download = { law = "gamma", mean = 2, variation = 0.3 }
upload = { law = "fixed", mean = 3 }
upload_ratio = [2, 3]
dropout = 0.1

[training]
local_steps = 3

[evaluation]
points = 4
steps = [0, 2, 7]
split = "validation"
at_most = 3
headline = "own"

[[algorithms]]
name = "persa_fl_me"
label = "mine"
objective = { lambda = 12, inner_step_size = 0.01 }
protocol = { staleness = "hinge" }
training = { step_size = 0.5 }

[[algorithms]]
name = "maml+buffered"
protocol = { size = 3 }
"""


BASE = """
seeds = [0, 1]
horizon = 100

[problem]
name = "digits"
partition = { name = "by_classes", classes = 5 }
model = { name = "mlp" }

[evaluation]
steps = [0, 1]

[[algorithms]]
name = "fedavg"

[[algorithms]]
name = "persa_fl_me"
"""


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small recipe for settings to be tried on."""
    path = tmp_path_factory.mktemp("recipes") / "base.toml"
    path.write_text(BASE)
    return str(path)


@pytest.fixture
def full(tmp_path: Path) -> str:
    path = tmp_path / "full.toml"
    path.write_text(FULL)
    return str(path)


def refusal(source: str, *settings: str) -> str:
    with pytest.raises(UserMistake) as mistake:
        load_recipe(source, list(settings))
    message = str(mistake.value)
    assert "\n" not in message
    return message


def written(tmp_path: Path, text: str, name: str = "some.toml") -> str:
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


@pytest.mark.parametrize("name", builtin_recipes())
def test_every_built_in_recipe_parses_and_says_what_it_is(name):
    recipe = load_recipe(name)
    assert recipe.name == name
    assert builtin_recipes()[name] == recipe.description != ""


@pytest.mark.parametrize("name", [*builtin_recipes(), "full"])
def test_a_recipe_written_and_loaded_is_the_same_recipe_and_the_same_text(tmp_path, full, name):
    recipe = load_recipe(full if name == "full" else name)
    again = load_recipe(written(tmp_path, write_recipe(recipe)))
    assert again == recipe
    assert write_recipe(again) == write_recipe(recipe)


def test_a_written_recipe_names_every_option_of_its_algorithms_defaults_included(full):
    tables = tomllib.loads(write_recipe(load_recipe(full)))
    mine, cell = tables["algorithms"]
    assert mine["objective"] == {"lambda": 12.0, "accuracy": 0.0, "iterations": 10, "inner_step_size": 0.01}
    assert mine["protocol"] == {"beta": 1.0, "staleness": "hinge", "staleness_a": 0.5, "staleness_b": 4.0}
    assert cell["protocol"]["size"] == 3
    rule = {"name": "constant", "offset": 1.0}
    assert tables["training"] == {"local_steps": 3, "step_size": 0.01, "batch_size": 32, "step_rule": rule}


def test_a_written_recipe_names_every_option_of_its_problem_defaults_included(base, tmp_path):
    """So that a run can be repeated when a default has changed."""
    problem = tomllib.loads(write_recipe(load_recipe(base)))["problem"]
    assert problem["clients"] == 30
    assert problem["shares"] == {"train": 0.6, "adapt": 0.15, "validation": 0.05}
    assert problem["partition"] == {"name": "by_classes", "classes": 5, "unequal": 0.0}
    assert problem["model"] == {"name": "mlp", "hidden": [80, 60], "activation": "elu"}
    synthetic = written(tmp_path, '[problem]\nname = "quadratics"\n[[algorithms]]\nname = "local"\n')
    assert tomllib.loads(write_recipe(load_recipe(synthetic)))["problem"]["smoothness"] == 2.0


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
        ("problem.partition={name='iid'}", lambda r: r.problem.model_extra["partition"], {"name": "iid"}),
        ("problem.partition.classes=2", lambda r: r.problem.model_extra["partition"]["classes"], 2),
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
    assert recipe.model_copy(update={"horizon": plain.horizon}) == plain


OUT_OF_RANGE = [
    ("horizon=-1", "horizon is -1"),
    ("horizon=0", "horizon is 0"),
    ("horizon=nan", "horizon is nan"),
    ("horizon=inf", "horizon is inf"),
    ("horizon=soon", "horizon is 'soon'"),
    ("horizon=", "horizon is ''"),
    ("seeds=[]", "seeds is []"),
    ("seeds=[-1]", "seeds.0 is -1"),
    ("seeds=[1.5]", "seeds.0 is 1.5"),
    ("seeds=3", "seeds is 3"),
    ("name=../up", "name is '../up'"),
    ("problem.clients=0", "problem.clients is 0"),
    ("problem.clients=2.5", "problem.clients is 2.5"),
    ("problem.unseen=1.0", "problem.unseen is 1.0"),
    ("problem.shares.train=1.5", "problem.shares.train is 1.5"),
    ("problem.partition.classes=0", "problem.partition.classes is 0"),
    ("problem.model.hidden=wide", "problem.model.hidden is 'wide'"),
    ("training.step_size=0", "training.step_size is 0"),
    ("training.local_steps=0", "training.local_steps is 0"),
    ("training.batch_size=none", "training.batch_size is 'none'"),
    ("evaluation.points=0", "evaluation.points is 0"),
    ("evaluation.steps=[]", "evaluation.steps is []"),
    ("evaluation.steps=[1,1]", "evaluation.steps is [1, 1]"),
    ("evaluation.steps=[-1]", "evaluation.steps.0 is -1"),
    ("evaluation.split=tset", "evaluation.split is 'tset'"),
    ("evaluation.at_most=0", "evaluation.at_most is 0"),
    ("network.dropout=1.0", "network.dropout is 1.0"),
    ("network.spread=-1", "network.spread is -1"),
    ("network.download.mean=-1", "network.download.mean is -1"),
    ("network.download.law=fxed", "network.download.law is 'fxed'"),
    ("network.upload_ratio=[0,1]", "network.upload_ratio.0 is 0"),
    ("network.upload_ratio=[1]", "network.upload_ratio"),
    ("algorithms=[]", "algorithms is []"),
    ("algorithms.fedavg.label=a/b", "algorithms.0.label is 'a/b'"),
    ("algorithms.fedavg.training.step_size=-1", "algorithms.0.training.step_size is -1"),
    ("algorithms.persa_fl_me.objective.lambda=-1", "objective.lambda is -1"),
    ("algorithms.persa_fl_me.objective.lambda=nan", "objective.lambda is nan"),
    ("algorithms.fedavg.protocol.participation=1.5", "protocol.participation is 1.5"),
]


@pytest.mark.parametrize(("setting", "complaint"), OUT_OF_RANGE)
def test_a_value_out_of_range_is_refused_by_field_and_value(base, setting, complaint):
    assert complaint in refusal(base, setting)


@pytest.mark.parametrize(
    ("setting", "key", "meant"),
    [
        ("horizn=3", "horizn", "horizon"),
        ("problem.cleints=3", "problem.cleints", "clients"),
        ("problem.partition.clases=2", "problem.partition.clases", "classes"),
        ("problem.model.hiden=[3]", "problem.model.hiden", "hidden"),
        ("problem.shares.trian=0.5", "problem.shares.trian", "train"),
        ("training.step_sise=1", "training.step_sise", "step_size"),
        ("evaluation.pionts=3", "evaluation.pionts", "points"),
        ("network.dropuot=0.1", "network.dropuot", "dropout"),
        ("network.download.maen=1", "network.download.maen", "mean"),
        ("algorithms.fedavg.trainign.step_size=1", "trainign", "training"),
        ("algorithms.fedavg.training.step_sise=1", "step_sise", "step_size"),
        ("algorithms.persa_fl_me.objective.lamda=3", "objective.lamda", "lambda"),
        ("algorithms.fedavg.protocol.particpation=1", "protocol.particpation", "participation"),
    ],
)
def test_an_unknown_key_is_refused_with_the_one_that_was_meant(base, setting, key, meant):
    message = refusal(base, setting)
    assert f"{key} is not a known key" in message
    assert f"did you mean '{meant}'?" in message


@pytest.mark.parametrize(
    ("setting", "needles"),
    [
        ("algorithms=[{name='fedavgg'}]", ["algorithm is 'fedavgg'", "did you mean 'fedavg'?", "persa_fl_me"]),
        ("algorithms=[{name='mmal+buffered'}]", ["objective is 'mmal'", "did you mean 'maml'?"]),
        ("algorithms=[{name='maml+bufered'}]", ["protocol is 'bufered'", "did you mean 'buffered'?"]),
        ("algorithms=[{}]", ["algorithms.0.name is missing"]),
        ("algorithms=[3]", ["algorithms.0 is 3"]),
        ("problem.name=digit", ["problem.name is 'digit'", "did you mean 'digits'?", "quadratics"]),
        ("problem.partition.name=idd", ["problem.partition is 'idd'", "did you mean 'iid'?"]),
        ("problem.partition={classes=3}", ["problem.partition.name is missing", "by_classes"]),
        ("problem.model.name=3", ["problem.model", "3", "mlp"]),
        ("problem=digits", ["problem is 'digits'"]),
        ("problem.model=cnn", ["problem.model is 'cnn'"]),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(base, setting, needles):
    message = refusal(base, setting)
    for needle in needles:
        assert needle in message


@pytest.mark.parametrize(
    ("setting", "needles"),
    [
        ("horizon", ["setting 'horizon'", "path.to.key=value"]),
        ("=3", ["setting '=3'", "path.to.key=value"]),
        ("horizon.deep=3", ["'horizon' is a value"]),
        ("algorithms.0=3", ["algorithms.0", "must go on to a key"]),
        ("algorithms.7.label=x", ["no '7' among", "fedavg"]),
        ("algorithms.nobody.label=x", ["no 'nobody' among", "persa_fl_me"]),
        ("seeds.0=3", ["seeds.0"]),
        ("seeds.0.x=3", ["seeds.0.x"]),
        ("evaluation.steps.1.x=3", ["evaluation.steps.1.x"]),
    ],
)
def test_a_setting_that_leads_nowhere_is_refused(base, setting, needles):
    message = refusal(base, setting)
    for needle in needles:
        assert needle in message


def test_two_algorithms_of_one_name_are_refused_unless_labelled(base):
    message = refusal(base, "algorithms=[{name='fedavg'},{name='fedavg'}]")
    assert "two algorithms are called 'fedavg'" in message
    assert load_recipe(base, ["algorithms=[{name='fedavg'},{name='fedavg',label='b'}]"]).labels == ["fedavg", "b"]


def test_seeds_that_repeat_themselves_are_refused(base):
    assert "seeds [1, 1] repeat themselves" in refusal(base, "seeds=[1,1]")


@pytest.mark.parametrize("setting", ["seeds=[1,1]", "algorithms=[{name='fedavg'},{name='fedavg'}]"])
def test_a_refusal_does_not_recite_the_whole_recipe(base, setting):
    message = refusal(base, setting)
    assert "by_classes" not in message
    assert not message.startswith(" ")


@pytest.mark.parametrize(
    ("content", "needles"),
    [
        (b"horizon = = 3", ["bad.toml is not TOML", "line 1"]),
        (b"\xff\xfe\x00\x01", ["bad.toml is not TOML"]),
        (b"horizon = 3", ["algorithms is missing"]),
        (b"", ["algorithms is missing"]),
    ],
)
def test_a_file_that_is_no_recipe_is_refused(tmp_path, content, needles):
    (tmp_path / "bad.toml").write_bytes(content)
    message = refusal(str(tmp_path / "bad.toml"))
    for needle in needles:
        assert needle in message


def test_a_missing_file_and_an_unknown_name_are_told_apart(tmp_path):
    assert "missing.toml does not exist" in refusal(str(tmp_path / "missing.toml"))
    assert "recipe is 'dmeo' (did you mean 'demo'?)" in refusal("dmeo")
    assert "does not exist" in refusal(str(tmp_path.with_suffix(".toml")))


def quadratic_tables(**algorithm: Any) -> dict[str, Any]:
    return {"problem": {"name": "quadratics", "clients": 2, "dimension": 3, "samples": 4}, "algorithms": [algorithm]}


def built(recipe: Recipe) -> Any:
    return build_algorithm(recipe, recipe.algorithms[0], build_problem(recipe, 0))


@pytest.mark.parametrize("name", ["persa_fl_me", "pfedme", "moreau+buffered"])
def test_a_lambda_that_does_not_exceed_the_smoothness_is_refused(name):
    """PersA-FL, Sec. 3: the Moreau envelope needs lambda > L, and L = 2 here."""
    for lambda_ in (1.5, 2.0):
        with pytest.raises(UserMistake, match=rf"objective\.lambda is {lambda_:g}, .* L = 2"):
            built(parse_recipe(quadratic_tables(name=name, objective={"lambda": lambda_})))
    assert built(parse_recipe(quadratic_tables(name=name, objective={"lambda": 2.5}))).name == name


@pytest.mark.parametrize("name", catalog.SYNTHETIC)
def test_the_options_of_a_synthetic_problem_are_checked_with_the_recipe(name):
    tables = {"problem": {"name": name, "clients": 3}, "algorithms": [{"name": "local"}]}
    assert parse_recipe(tables).problem.model_extra["clients"] == 3
    tables["problem"]["cleints"] = 3
    with pytest.raises(UserMistake, match=r"problem\.cleints is not a known key \(did you mean 'clients'\?\)"):
        parse_recipe(tables)


def test_an_algorithm_s_own_training_wins_over_the_common_one():
    tables = quadratic_tables(name="local", training={"step_size": 0.5}) | {"training": {"local_steps": 7}}
    algorithm = built(parse_recipe(tables))
    assert (algorithm.step_size, algorithm.local_steps, algorithm.batch_size) == (0.5, 7, 32)
