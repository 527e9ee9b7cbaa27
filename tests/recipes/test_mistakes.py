"""Every mistake in a recipe is named in one sentence."""

import inspect
from typing import Any

import pytest

from idiolect import catalog
from idiolect.errors import UserMistake
from idiolect.experiments.building import build_algorithm, build_problem
from idiolect.experiments.recipe_files import load_recipe, parse_recipe
from idiolect.experiments.value import Experiment
from tests.recipes.asking import refusal

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
    ("algorithms=[]", "algorithms is empty, but an experiment needs at least one"),
    ("algorithms.fedavg.label=a/b", "algorithms.0.label is 'a/b'"),
    ("algorithms.fedavg.training.step_size=-1", "algorithms.0.training.step_size is -1"),
    ("algorithms.persa_fl_me.objective.lambda=-1", "objective.lambda is -1"),
    ("algorithms.persa_fl_me.objective.lambda=nan", "objective.lambda is nan"),
    ("algorithms.fedavg.protocol.participation=1.5", "protocol.participation is 1.5"),
    ("algorithms.fedavg.protocol.combine=medain", "protocol.combine is 'medain'"),
    ("algorithms.fedavg.protocol.trim=0.5", "protocol.trim is 0.5"),
    ("algorithms.fedavg.protocol.clip_norm=0", "protocol.clip_norm is 0"),
    ("screening.policy=ignore", "screening.policy is 'ignore'"),
    ("screening.too_large=1", "screening.too_large is 1"),
    ("attack={clients=0.2,kind='flip'}", "attack.kind is 'flip'"),
    ("attack={clients=0.2,scale=0}", "attack.scale is 0"),
    ("attack={kind='nan'}", "attack.clients is missing"),
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
        ("screening.polcy=stop", "screening.polcy", "policy"),
        ("attack={clients=0.2,knid='nan'}", "attack.knid", "kind"),
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
        ("problem=digit", ["problem.name is 'digit'", "did you mean 'digits'?", "quadratics"]),
        ("problem.model=cn", ["problem.model is 'cn'", "did you mean 'cnn'?", "mlp"]),
        ("problem=3", ["problem is 3", "must be a name, or a table with a name and options"]),
        ("problem.model=3", ["problem.model is 3", "must be a name, or a table with a name and options"]),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(base, setting, needles):
    message = refusal(base, setting)
    for needle in needles:
        assert needle in message


@pytest.mark.parametrize(
    ("bare", "table"),
    [
        ("problem=quadratics", "problem={name='quadratics'}"),
        ("problem.model=linear", "problem.model={name='linear'}"),
        ("problem.partition=iid", "problem.partition={name='iid'}"),
        ("topology=ring", "topology={name='ring'}"),
    ],
)
def test_a_bare_name_is_the_name_with_every_default(base, bare, table):
    assert load_recipe(base, [bare]) == load_recipe(base, [table]) != load_recipe(base)


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


def built(experiment: Experiment) -> Any:
    return build_algorithm(experiment, experiment.lines[0], build_problem(experiment, 0))


@pytest.mark.parametrize("name", ["persa_fl_me", "pfedme", "moreau+buffered"])
def test_a_lambda_that_does_not_exceed_the_smoothness_is_refused(name):
    """PersA-FL, Sec. 3: the Moreau envelope needs lambda > L, and L = 2 here."""
    for lambda_ in (1.5, 2.0):
        with pytest.raises(UserMistake, match=rf"objective\.lambda is {lambda_:g}, .* L = 2"):
            built(parse_recipe(quadratic_tables(name=name, objective={"lambda": lambda_})))
    assert built(parse_recipe(quadratic_tables(name=name, objective={"lambda": 2.5}))).name == name


@pytest.mark.parametrize("name", catalog.PROBLEMS)
def test_the_options_of_every_problem_are_checked_with_the_recipe(name):
    known = inspect.signature(catalog.PROBLEMS[name]).parameters
    needed = {option: "mine" for option in ("file", "target") if option in known}  # whose data it is has no default
    tables = {"problem": {"name": name, "clients": 3, **needed}, "algorithms": [{"name": "local"}]}
    assert parse_recipe(tables).problem.options["clients"] == 3
    tables["problem"]["cleints"] = 3
    with pytest.raises(UserMistake, match=r"problem\.cleints is not a known key \(did you mean 'clients'\?\)"):
        parse_recipe(tables)


def test_an_algorithm_s_own_training_wins_over_the_common_one():
    tables = quadratic_tables(name="local", training={"step_size": 0.5}) | {"training": {"local_steps": 7}}
    algorithm = built(parse_recipe(tables))
    assert (algorithm.step_size, algorithm.local_steps, algorithm.batch_size) == (0.5, 7, 32)


def test_more_clients_than_the_data_can_feed_are_refused_with_how_many_it_can():
    tables = {"problem": {"name": "digits", "clients": 5000}, "algorithms": [{"name": "local"}]}
    with pytest.raises(UserMistake, match=r"problem\.clients is 5000, but the 1797 samples of digits .* 599 at the"):
        build_problem(parse_recipe(tables), 0)
