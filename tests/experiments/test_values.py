"""An experiment made in Python: what is wrong with it is told in one sentence when it is made or completed."""

from typing import Any

import pytest

import idiolect
from idiolect import Choice, Experiment, NamedAlgorithm, UserMistake
from idiolect.experiments.building import build_problem
from idiolect.experiments.recipe_files import completed, load_recipe
from tests.experiments.own import NAMED, leaning, mine, quick


def refusal(**changes: Any) -> str:
    with pytest.raises(UserMistake) as mistake:
        completed(quick(**changes))
    message = str(mistake.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"algorithms": []}, "algorithms is empty, but an experiment needs at least one"),
        ({"algorithms": ()}, "algorithms is empty, but an experiment needs at least one"),
        ({"algorithms": [3]}, "algorithms.0 is 3"),
        ({"algorithms": 3}, "algorithms is 3"),
        ({"algorithms": ["fedavgg"]}, "algorithm is 'fedavgg' (did you mean 'fedavg'?)"),
        ({"algorithms": ["fedavg", "fedavg"]}, "two algorithms are called 'fedavg'; give one a label of its own"),
        ({"algorithms": [leaning(), leaning()]}, "two algorithms are called 'leaning'; give one a label of its own"),
        ({"algorithms": ["fedavg", leaning(name="fedavg")]}, "two algorithms are called 'fedavg'"),
        ({"algorithms": [leaning(name="a/b")]}, "algorithms.0.label is 'a/b'"),
        ({"seeds": []}, "seeds is []"),
        ({"seeds": 3}, "seeds is 3"),
        ({"seeds": [-1]}, "seeds.0 is -1"),
        ({"seeds": [0, 1.5]}, "seeds.1 is 1.5"),
        ({"seeds": [1, 1]}, "seeds [1, 1] repeat themselves"),
        ({"seeds": ["one"]}, "seeds.0 is 'one'"),
        ({"horizon": "soon"}, "horizon is 'soon'"),
        ({"horizon": -1.0}, "horizon is -1.0"),
        ({"horizon": float("nan")}, "horizon is nan"),
        ({"problem": 3}, "problem is 3, but must be a name, or a table with a name and options"),
        ({"problem": {"clients": 3}}, "problem.name is missing"),
        ({"problem": "quadratic"}, "problem.name is 'quadratic' (did you mean 'quadratics'?)"),
        ({"problem": Choice("quadratics", {"cleints": 3})}, "problem.cleints is not a known key (did you mean 'clien"),
        ({"problem": Choice("quadratics", {"clients": "many"})}, "problem.clients is 'many'"),
        ({"topology": 3}, "topology is 3, but must be a name, or a table with a name and options"),
        ({"topology": Choice("rng")}, "topology is 'rng' (did you mean 'ring'?)"),
        ({"topology": Choice("ring", {"wdth": 3})}, "topology.wdth is not a known key"),
        ({"training": {"step_sise": 0.1}}, "training.step_sise is not a known key (did you mean 'step_size'?)"),
        ({"training": {"local_steps": 0}}, "training.local_steps is 0"),
        ({"training": 3}, "training is 3"),
        ({"evaluation": {"times": [30.0]}}, "evaluation.times has 30, but the run ends at horizon 20"),
        ({"evaluation": {"steps": [1, 1]}}, "evaluation.steps is [1, 1]"),
        ({"network": {"download": {"law": "fxed"}}}, "network.download.law is 'fxed' (did you mean 'fixed'?)"),
        ({"network": 3}, "network is 3"),
        ({"name": "../up"}, "name is '../up'"),
        ({"algorithms": [{"name": "fedavg", "protocl": {}}]}, "algorithms.0.protocl is not a known key"),
        (
            {"algorithms": [NamedAlgorithm(name="persa_fl_me", objective={"lamda": 3})]},
            "persa_fl_me: objective.lamda is not a known key (did you mean 'lambda'?)",
        ),
        (
            {"algorithms": [NamedAlgorithm(name="fedavg", protocol={"participation": 2})]},
            "fedavg: protocol.participation is 2",
        ),
    ],
)
def test_a_mistake_is_one_sentence(changes, words):
    assert words in refusal(**changes)


def test_no_algorithms_at_all_is_a_mistake_as_well():
    with pytest.raises(UserMistake, match="algorithms is empty, but an experiment needs at least one"):
        Experiment(NAMED)


def test_a_problem_that_is_none_is_told_when_it_is_built():
    with pytest.raises(UserMistake, match=r"problem gives int for seed 7, but must give an idiolect\.Problem"):
        build_problem(quick(problem=lambda seed: seed), 7)


def test_a_function_of_the_seed_makes_the_problem():
    problem = mine().problem
    assert build_problem(quick(problem=lambda seed: problem._replace(name=f"seed {seed}")), 7).name == "seed 7"


def test_an_experiment_in_python_is_the_one_that_its_recipe_says(tmp_path):
    (tmp_path / "quick.toml").write_text(
        'name = "experiment"\nhorizon = 20\n'
        '[problem]\nname = "quadratics"\nclients = 4\ndimension = 3\nsamples = 8\n'
        "[training]\nlocal_steps = 2\nstep_size = 0.1\nbatch_size = 2\n"
        '[evaluation]\npoints = 2\nbatch_size = 2\n[[algorithms]]\nname = "fedavg"\n'
    )
    assert completed(quick()) == load_recipe(tmp_path / "quick.toml")


def test_one_algorithm_needs_no_list_and_replace_checks_again():
    assert quick(algorithms="fedavg").labels == ["fedavg"]
    assert quick(algorithms=leaning()).labels == ["leaning"]
    assert mine().labels == ["leaning", "fedavg"]
    assert mine().replace(seeds=[5]).seeds == [5]
    with pytest.raises(UserMistake, match="horizon is 0"):
        mine().replace(horizon=0)


def test_what_is_no_experiment_is_told(tmp_path):
    with pytest.raises(UserMistake, match="experiment is int, but must be an Experiment, a function that makes one"):
        idiolect.run(3, out=tmp_path / "out")
    with pytest.raises(UserMistake, match="experiment gives int, but must give an Experiment"):
        idiolect.run(lambda: 3, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
