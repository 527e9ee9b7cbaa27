"""Clients spread over several devices, which a process of its own is forced to have: the results of one device."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from idiolect import catalog
from idiolect.engines import Workers, prepare, simulate
from idiolect.engines.several_devices import LARGE, SeveralDevices, clients_at, homes_of, with_sharded_server
from idiolect.engines.side_by_side import batching_of, threads
from idiolect.network import Network, draw_timeline
from idiolect.problems.synthetic import quadratics

PROGRAM = """
import json
import sys
from tests.test_several_devices import found_here
print(json.dumps(found_here(*sys.argv[1].split(","))))
"""
WIDTHS = {"plain": 1, "batched": 2, "again": 2, "sharded": 1}


def found_here(names, ways):
    """The model of every client at the end of a few runs on the devices of this process, and what clients keep."""
    problem, found = quadratics(clients=9, dimension=8, samples=12), {"devices": jax.local_device_count()}
    for way, name in ((way, name) for way in ways.split() for name in names.split()):
        chosen = catalog.algorithm(name, problem, local_steps=3, step_size=0.02, side_by_side=WIDTHS[way])
        whole = prepare(problem, chosen)
        program = with_sharded_server(whole, jax.local_devices(), large=0 if way == "sharded" else LARGE)
        found["parts"] = len(program.init(jax.random.key(0)).addressable_shards)
        table = draw_timeline(Network(), range(9), chosen.protocol.schedule, horizon=25.0, seed=0)
        with Workers(2) as workers:
            backend = threads(program, problem.clients, workers, 0)
            assert isinstance(backend, SeveralDevices) == (jax.local_device_count() > 1)
            *_, last = simulate(program, problem.clients, table, backend, seed=0, times=[25.0])
        kept = {client: jax.tree.leaves(last.personal[client]) for client in last.personal}
        found[f"{name} {way}"] = [np.ravel(last.model(client)).tolist() for client in range(9)]
        found[f"{name} {way} kept"] = [np.ravel(leaf).tolist() for client in sorted(kept) for leaf in kept[client]]
    return found


def on(devices, names, ways):
    """The same in a process with so many devices."""
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", PROGRAM, f"{names},{ways}"]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def close(one, other):
    assert len(one) == len(other) > 0
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-6)


def test_four_devices_give_what_one_does():
    """SCAFFOLD: a server with rounds and more than a model, and clients that keep something."""
    one, four = found_here("scaffold", "batched"), on(4, "scaffold", "batched sharded")
    assert (four["devices"], four["parts"]) == (4, 4), "the server's model was split"
    for way in ("batched", "sharded"):
        close(four[f"scaffold {way}"], one["scaffold batched"])
        close(four[f"scaffold {way} kept"], one["scaffold batched kept"])


@pytest.mark.slow
def test_whatever_the_protocol_and_to_the_byte_for_a_given_batching():
    names = "fedasync fedbuff pfedme local"
    one, four = on(1, names, "plain batched"), on(4, names, "plain batched again sharded")
    for name in names.split():
        for way in ("plain", "batched", "sharded"):
            close(four[f"{name} {way}"], one[f"{name} {'plain' if way == 'sharded' else way}"])
        assert four[f"{name} again"] == four[f"{name} batched"]


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
    assert told == (width, 8, None, jax.local_device_count(), asked is not None)
