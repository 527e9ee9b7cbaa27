"""Client work on Ray: what needs no cluster is tested here, the rest in files that run in a network of their own."""

import subprocess
import sys

import jax
import numpy as np
import pytest

from idiolect.engines.ray import actor_pool
from idiolect.engines.ray.actor import TurnActor, only
from idiolect.experiments.building import build_problem
from tests.survival.ray_runs import experiment_of, pass_there


def test_on_a_real_ray():
    pass_there("briefly_on_ray.py", "not slow")


@pytest.mark.slow
def test_on_a_real_ray_at_length():
    pass_there("on_ray.py", "")


def test_who_takes_the_place_of_the_silent_gets_twice_as_long_up_to_a_bound():
    given = [actor_pool.patience_after(silences, 30.0) for silences in range(actor_pool.DEATHS)]
    assert given == [30.0, 60.0, 120.0, 240.0, 240.0, 240.0, 240.0, 240.0]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("OutOfMemoryError", "fewer --actors"),
        ("ObjectStoreFullError", "a larger --object-store-memory"),
        ("OutOfDiskError", "make room where it spills to"),
        ("NodeDiedError", "its machine is gone: look after the cluster, then resume"),
    ],
)
def test_what_may_help_is_said_of_errors_that_ray_has(error, words):
    exceptions = pytest.importorskip("ray.exceptions", reason="Ray is not installed; pip install -e '.[test]'")
    assert issubclass(getattr(exceptions, error), exceptions.RayError)
    assert words in actor_pool.advice(f"{error}: and more")


def test_of_silence_something_is_said_and_nothing_of_what_nobody_knows():
    assert "its machine may hang" in actor_pool.advice("no answer for 600 s")
    assert actor_pool.advice("RayActorError: The actor died unexpectedly") == ""


def test_an_actor_keeps_the_rows_of_its_own_clients_and_no_others():
    split = build_problem(experiment_of("fedavg"), 0).clients.train
    mine = only(split, [1, 3])
    assert mine.sizes.tolist() == [0, split.sizes[1], 0, split.sizes[3], 0]
    for client in (1, 3):
        for before, after in zip(jax.tree.leaves(split.rows), jax.tree.leaves(mine.rows), strict=True):
            assert len(after) == mine.sizes.sum()
            here, there = (part.starts[client] + np.arange(part.sizes[client]) for part in (split, mine))
            assert np.asarray(before)[here].tobytes() == np.asarray(after)[there].tobytes()


def test_ray_need_not_be_there_to_import_what_actors_do():
    assert TurnActor.__module__ == "idiolect.engines.ray.actor"
    code = "import sys, idiolect.engines.ray; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
