"""Agents without a server on a real Ray, with real deaths. Run by `test_ray_agents.py`, in a network of its own.

Not collected by name, since Ray listens on every interface that it finds.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from idiolect.engines.checkpointing import NO_CHECKPOINTS, Checkpoint, Checkpointer
from idiolect.engines.ray import ActorPool, AgentActor, RayCrew, agent_crew, connected
from idiolect.errors import UserMistake
from idiolect.experiments.cell_results import Result
from idiolect.experiments.describing import write_experiment
from idiolect.experiments.running import Execution, Progress
from idiolect.experiments.sources import cell_maker, source_of
from idiolect.experiments.value import Experiment
from tests.survival.networks import furthest, network_of, outcomes, plainly

CLOSE = 1e-6  # rounding: models are learned in 32 bits


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    # Ray's workers are nice to others by default; on a busy machine they then take minutes to start.
    os.environ.setdefault("RAY_worker_niceness", "0")
    with connected() as module:
        yield module


def on_ray(
    ray: Any,
    experiment: Experiment,
    *,
    count: int = 2,
    disturb: Callable[[ActorPool, Progress], None] = lambda pool, state: None,
    checkpointer: Checkpointer = NO_CHECKPOINTS,
    **settings: Any,
) -> tuple[list[Result], ActorPool]:
    """What an experiment comes to; `disturb` is told of every moment, and has the pool at its mercy."""
    make = partial(cell_maker, source_of(experiment))
    with ActorPool(ray, make, kind=AgentActor, count=count, **settings) as pool:
        execution = Execution(crew=partial(RayCrew, pool))
        services = {"progress": partial(disturb, pool), "checkpointers": lambda label, cells: checkpointer}
        return outcomes(experiment, execution, **services), pool


@pytest.mark.parametrize(("name", "count"), [("pars_push", 2), ("sgp", 3), ("dpsgd", 2), ("qupel_push", 2)])
def test_the_same_results_as_the_simulator(ray, name, count):
    found, _ = on_ray(ray, network_of(name), count=count)
    apart = furthest(found, plainly(name))
    print(f"{name} on {count} actors: {apart:.1e} from the simulator")
    assert apart < CLOSE


def by_ray(ray: Any, pool: ActorPool) -> None:
    ray.kill(pool.actor(0))


def by_signal(ray: Any, pool: ActorPool) -> None:
    os.kill(ray.get(pool.actor(1).process.remote()), signal.SIGKILL)


def killing(ray: Any, how: list[Callable[[Any, ActorPool], None]]) -> Callable[[ActorPool, Progress], None]:
    """Kill an actor at every second moment, as long as there are ways to."""
    heard = 0

    def disturb(pool: ActorPool, state: Progress) -> None:
        nonlocal heard
        heard += 1
        if how and heard % 2 and state.time > 0:
            how.pop(0)(ray, pool)

    return disturb


@pytest.mark.parametrize("name", ["sgp", "ditto_push"])
def test_actors_are_killed_and_nothing_is_lost_or_counted_twice(ray, name, monkeypatch):
    """Between two looks, and while rounds are played: `moment` is called there."""
    monkeypatch.setattr(agent_crew, "LOOK", 0.01)
    found, pool = on_ray(ray, network_of(name), disturb=killing(ray, [by_ray, by_signal, by_ray]))
    print(f"{name}: {pool.replaced} actors replaced; {furthest(found, plainly(name)):.1e} from the simulator")
    assert pool.replaced >= 3
    assert furthest(found, plainly(name)) < CLOSE


def test_a_frozen_actor_is_replaced(ray):
    """Stopped, not killed: it is there, and says nothing."""
    frozen = []

    def freeze(pool: ActorPool, state: Progress) -> None:
        if not frozen and state.time > 0:
            frozen.append(ray.get(pool.actor(0).process.remote()))
            os.kill(frozen[0], signal.SIGSTOP)

    found, pool = on_ray(ray, network_of("rasgp"), disturb=freeze, patience=20.0)
    assert frozen
    assert pool.replaced >= 1
    assert furthest(found, plainly("rasgp")) < CLOSE


def test_work_that_kills_everybody_ends_the_run_with_a_sentence(ray, monkeypatch):
    monkeypatch.setattr(agent_crew, "DEATHS", 1)
    monkeypatch.setattr(agent_crew, "LOOK", 0.01)
    with pytest.raises(UserMistake, match=r"^--engine ray: 2 actors died over rounds \d+ to \d+; the last one said: "):
        on_ray(ray, network_of("sgp", rounds=4000), disturb=lambda pool, state: state.time and by_ray(ray, pool))


def test_a_run_on_ray_is_saved_and_goes_on_here_or_there(ray):
    moments: list[Checkpoint] = []
    collecting = NO_CHECKPOINTS._replace(tick=lambda save: moments.append(save()))
    experiment = network_of("pars_push")
    on_ray(ray, experiment, checkpointer=collecting)
    middle = [moment for moment in moments if 0 < moment.facts["rounds"] < 40][-1]
    loaded: Checkpointer = NO_CHECKPOINTS._replace(load=lambda: middle)
    there, _ = on_ray(ray, experiment, checkpointer=loaded, count=3)
    here = outcomes(experiment, checkpointers=lambda label, cells: loaded)
    assert furthest(there, plainly("pars_push")) < CLOSE
    assert furthest(here, plainly("pars_push")) < CLOSE
    print(f"saved on 2 actors after {middle.facts['rounds']} rounds, went on on 3 and here to the same end")


def test_a_run_that_the_simulator_saved_seed_by_seed_goes_on_on_ray(ray):
    moments: list[Checkpoint] = []
    collecting = NO_CHECKPOINTS._replace(tick=lambda save: moments.append(save()))
    experiment = network_of("sgp")
    outcomes(experiment, checkpointers=lambda label, cells: collecting, threads=2)
    assert moments[0].facts["width"] == 1
    there, _ = on_ray(ray, experiment, checkpointer=NO_CHECKPOINTS._replace(load=lambda: moments[0]))
    assert furthest(there, plainly("sgp")) < CLOSE


def test_a_mistake_that_an_actor_finds_is_told_as_a_mistake(ray):
    experiment = network_of("sgp")
    with pytest.raises(UserMistake, match="nowhere"):
        elsewhere(ray, experiment)


def elsewhere(ray: Any, experiment: Experiment) -> None:
    source = source_of(experiment, code=("nowhere_to_be_found.py",))
    with ActorPool(ray, partial(cell_maker, source), kind=AgentActor, count=2) as pool:
        outcomes(experiment, Execution(crew=partial(RayCrew, pool)))


PROGRAM = "import sys; from idiolect.cli import main; sys.exit(main())"


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", PROGRAM, *map(str, arguments)]


def test_the_command_line_stops_goes_on_and_ends_where_the_simulator_does(ray, tmp_path):
    """A recipe of both kinds, with a server and without, on the cluster of these tests, by its address."""
    lines = [{"name": "fedavg"}, {"name": "pars_push", "objective": {"steps": 1, "step_size": 0.02}}]
    experiment = network_of("sgp", rounds=3000, algorithms=lines)
    (tmp_path / "recipe.toml").write_text(write_experiment(experiment))
    where = ["--engine", "ray", "--address", ray.get_runtime_context().gcs_address, "--actors", 2]
    out = tmp_path / "ray"
    run = command("run", tmp_path / "recipe.toml", "--out", out, *where, "--checkpoint-every", 0.05)
    process = subprocess.Popen(run, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not list(out.glob("checkpoints/*pars_push*.safetensors")):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert f"go on with: idiolect resume {out} --engine ray --address" in errors
    subprocess.run(command("resume", out, *where), check=True)
    subprocess.run(command("run", tmp_path / "recipe.toml", "--out", tmp_path / "here"), check=True)
    files = list((tmp_path / "here" / "params").iterdir())
    assert len(files) > 2
    for file in files:
        one, other = load_file(file), load_file(out / "params" / file.name)
        assert one.keys() == other.keys()
        for name, leaf in one.items():
            np.testing.assert_allclose(leaf, other[name], rtol=1e-5, atol=1e-6)
