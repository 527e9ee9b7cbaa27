"""What `make test` runs on a real Ray: one cluster, few actors. Run by `test_ray.py`, in a network of its own."""

import gc
import subprocess
import sys
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from idiolect.cli import main
from idiolect.engines import prepare
from idiolect.engines.backend import Job, dealt
from idiolect.engines.ray import ActorPool, RayBackend, turn_backend
from idiolect.errors import UserMistake
from idiolect.experiments.building import build_seed
from idiolect.experiments.describing import write_experiment
from idiolect.experiments.running import Execution
from idiolect.experiments.sources import cell_maker, source_of
from tests.survival.ray_runs import by_signal, cluster, experiment_of, killing, on_ray, outcomes, plainly, same

ray = pytest.fixture(scope="module")(cluster)


def test_the_same_results_and_what_many_receive_is_sent_once(ray, monkeypatch):
    sent: list[Any] = []
    put = ray.put
    monkeypatch.setattr(ray, "put", lambda value: sent.append(value) or put(value))
    monkeypatch.setattr(turn_backend, "SMALL", 0)  # smaller models go with their turns
    found, pool = on_ray(ray, experiment_of("fedavg"), count=1)
    assert same(found, plainly("fedavg"))
    assert (pool.count, pool.replaced) == (1, 0)
    rounds = sum(len(np.unique(outcome.table.round)) for outcome in found)
    assert len(sent) == rounds < sum(outcome.points[-1].updates for outcome in found) / 2
    with pytest.raises(ray.exceptions.RayActorError):  # nobody is left at work
        ray.get(pool.actor(0).process.remote())


def test_who_dies_is_replaced_and_what_was_lost_is_redone_and_counts_once(ray):
    found, pool = on_ray(ray, experiment_of("fedbuff"), disturb=killing(ray, [by_signal], every=8))
    assert pool.replaced == 1
    assert same(found, plainly("fedbuff"))


def test_while_the_run_waits_for_one_actor_the_other_is_kept_at_work(ray):
    experiment = experiment_of("fedbuff")
    _, problem, cells, _ = build_seed(experiment, 0)
    program = prepare(problem, cells["fedbuff"][0])
    server = program.protocol.server
    offer = server.offer(server.init(program.init(jax.random.key(0)), 1))
    slow, *_ = dealt(problem.clients.participating, 2)[0]
    quick = dealt(problem.clients.participating, 2)[1]
    make = partial(cell_maker, source_of(experiment))
    with ActorPool(ray, make, count=2, naps={slow: 3.0}) as pool:
        backend = RayBackend(pool, program, problem.clients, 0)
        for client in (slow, quick[0]):  # all is compiled
            backend.submit(Job(-1, client, (), 0, offer)).result()
        awaited = backend.submit(Job(0, slow, (), 0, offer))
        others = [backend.submit(Job(turn, quick[turn % 2], (), 0, offer, 1.0 + turn)) for turn in range(8)]
        awaited.result()
        assert all(turn.there for turn in others)


def test_a_mistake_that_an_actor_finds_is_told_as_a_mistake_and_once(ray, capfd):
    def missing(label: str, seed: int) -> Any:
        raise UserMistake("the data is not there")

    with ActorPool(ray, lambda: missing, count=1) as pool, pytest.raises(UserMistake, match=r"^the data is not there$"):
        outcomes(experiment_of("fedbuff"), Execution(partial(RayBackend, pool)))
    gc.collect()  # Ray would tell of the turns that nobody asked for when they are forgotten
    assert "the data is not there" not in capfd.readouterr().err


def test_a_run_keeps_its_clock(ray, capsys, tmp_path):
    """On the command line, which finds the cluster of these tests."""
    (tmp_path / "fedbuff.toml").write_text(write_experiment(experiment_of("fedbuff")))
    run = ["run", str(tmp_path / "fedbuff.toml"), "--out", str(tmp_path / "run"), "--engine", "ray", "--actors", "1"]
    here = [*run, "--set", "seeds=[0]", "horizon=0.3"]
    assert main([*here, "--clock", "real"]) == 0
    assert "at real time 0.3" in capsys.readouterr().out
    assert main(here) == 2
    assert f"--clock is virtual, but the run in {tmp_path / 'run'} has a real clock" in capsys.readouterr().err


def test_a_ray_that_does_not_start_is_one_sentence(tmp_path):
    """It cannot write where it is told to."""
    (tmp_path / "fedbuff.toml").write_text(write_experiment(experiment_of("fedbuff")))
    code = "import os, sys; os.environ['RAY_TMPDIR'] = sys.argv.pop(); from idiolect.cli import main; sys.exit(main())"
    run = ["run", tmp_path / "fedbuff.toml", "--engine", "ray", "--out", tmp_path / "run", tmp_path / "fedbuff.toml"]
    done = subprocess.run([sys.executable, "-c", code, *map(str, run)], capture_output=True, text=True, check=False)
    *others, line = done.stderr.splitlines()
    assert done.returncode == 2
    assert line.startswith("idiolect: no local Ray could be started: ")
    assert all("network_util.cc" in other for other in others), "Ray itself says that there is nobody around"
