"""One catalogue of mistakes, each made at the command line and in Python: the same sentence at both doors.

What only Python can get wrong, data and functions of one's own, has a table of its own.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

import idiolect
from idiolect.cli import main
from idiolect.errors import UserMistake
from idiolect.network import topology
from idiolect.problems.data import Shares
from idiolect.problems.synthetic import quadratics

RECIPE = """
horizon = 20
problem = { name = "quadratics", clients = 3, dimension = 2, samples = 8 }

[[algorithms]]
name = "%s"
"""


class Mistake(NamedTuple):
    """What is said of it; as settings of a recipe; and as arguments of `learn` and of `Experiment`."""

    said: str
    settings: list[str]
    learn: dict[str, Any] | None
    experiment: dict[str, Any] | None = None


EVERYWHERE = {
    "a horizon in words": Mistake("horizon is 'soon', but", ["horizon=soon"], {"horizon": "soon"}),
    "no horizon at all": Mistake("horizon is nan, but", ["horizon=nan"], {"horizon": float("nan")}),
    "half a sample": Mistake("batch_size is 2.5, but", ["training.batch_size=2.5"], {"batch_size": 2.5}),
    "half a step": Mistake("local_steps is 1.5, but", ["training.local_steps=1.5"], {"local_steps": 1.5}),
    "a step backwards": Mistake("step_size is -1, but", ["training.step_size=-1"], {"step_size": -1}),
    "an unknown algorithm": Mistake(
        "did you mean 'fedavg'?", ["algorithms=[{name='fedavgg'}]"], {"algorithm": "fedavgg"}
    ),
    "a number for a name": Mistake(
        "is 3, but input should be a valid string", ["algorithms=[{name=3}]"], {"algorithm": 3}
    ),
    "an option of another": Mistake(
        "objective.lamda is not a known key",
        ["algorithms=[{name='persa_fl_me',objective={lamda=3}}]"],
        {"algorithm": "persa_fl_me", "objective": {"lamda": 3}},
    ),
    "options that are a word": Mistake(
        "objective is 'x', but", ["algorithms=[{name='fedavg',objective='x'}]"], {"objective": "x"}
    ),
    "a network that loses all": Mistake(
        "network.dropout is 2, but", ["network.dropout=2"], {"network": {"dropout": 2}}
    ),
    "a network that is a number": Mistake("network is 3, but", ["network=3"], {"network": 3}),
    "links that are a number": Mistake("links is 3, but", ["links=3"], {"links": 3}),
    "an attack that is a number": Mistake("attack is 0.2, but", ["attack=0.2"], {"attack": 0.2}),
    "a policy nobody has": Mistake(
        "screening.policy is 'forgive', but", ["screening.policy=forgive"], {"screening": idiolect.Screening("forgive")}
    ),
    "no evaluation": Mistake("points is 0, but", ["evaluation.points=0"], {"points": 0}),
    "a file that is not there": Mistake(
        "timeline nowhere.csv cannot be read", ["timeline=nowhere.csv"], {"timeline": "nowhere.csv"}
    ),
    "a problem nobody has": Mistake(
        "problem.name is 'quadratic' (did you mean 'quadratics'?)", ["problem=quadratic"], {"problem": "quadratic"}
    ),
    "a problem that is a number": Mistake("problem is 3, but must be a name", ["problem=3"], {"problem": 3}),
    "a negative seed": Mistake(
        "is -1, but input should be greater than or equal to 0", ["seeds=[-1]"], {"seed": -1}, {"seeds": [-1]}
    ),
    "a name with a slash": Mistake(
        "name is 'a/b', but must begin with a letter or a digit, and go on with letters",
        ["name=a/b"],
        None,
        {"name": "a/b"},
    ),
    "a label with a blank": Mistake(
        "label is 'a b', but must begin with a letter or a digit, and go on with letters",
        ["algorithms=[{name='fedavg',label='a b'}]"],
        None,
        {"algorithms": [{"name": "fedavg", "label": "a b"}]},
    ),
    "one table of algorithms": Mistake(
        "algorithms is one table, but must be a list of them; in a recipe write [[al",
        ["algorithms={name='fedavg'}"],
        None,
        {"algorithms": {"name": "fedavg"}},
    ),
    "a start with nothing": Mistake(
        "start must have either run, a folder, or pretrain", ["start={}"], None, {"start": {}}
    ),
}


def one_sentence(raised: pytest.ExceptionInfo[UserMistake]) -> str:
    said = str(raised.value)
    assert "\n" not in said
    assert len(said) < 800
    return said


@pytest.mark.parametrize("mistake", EVERYWHERE.values(), ids=EVERYWHERE)
def test_both_doors_say_the_same(mistake, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(RECIPE % "fedavg")
    assert main(["run", "mine.toml", "--out", "out", "--set", *mistake.settings]) == 2
    output, error = capsys.readouterr()
    assert (output, error.count("\n")) == ("", 1)
    assert mistake.said in error
    assert not Path("out").exists()
    if mistake.learn is not None:
        given = {"problem": quadratics(clients=3, dimension=2), "algorithm": "fedavg", "horizon": 20.0, **mistake.learn}
        with pytest.raises(UserMistake) as raised:
            idiolect.learn(**given)
        assert mistake.said in one_sentence(raised)
    if mistake.experiment is not None:
        with pytest.raises(UserMistake) as raised:
            idiolect.Experiment(**{"algorithms": ["fedavg"], **mistake.experiment})
        assert mistake.said in one_sentence(raised)


X, Y = np.ones((10, 2)), np.ones(10)
GOOD = [{"x": X, "y": Y}] * 3
HOLE = np.where(np.arange(20).reshape(10, 2) == 7, np.nan, X)


def start(key: Any) -> Any:
    return jnp.zeros(2)


def loss(params: Any, batch: Any) -> Any:
    return ((batch["x"] @ params - batch["y"]) ** 2).mean()


def of_data(data: Any) -> Callable[[], Any]:
    return lambda: idiolect.problem(start, loss, data)


def of_functions(init: Any = start, loss: Any = loss, **options: Any) -> Callable[[], Any]:
    return lambda: idiolect.problem(init, loss, GOOD, **options)


def learning(**options: Any) -> Callable[[], Any]:
    return lambda: idiolect.learn(quadratics(clients=3, dimension=2), "rasgp", horizon=5.0, **options)


@cache
def learned() -> idiolect.Result:
    return idiolect.learn(quadratics(clients=3, dimension=2), "fedasync", horizon=10.0, points=1, local_steps=1)


IN_PYTHON = {
    "a string": (of_data("x"), "data is of type str, but must be a list with one tree of arrays for each client"),
    "one dict for all": (of_data({"x": X}), "data is of type dict, but must be a list"),
    "a generator": (of_data(rows for rows in GOOD), "data is of type generator, but must be a list"),
    "a number": (of_data(np.array(3.0)), "data is of type ndarray, but must be a list"),
    "numbers too large": (of_data([{"x": X * 1e99, "y": Y}]), "x has 1e+99 in row 0, but every number that a client"),
    "nobody": (of_data([]), "data is empty"),
    "nothing": (of_data([None]), "client 0's data is None, but must be a tree of arrays"),
    "lists": (of_data([{"x": X.tolist()}]), "client 0's x.0.0 is 1.0, but must be an array whose first axis"),
    "words": (of_data([{"x": np.array(["a", "b"])}]), "client 0's x is an array of <U1, but must be one of numbers"),
    "a scalar": (of_data([{"x": X, "y": 1.0}]), "client 0's y is 1.0, but must be an array"),
    "other keys": (of_data([GOOD[0], {"x": X, "z": Y}]), "client 1 has the arrays x, z, but client 0 has x, y"),
    "other widths": (of_data([GOOD[0], {"x": np.ones((9, 5)), "y": Y[:9]}]), "client 1's x has rows of shape (5,)"),
    "other lengths": (of_data([{"x": X, "y": Y[:4]}]), "client 0 has arrays of different lengths (x 10, y 4)"),
    "a hole": (of_data([GOOD[0], {"x": HOLE, "y": Y}]), "client 1's x has nan in row 3, but every number"),
    "a start that is no function": (of_functions(init=3), "init is 3, but must be a function: init(key)"),
    "a start without a key": (of_functions(init=lambda: X), "init takes (), but is called as init(key)"),
    "whole numbers": (of_functions(init=lambda key: jnp.zeros(2, int)), "init(key) gives parameters of type int"),
    "no parameters": (of_functions(init=lambda key: None), "init(key) gives no parameters"),
    "a loss of one argument": (of_functions(loss=lambda params: 0.0), "loss takes (params), but is called as loss("),
    "a loss for each": (of_functions(loss=lambda p, b: b["x"] @ p), "gives an array of shape (2,) for 2 samples"),
    "a loss in NumPy": (of_functions(loss=lambda p, b: np.asarray(b["x"]).mean()), "compute with jax.numpy"),
    "a loss with a slip": (of_functions(loss=lambda p, b: b["q"]), "loss(params, batch) fails with KeyError: 'q'"),
    "two losses": (of_functions(loss=lambda p, b: (0.0, 1.0)), "gives 2 arrays, but must give one number"),
    "a loss that counts": (of_functions(loss=lambda p, b: jnp.int32(1)), "which has no gradient"),
    "a score for each": (of_functions(score=lambda p, b: b["y"]), "score(params, batch) gives an array of shape (2,)"),
    "a share in words": (of_functions(unseen="half"), "unseen is 'half', but"),
    "a negative seed": (of_functions(seed=-1), "seed is -1, but"),
    "too large a share": (of_functions(shares=Shares(train=2.0)), "shares.train is 2.0, but"),
    "a graph": (learning(topology=topology(3, [(0, 1), (1, 2), (2, 0)])), "topology is a graph of 3 agents, but must"),
    "a bar in words": (learning(progress="loud"), "progress is 'loud', but"),
    "a trajectory in words": (learning(trajectory="long"), "trajectory is 'long', but"),
    "a start of another shape": (learning(start=jnp.zeros(5)), "start has shape (5,) for its parameters"),
    "data for a problem": (lambda: idiolect.learn(GOOD, "fedavg"), "problem is a list, but must be a name"),
    "a client that is not there": (lambda: learned().model(3), "client is 3, but the clients are numbered from 0 to 2"),
    "a client before the first": (lambda: learned().received(-1), "client is -1, but the clients are numbered"),
    "a client in words": (lambda: learned().model("ann"), "client is 'ann', but the clients are numbered"),
    "a budget that is a table": (learning(budget={}), "budget is {}, but must be an idiolect.Budget"),
    "a table with a bad step": (lambda: idiolect.Training(step_size=-1), "step_size is -1, but"),
    "a table in a table": (lambda: idiolect.NamedAlgorithm(name="a", training={"step_sise": 1}), "training.step_sise"),
}


@pytest.mark.parametrize(("door", "said"), IN_PYTHON.values(), ids=IN_PYTHON)
def test_python_says_it_in_a_sentence(door, said):
    with pytest.raises(UserMistake) as raised:
        door()
    assert said in one_sentence(raised)


def test_numbers_of_numpy_are_numbers():
    made = idiolect.problem(start, loss, GOOD, seed=np.int64(3), unseen=np.float32(0.3))
    assert made.clients.total == 3
    experiment = idiolect.Experiment(made, ["fedavg"], seeds=np.arange(2), horizon=np.float32(20), network={})
    assert (experiment.seeds, experiment.horizon, experiment.network) == ([0, 1], 20.0, idiolect.Network())


def test_a_failing_function_of_the_user_s_keeps_its_own_trace():
    with pytest.raises(UserMistake) as raised:
        of_functions(loss=lambda p, b: b["q"])()
    assert isinstance(raised.value.__cause__, KeyError)


@pytest.mark.parametrize("algorithm", ["fedavg", "rasgp"])
@pytest.mark.parametrize(
    ("init", "of"),
    [(lambda key: jnp.full(2, jnp.nan), loss), (start, lambda params, batch: jnp.log(params).sum())],
    ids=["parameters", "loss"],
)
def test_what_is_no_number_before_any_step_is_not_blamed_on_the_step_size(algorithm, init, of):
    with pytest.raises(idiolect.Diverged, match="nothing was trained yet") as raised:
        idiolect.learn(idiolect.problem(init, of, GOOD), algorithm, horizon=30.0, points=1, local_steps=1)
    assert "step size" not in str(raised.value)
