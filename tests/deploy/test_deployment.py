"""Real processes on loopback with certificates on both sides: they train, are killed, and lose nothing."""

import numpy as np
import pytest
from safetensors.numpy import load_file

from idiolect.deploy.assignment import assignment
from idiolect.engines.simulator.stepwise_server import run_stepwise
from idiolect.experiments.recipe_files import load_recipe
from idiolect.network.timelines import read_timeline
from idiolect.trees import as_tensors, names_of
from tests.deploy.processes import Deployment

pytest.importorskip("zenoh")


def assert_replays(run: Deployment) -> None:
    """The simulator makes the same model of the timeline that was written down."""
    work = assignment(load_recipe(run.recipe), None)
    table = read_timeline(run.out / "timelines" / "mine-seed0.csv")
    params, _ = run_stepwise(work.program, work.problem.clients, table, seed=0)
    found, expected = load_file(run.out / "params" / "mine-seed0.safetensors"), as_tensors(names_of("server", params))
    assert found.keys() == expected.keys()
    for name in found:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-5)


def test_a_server_and_its_devices_train_are_killed_and_replay_in_the_simulator(tmp_path):
    with Deployment(tmp_path) as run:
        run.serve(updates=30, dies="after log", occurrence=12)
        run.join("bob", dies="after commit", occurrence=2)
        assert run.wait("bob") == -9
        for name in run.names:
            run.join(name)
        assert run.wait("server") == -9
        run.serve(updates=30)
        for who in ("server", *run.names):
            assert run.wait(who) == 0, run.said(who)
        assert run.status()["updates"] >= 30
        assert run.status()["refusals"] == {}
        assert all(device["incarnation"] for device in run.status()["devices"].values())
        assert_replays(run)
