"""Clients spread over several devices, which a process of its own is forced to have: the results of one device."""

import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from idiolect import catalog
from idiolect.engines import Workers, prepare
from idiolect.engines.several_devices import SeveralDevices, clients_at, homes_of, with_sharded_server
from idiolect.engines.side_by_side import batching_of, threads
from idiolect.problems.synthetic import quadratics

NAMES = ("fedasync", "scaffold", "local")  # each on its own, in rounds with what clients keep, and sharing nothing
PROGRAM = """
import json, sys
import jax
import numpy as np
from idiolect import Choice, Experiment, run
from idiolect.engines import several_devices

def ends(out, **training):
    problem = Choice("quadratics", {{"clients": 9, "dimension": 8, "samples": 12}})
    mine = Experiment(problem, {names}, horizon=25.0, training={{"step_size": 0.02, "local_steps": 3, **training}})
    found = run(mine, out=out)
    return {{
        f"{{label}}{{name}}": tensor.ravel().tolist()
        for label in {names}
        for name, tensor in found.parameters(label).items()
    }}

found = {{"devices": jax.local_device_count(), "plain": ends(sys.argv[1] + "/plain")}}
found["batched"] = ends(sys.argv[1] + "/batched", side_by_side=2)
if found["devices"] > 1:
    found["again"] = ends(sys.argv[1] + "/again", side_by_side=2)
    several_devices.with_sharded_server.__kwdefaults__["large"] = 0
    found["sharded"] = ends(sys.argv[1] + "/sharded")
print(json.dumps(found))
"""


def on(devices, out):
    """What comes of a few runs in a process with so many devices."""
    flags = f"--xla_force_host_platform_device_count={devices}"
    command = [sys.executable, "-c", PROGRAM.format(names=NAMES), str(out)]
    done = subprocess.run(
        command, env={**os.environ, "XLA_FLAGS": flags}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def close(one, other):
    assert one.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_allclose(values, other[name], rtol=2e-5, atol=1e-6, err_msg=name)


def test_four_devices_give_what_one_does(tmp_path):
    one, four = on(1, tmp_path / "one"), on(4, tmp_path / "four")
    assert (one["devices"], four["devices"]) == (1, 4)
    assert len(one["plain"]) > len(NAMES), "what clients keep is compared as well"
    for way in ("plain", "batched"):
        close(four[way], one[way])
    assert four["again"] == four["batched"], "to the byte, for a given batching"
    close(four["sharded"], one["plain"])


def test_everyone_has_one_home_and_its_rows_lie_there():
    problem, devices = quadratics(clients=5, dimension=2, samples=8), [jax.local_devices()[0]] * 2
    homes = homes_of(problem.clients, devices)
    assert sorted(client for members in homes for client in members) == problem.clients.participating
    for device, members in zip(devices, homes, strict=True):
        train = clients_at(problem.clients, members, device).train
        for client in range(5):
            start, size = train.starts[client], train.sizes[client]
            first = problem.clients.train.starts[client]
            for mine, everybodys in zip(
                jax.tree.leaves(train.rows), jax.tree.leaves(problem.clients.train.rows), strict=True
            ):
                np.testing.assert_array_equal(mine[start : start + size], everybodys[first : first + size])
            assert size == (problem.clients.train.sizes[client] if client in members else 0)


def test_one_device_is_no_crowd():
    problem = quadratics(clients=3, dimension=2)
    program = prepare(problem, catalog.algorithm("fedasync", problem))
    assert with_sharded_server(program, jax.local_devices()[:1], large=0) is program
    with Workers(1) as workers:
        assert isinstance(threads(program, problem.clients, workers, 0), SeveralDevices) == (
            jax.local_device_count() > 1
        )


@pytest.mark.parametrize(("asked", "width"), [(None, 1), (6, 6)])
def test_how_many_turns_at_once_is_told(asked, width):
    problem = quadratics(clients=3, dimension=2)
    told = batching_of(prepare(problem, catalog.algorithm("fedasync", problem, side_by_side=asked)), 0)
    assert told == (width, 8, None, jax.local_device_count())
