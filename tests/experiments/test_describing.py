"""How experiments are told apart: by options, by the content of arrays, and by the names of functions."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from idiolect.experiments.describing import describe, difference, is_described, write_experiment
from idiolect.experiments.recipe_files import completed
from idiolect.own_code import import_reference
from tests.experiments.own import NAMED, PLACES, leaning, mine, points_around, quick, written


def twice_as_far(params: Any, batch: Any) -> Any:
    return 2 * ((params - batch["x"]) ** 2).sum(-1).mean()


def told(one: Any, other: Any) -> str:
    return difference(describe(completed(one)), describe(completed(other)))


def test_the_same_arrays_options_and_functions_have_the_same_description():
    assert told(mine(), mine(problem=points_around(PLACES.copy()), algorithms=[leaning(), "fedavg"])) == ""
    assert write_experiment(mine()) == write_experiment(mine())


def test_a_description_is_toml_that_reads_back_the_same():
    assert tomllib.loads(write_experiment(mine())) == describe(mine())
    assert is_described(describe(mine()))
    assert not is_described(describe(completed(quick())))


def test_another_option_of_one_s_own_objective_is_named():
    found = told(mine(), mine(algorithms=[leaning(0.25), "fedavg"]))
    assert found.startswith("algorithms.leaning.objective.")
    assert found.endswith("weight is 0.5 there and 0.25 here")


def test_another_option_of_its_protocol_is_named():
    found = told(mine(), mine(algorithms=[leaning(beta=0.5), "fedavg"]))
    assert found.startswith("algorithms.leaning.protocol.")
    assert found.endswith("beta is 1.0 there and 0.5 here")


def test_another_array_is_named_by_its_digest():
    found = told(mine(), mine(problem=points_around(np.where(PLACES == 11, np.float32(10), PLACES))))
    assert found.startswith("problem.clients.")
    assert found.count("sha256:") == 2


def test_an_array_of_another_type_or_shape_is_another_one():
    def held(array: np.ndarray) -> Any:
        return lambda seed: (array, seed)

    numbers = np.zeros(4, np.float32)
    assert told(quick(problem=held(numbers)), quick(problem=held(numbers.copy()))) == ""
    for other in (numbers.astype(np.int32), numbers.reshape(2, 2), numbers[:3]):
        assert told(quick(problem=held(numbers)), quick(problem=held(other))).startswith("problem.array is 'float32[4]")


def test_another_function_is_named():
    found = told(mine(), mine(problem=points_around(PLACES, loss=twice_as_far)))
    assert "tests.experiments.own:distance" in found
    assert "tests.experiments.test_describing:twice_as_far" in found


def test_the_order_of_options_is_no_difference_and_what_one_side_lacks_is_told():
    options = NAMED.options
    other = NAMED._replace(options=dict(reversed(list(options.items()))))
    assert told(quick(), quick(problem=other)) == ""
    found = told(quick(), quick(evaluation={"points": 2, "batch_size": 2, "at_most": 3}))
    assert found == "evaluation.at_most is 3 here only"
    assert told(quick(), quick(horizon=21.0)) == "horizon is 20.0 there and 21.0 here"
    assert told(quick(), quick(seeds=[0, 1])) == "seeds is [0] there and [0, 1] here"


SCRIPT = """
import sys
from idiolect import Choice, Experiment
from idiolect.experiments.describing import write_experiment
from idiolect.problems.synthetic import quadratics

def near(seed, scale=2.0):
    return quadratics(clients=3, seed=seed)

def make():
    return Experiment(near, ["fedavg"])

if __name__ == "__main__":
    sys.stdout.write(write_experiment(make()))
"""


def test_a_function_of_a_script_has_the_same_name_when_its_file_is_imported(tmp_path: Path):
    script = written(tmp_path, SCRIPT, "script.py")
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert 'made_by = "script.py:near"' in run.stdout
    assert write_experiment(import_reference(f"{script}:make")()) == run.stdout
